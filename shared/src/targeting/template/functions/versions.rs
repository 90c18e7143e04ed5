//! Versions, and their methods.

use std::{cmp::Ordering, rc::Rc};

use super::{
    super::value::Value,
    args::{Function, exactly},
};
use crate::chart::{constraint::Constraint, version::Version};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "semver" => exactly(1, |c| read(&c.text(0)?)),
        "semverCompare" => exactly(2, |c| {
            let constraint = Constraint::parse(&c.text(0)?).map_err(|error| error.to_string())?;
            let version = Version::parse(&c.text(1)?).map_err(|error| error.to_string())?;
            Ok(constraint.matches(&version).into())
        }),
        _ => return None,
    })
}

fn read(text: &str) -> Result<Value, String> {
    let version = Version::parse(text).map_err(|error| error.to_string())?;
    Ok(Value::Version(Rc::new(version)))
}

/// Calls a method of a version, or reads what Go has methods for. Numbers are `int64`, where they are `uint64` in Go.
pub fn method(version: &Version, name: &str, args: &[Value]) -> Result<Value, String> {
    let wanted = usize::from(compares(name).is_some() || name == "Compare");
    if args.len() != wanted {
        return Err(format!(
            "wrong number of args for {name}: want {wanted} got {}",
            args.len()
        ));
    }
    match args {
        [Value::Version(other)] => Ok(compare(version, name, other)),
        [_, ..] => Err(format!(
            "wrong type for value; expected *semver.Version; {name} compares with what semver gives"
        )),
        [] => plain(version, name),
    }
}

/// The method that asks for an order, by its name.
fn compares(name: &str) -> Option<fn(Ordering) -> bool> {
    Some(match name {
        "Equal" => Ordering::is_eq,
        "LessThan" => Ordering::is_lt,
        "LessThanEqual" => Ordering::is_le,
        "GreaterThan" => Ordering::is_gt,
        "GreaterThanEqual" => Ordering::is_ge,
        _ => return None,
    })
}

fn compare(version: &Version, name: &str, other: &Version) -> Value {
    let order = version.precedence(other);
    match compares(name) {
        Some(holds) => holds(order).into(),
        None => Value::Int(order as i64),
    }
}

fn plain(version: &Version, name: &str) -> Result<Value, String> {
    let number = |number: u64| {
        let number = i64::try_from(number).map_err(|_| format!("{number} is too large for a template"))?;
        Ok(Value::Int64(number))
    };
    match name {
        "Major" => number(version.major()),
        "Minor" => number(version.minor()),
        "Patch" => number(version.patch()),
        "Prerelease" => Ok(Value::str(version.prerelease())),
        "Metadata" => Ok(Value::str(version.metadata())),
        "Original" => Ok(Value::str(version.original())),
        "String" => Ok(version.to_string().into()),
        "IncMajor" => next(version, [version.major().saturating_add(1), 0, 0]),
        "IncMinor" => next(version, [version.major(), version.minor().saturating_add(1), 0]),
        "IncPatch" => {
            // The release comes after its own pre-releases.
            let step = u64::from(version.prerelease().is_empty());
            next(
                version,
                [
                    version.major(),
                    version.minor(),
                    version.patch().saturating_add(step),
                ],
            )
        }
        _ => Err(format!("can't evaluate field {name} in type *semver.Version")),
    }
}

/// A release, written with a `v` if the version was.
fn next(version: &Version, [major, minor, patch]: [u64; 3]) -> Result<Value, String> {
    let v = if version.original().starts_with('v') {
        "v"
    } else {
        ""
    };
    read(&format!("{v}{major}.{minor}.{patch}"))
}

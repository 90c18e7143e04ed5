//! Versions, and their methods.

use std::{cmp::Ordering, rc::Rc};

use masterminds_semver::{Constraint, Version};

use super::{
    super::{heap::Heap, value::Value},
    args::{Function, exactly},
};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "semver" => exactly(1, |c| parse(c.heap, &c.text(0)?)),
        "semverCompare" => exactly(2, |c| {
            c.heap.charge_steps(CONSTRAINT_STEPS)?;
            // The messages do not contain the texts, which may be values.
            let constraint = Constraint::parse(&c.text(0)?)
                .map_err(|_| "improper constraint; write one such as >=1.2 <2 or ~3.1")?;
            let version = Version::parse(&c.text(1)?).map_err(|_| INVALID_VERSION)?;
            Ok(constraint.matches(&version).into())
        }),
        _ => return None,
    })
}

const INVALID_VERSION: &str = "invalid semantic version; write one such as 1.2.3";

/// Steps to parse a constraint, which has at most 512 bytes.
const CONSTRAINT_STEPS: usize = 100;
/// Steps to parse a version, which has at most 256 bytes.
const VERSION_STEPS: usize = 10;

fn parse(heap: &Heap, text: &str) -> Result<Value, String> {
    heap.charge_steps(VERSION_STEPS)?;
    let version = Version::parse(text).map_err(|_| INVALID_VERSION)?;
    heap.charge_write(2 * text.len())?;
    Ok(Value::Version(Rc::new(version)))
}

/// Calls a method of a version. Numbers are `int64`, unlike in Go, where they are `uint64`.
pub fn method(heap: &Heap, version: &Version, name: &str, args: &[Value]) -> Result<Value, String> {
    heap.charge_steps(2)?;
    heap.charge_write(version.original().len())?;
    match (comparison(name), args) {
        (Some(result_of), [Value::Version(other)]) => Ok(result_of(version.precedence(other))),
        (Some(_), [_]) => Err(format!(
            "wrong type for value; expected *semver.Version; {name} compares with what semver gives"
        )),
        (None, []) => property(heap, version, name),
        (comparison, _) => Err(format!(
            "wrong number of args for {name}: want {} got {}",
            usize::from(comparison.is_some()),
            args.len()
        )),
    }
}

/// Converts the order of two versions to the result of a method that compares them.
fn comparison(name: &str) -> Option<fn(Ordering) -> Value> {
    Some(match name {
        "Compare" => |order| Value::Int(order as i64),
        "Equal" => |order| order.is_eq().into(),
        "LessThan" => |order| order.is_lt().into(),
        "LessThanEqual" => |order| order.is_le().into(),
        "GreaterThan" => |order| order.is_gt().into(),
        "GreaterThanEqual" => |order| order.is_ge().into(),
        _ => return None,
    })
}

fn property(heap: &Heap, version: &Version, name: &str) -> Result<Value, String> {
    let number = |number: u64| {
        let number = i64::try_from(number).map_err(|_| "the number is too large for a template")?;
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
        "IncMajor" => next(heap, version, [version.major().saturating_add(1), 0, 0]),
        "IncMinor" => next(
            heap,
            version,
            [version.major(), version.minor().saturating_add(1), 0],
        ),
        "IncPatch" => {
            // The next patch of a pre-release is its release.
            let step = u64::from(version.prerelease().is_empty());
            next(
                heap,
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

/// A release, with the prefix `v` if the version has it.
fn next(heap: &Heap, version: &Version, [major, minor, patch]: [u64; 3]) -> Result<Value, String> {
    let v = if version.original().starts_with('v') {
        "v"
    } else {
        ""
    };
    parse(heap, &format!("{v}{major}.{minor}.{patch}"))
}

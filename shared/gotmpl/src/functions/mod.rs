//! The functions of templates: Go's own, and those of `sprig` that return the same result each time.

mod args;
mod cases;
mod data;
mod durations;
mod encodings;
mod lists;
mod logic;
mod maps;
mod numbers;
mod paths;
mod patterns;
mod strings;
mod urls;
mod versions;
mod wrap;

use super::{error::UnsupportedReason, heap::Heap, value::Value};
use args::Call;
pub use args::Function;
pub use versions::method;

/// Functions that return another result each time.
const RANDOM: &[&str] = &[
    "randAlphaNum",
    "randAlpha",
    "randAscii",
    "randNumeric",
    "randBytes",
    "randInt",
    "shuffle",
    "uuidv4",
    "bcrypt",
    "htpasswd",
    "encryptAES",
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
];

/// Functions that depend on the clock or the time zone of the machine.
const TIME: &[&str] = &[
    "ago",
    "date",
    "date_in_zone",
    "date_modify",
    "dateInZone",
    "dateModify",
    "htmlDate",
    "htmlDateInZone",
    "must_date_modify",
    "mustDateModify",
    "mustToDate",
    "now",
    "toDate",
    "unixEpoch",
];

/// Functions that send requests.
const NETWORK: &[&str] = &["getHostByName"];

/// Functions that work with private keys or passwords, which do not belong in templates, and Go's function that calls a function.
const NOT_IMPLEMENTED: &[&str] = &["buildCustomCert", "call", "decryptAES", "derivePassword"];

/// All functions that are not supported.
const UNSUPPORTED: &[(UnsupportedReason, &[&str])] = &[
    (UnsupportedReason::Random, RANDOM),
    (UnsupportedReason::Time, TIME),
    (UnsupportedReason::Network, NETWORK),
    (UnsupportedReason::NotImplemented, NOT_IMPLEMENTED),
];

/// Why a function cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// Go or Sprig has this function, but it is not supported.
    Unsupported(UnsupportedReason),
    /// Neither Go nor Sprig has a function of this name.
    Undefined,
}

/// Finds a function. `and` and `or` are `None`: they evaluate their arguments themselves. The search is slow, so the parser
/// does it once for each call in a template.
///
/// # Errors
/// If a function cannot be used.
pub fn resolve(name: &str) -> Result<Option<Function>, ResolveError> {
    if matches!(name, "and" | "or") {
        return Ok(None);
    }
    find(name).map(Some).ok_or_else(|| resolve_error(name))
}

fn resolve_error(name: &str) -> ResolveError {
    let found = UNSUPPORTED.iter().find(|(_, names)| names.contains(&name));
    found.map_or(ResolveError::Undefined, |(reason, _)| {
        ResolveError::Unsupported(*reason)
    })
}

/// Checks the number of arguments.
pub fn check_count(name: &str, function: Option<&Function>, count: usize) -> Result<(), String> {
    let (min, max) = match function {
        Some(function) => (function.min_args, function.max_args),
        None => (1, None),
    };
    match max {
        Some(max) if max == min && count != min => {
            Err(format!("wrong number of args for {name}: want {min} got {count}"))
        }
        Some(max) if count > max => Err(format!("wrong number of args for {name}: want {max} got {count}")),
        _ if count < min => Err(format!(
            "wrong number of args for {name}: want at least {min} got {count}"
        )),
        _ => Ok(()),
    }
}

/// Functions that neither read their texts nor create new ones, so their work does not depend on the length of the texts.
const CHEAP: &[&str] = &[
    "all",
    "any",
    "append",
    "coalesce",
    "default",
    "dict",
    "empty",
    "first",
    "index",
    "kindOf",
    "last",
    "len",
    "list",
    "mustAppend",
    "mustFirst",
    "mustLast",
    "mustPrepend",
    "mustPush",
    "not",
    "plural",
    "prepend",
    "push",
    "ternary",
    "tuple",
    "typeOf",
];

/// Calls a function. It is charged for what it reads before the call, and for its result after it.
pub fn call(name: &str, function: &Function, heap: &mut Heap, args: Vec<Value>) -> Result<Value, String> {
    let is_cheap = CHEAP.contains(&name);
    for arg in args.iter().filter(|_| !is_cheap) {
        if let Value::Str(text) = arg {
            heap.charge_read(text.len())?;
        }
    }
    let mut call = Call { heap, args };
    let value = (function.run)(&mut call).map_err(|message| format!("error calling {name}: {message}"))?;
    if let (Value::Str(text), false) = (&value, is_cheap) {
        heap.meter.check_text(text.len())?;
        heap.charge_write(text.len())?;
    }
    Ok(value)
}

fn find(name: &str) -> Option<Function> {
    strings::find(name)
        .or_else(|| logic::find(name))
        .or_else(|| maps::find(name))
        .or_else(|| lists::find(name))
        .or_else(|| numbers::find(name))
        .or_else(|| data::find(name))
        .or_else(|| encodings::find(name))
        .or_else(|| patterns::find(name))
        .or_else(|| paths::find(name))
        .or_else(|| versions::find(name))
        .or_else(|| urls::find(name))
        .or_else(|| durations::find(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_functions_differ_from_undefined_ones() {
        for (reason, names) in UNSUPPORTED {
            for name in *names {
                assert!(find(name).is_none(), "{name}");
                assert_eq!(resolve(name).unwrap_err(), ResolveError::Unsupported(*reason));
            }
        }
        // Helm and others remove the first two from Sprig, and Helm adds the others.
        for name in ["env", "expandenv", "include", "tpl", "toYaml"] {
            assert_eq!(resolve(name).unwrap_err(), ResolveError::Undefined, "{name}");
        }
    }

    /// `functions.txt` has the names of Go's functions and of those in `genericMap` of Sprig 3.3.0.
    #[test]
    fn every_function_of_go_and_sprig_exists_or_is_listed_in_the_readme() {
        let readme = include_str!("../../README.md");
        let section = readme.split("\n## ").find(|text| text.starts_with("Same input"));
        let table: String = section
            .unwrap()
            .lines()
            .filter(|line| line.starts_with('|'))
            .collect();
        let mut listed: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
        let mut missing: Vec<&str> = include_str!("../../tests/truth/functions.txt")
            .lines()
            .filter(|name| resolve(name).is_err())
            .collect();
        listed.sort_unstable();
        missing.sort_unstable();
        assert_eq!(listed, missing);
        assert!(
            UNSUPPORTED
                .iter()
                .flat_map(|(_, names)| *names)
                .all(|name| missing.contains(name))
        );
    }
}

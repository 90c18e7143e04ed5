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

use super::{heap::Heap, value::Value};
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

/// Functions that work with keys, passwords or DNS, which do not belong in values, and Go's function that calls a function.
const NOT_IMPLEMENTED: &[&str] = &[
    "buildCustomCert",
    "call",
    "decryptAES",
    "derivePassword",
    "getHostByName",
];

/// Why a function cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// Fleet has this function, but it is refused here for this reason.
    Unsupported(String),
    /// Neither Go nor Fleet has a function of this name.
    Undefined(String),
}

impl ResolveError {
    /// The message for the author of the template.
    pub fn into_message(self) -> String {
        match self {
            Self::Unsupported(message) | Self::Undefined(message) => message,
        }
    }
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
    if RANDOM.contains(&name) {
        ResolveError::Unsupported(format!(
            "function {name:?} returns another result each time, so it would deploy again and again; put the result into \
             the values, or into templateValues of the Cluster"
        ))
    } else if TIME.contains(&name) {
        ResolveError::Unsupported(format!(
            "function {name:?} depends on the clock or time zone of the controller, so it could deploy again at any time; \
             put the time into the values, or into templateValues of the Cluster"
        ))
    } else if NOT_IMPLEMENTED.contains(&name) {
        ResolveError::Unsupported(format!(
            "function {name:?} is not supported here; put its result into the values, or into templateValues of the Cluster"
        ))
    } else {
        ResolveError::Undefined(format!("function {name:?} not defined"))
    }
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
        for name in [RANDOM, TIME, NOT_IMPLEMENTED].concat() {
            assert!(find(name).is_none(), "{name}");
            assert!(
                matches!(resolve(name), Err(ResolveError::Unsupported(_))),
                "{name}"
            );
        }
        // Fleet removes the first four from `sprig`, and Helm adds the last one.
        for name in ["env", "expandenv", "include", "tpl", "toYaml"] {
            let message = format!("function {name:?} not defined");
            assert_eq!(resolve(name).unwrap_err(), ResolveError::Undefined(message));
        }
    }
}

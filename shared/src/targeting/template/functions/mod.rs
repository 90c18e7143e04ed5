//! The functions that templates can use: Go's own, and those of `sprig` that give the same result each time.

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

/// Functions that give another result each time.
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

/// Functions that go by the clock or the time zone of the machine.
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

/// Functions that work with keys and passwords, which values are no place for, and Go's function that calls a function.
const MISSING: &[&str] = &["buildCustomCert", "call", "decryptAES", "derivePassword"];

/// Finds a function; `and` and `or` are none that get their arguments. To find one takes a while, so that this is done
/// once for each place that names it.
///
/// # Errors
/// Says why a function cannot be used.
pub fn resolve(name: &str) -> Result<Option<Function>, String> {
    if matches!(name, "and" | "or") {
        return Ok(None);
    }
    find(name).map(Some).ok_or_else(|| refusal(name))
}

fn refusal(name: &str) -> String {
    if RANDOM.contains(&name) {
        format!(
            "function {name:?} gives another result each time, so it would deploy again and again; put the result into \
             the values, or into templateValues of the Cluster"
        )
    } else if TIME.contains(&name) {
        format!(
            "function {name:?} goes by the clock or time zone of the controller, so it could deploy again at any time; \
             put the time into the values, or into templateValues of the Cluster"
        )
    } else if MISSING.contains(&name) {
        format!(
            "function {name:?} is not supported here; put its result into the values, or into templateValues of the Cluster"
        )
    } else {
        format!("function {name:?} not defined")
    }
}

/// Checks the number of arguments.
pub fn check_count(name: &str, function: Option<&Function>, count: usize) -> Result<(), String> {
    let (least, most) = match function {
        Some(function) => (function.least, function.most),
        None => (1, None),
    };
    match most {
        Some(most) if most == least && count != least => Err(format!(
            "wrong number of args for {name}: want {least} got {count}"
        )),
        Some(most) if count > most => Err(format!(
            "wrong number of args for {name}: want {most} got {count}"
        )),
        _ if count < least => Err(format!(
            "wrong number of args for {name}: want at least {least} got {count}"
        )),
        _ => Ok(()),
    }
}

/// Functions that neither read the texts that they are given nor make any: what they do takes as long for any.
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

/// Calls a function. What it reads is counted before, what it gives behind.
pub fn call(name: &str, function: &Function, heap: &mut Heap, args: Vec<Value>) -> Result<Value, String> {
    let is_cheap = CHEAP.contains(&name);
    for arg in args.iter().filter(|_| !is_cheap) {
        if let Value::Str(text) = arg {
            heap.read(text.len())?;
        }
    }
    let mut call = Call { heap, args };
    let value = (function.run)(&mut call).map_err(|message| format!("error calling {name}: {message}"))?;
    if let (Value::Str(text), false) = (&value, is_cheap) {
        heap.meter.text_room(text.len())?;
        heap.write(text.len())?;
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
    fn what_is_refused_is_told_why() {
        for name in [RANDOM, TIME, MISSING].concat() {
            assert!(find(name).is_none(), "{name}");
            assert!(!refusal(name).contains("not defined"), "{name}");
        }
        for name in ["env", "expandenv", "include", "tpl", "getHostByName", "toYaml"] {
            assert_eq!(
                resolve(name).unwrap_err(),
                format!("function {name:?} not defined")
            );
        }
    }
}

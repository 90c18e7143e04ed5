//! The limits of the CRDs at admission, for API servers whose CRD lacks them and for files.

use helmops_api::limits::{Limit, Measure};
use serde::Serialize;
use serde_json::Value;

use super::{ErrorType, FieldErrors, Path};
use crate::reason::Reason;

/// Checks the limits of a spec.
pub fn check(errors: &mut FieldErrors, spec: &impl Serialize, limits: &[Limit]) {
    // A spec always serializes.
    let Ok(spec) = serde_json::to_value(spec) else {
        return;
    };
    for (path, measure, max) in limits {
        check_at(errors, "spec", &spec, path, (*measure, *max));
    }
}

fn check_at(errors: &mut FieldErrors, at: &str, value: &Value, path: &str, limit: (Measure, usize)) {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    if step.is_empty() {
        return check_value(errors, at, value, limit);
    }
    let name = step.trim_end_matches("[]");
    let Some(field) = value.get(name) else { return };
    let at = format!("{at}.{name}");
    if step.ends_with("[]") {
        for (index, item) in field.as_array().into_iter().flatten().enumerate() {
            check_at(errors, &format!("{at}[{index}]"), item, rest, limit);
        }
    } else {
        check_at(errors, &at, field, rest, limit);
    }
}

fn check_value(errors: &mut FieldErrors, at: &str, value: &Value, (measure, max): (Measure, usize)) {
    let (actual, noun, fault) = match (measure, value) {
        (Measure::Items, Value::Array(items)) => (items.len(), "items", ErrorType::TooMany),
        (Measure::Entries, Value::Object(entries)) => (entries.len(), "entries", ErrorType::TooMany),
        (Measure::Length, Value::String(text)) => (text.len(), "bytes", ErrorType::TooLong),
        _ => return,
    };
    if actual > max {
        let detail = format!("{actual} {noun}; at most {max} are allowed");
        errors.add(&Path::root(at), Reason::LimitExceeded, fault, "", detail);
    }
}

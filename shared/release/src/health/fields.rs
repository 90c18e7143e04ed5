//! Fields of an object of any shape.

use jiff::Timestamp;
use serde_json::Value;

/// The value at a path.
pub fn at<'v>(object: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, key| value.get(*key))
}

/// The text at a path; empty if there is none, or if it is no text.
pub fn text<'v>(object: &'v Value, path: &[&str]) -> &'v str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a path.
pub fn number(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path)?.as_i64()
}

/// The list at a path; empty if there is none.
pub fn list<'v>(object: &'v Value, path: &[&str]) -> &'v [Value] {
    at(object, path)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Whether the value at a path is `true`, also as a text.
pub fn flag(object: &Value, path: &[&str]) -> bool {
    match at(object, path) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    }
}

/// The time at a path.
pub fn time(object: &Value, path: &[&str]) -> Option<Timestamp> {
    text(object, path).parse().ok()
}

/// The API group and the kind of an object.
pub fn group_kind(object: &Value) -> (&str, &str) {
    let group = text(object, &["apiVersion"])
        .split_once('/')
        .map_or("", |(group, _)| group);
    (group, text(object, &["kind"]))
}

//! Whether a live object evidently has everything that its manifest has.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{ephemeral, is_aggregated, is_secret, lists::Lists};

/// Whether the live object has every field of the manifest's object with the same value, so that applying it would change nothing.
///
/// `true` is certain. `false` only means that a dry run by the API server must decide, which knows defaults and conversions. Fields
/// that only the live object has do not matter, because another manager owns them, or they are defaults. The status, and metadata
/// that the API server writes, are not compared. `stringData` of a Secret is compared with its `data`.
pub fn contains(desired: &Value, live: &Value) -> bool {
    let (Value::Object(desired), Value::Object(live_fields)) = (desired, live) else {
        return false;
    };
    let lists = Lists::of(live);
    let is_secret = is_secret(live);
    desired.iter().all(|(key, value)| match &**key {
        "status" => true,
        "metadata" => metadata(value, live_fields.get(key)),
        "stringData" if is_secret => string_data(value, live_fields.get("data")),
        // Keys that are in `stringData` too are compared there.
        "data" if is_secret => data(value, live_fields.get("data"), desired.get("stringData")),
        // The cluster fills it.
        "rules" if is_aggregated(live) => true,
        _ => has(lists, key, value, live_fields.get(key)),
    })
}

/// Whether the live value of the field `key` has everything of the desired one.
fn has(lists: Lists, key: &str, desired: &Value, live: Option<&Value>) -> bool {
    match (desired, live) {
        (Value::Null, None) => true,
        (Value::Object(desired), Some(Value::Object(live))) => desired
            .iter()
            .all(|(key, value)| has(lists, key, value, live.get(key))),
        (Value::Array(desired), Some(Value::Array(live))) if lists.are_merged(key) => {
            let mut pairs = desired.iter().zip(live);
            desired.len() == live.len() && pairs.all(|(desired, live)| has(lists, "", desired, Some(live)))
        }
        (desired, Some(live)) => desired == live,
        (_, None) => false,
    }
}

fn metadata(desired: &Value, live: Option<&Value>) -> bool {
    let (Some(desired), Some(live)) = (desired.as_object(), live.and_then(Value::as_object)) else {
        return false;
    };
    desired
        .iter()
        .filter(|(key, _)| !ephemeral::is_metadata(key))
        .all(|(key, value)| match live.get(key) {
            // The API server omits empty labels and the like.
            None if is_empty(value) => true,
            live => has(Lists::Custom, key, value, live),
        })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn string_data(desired: &Value, live: Option<&Value>) -> bool {
    let Some(desired) = desired.as_object() else {
        return desired.is_null();
    };
    desired.iter().all(|(key, value)| {
        let encoded = value.as_str().map(|text| STANDARD.encode(text));
        let live = live.and_then(|live| live.get(key)).and_then(Value::as_str);
        encoded.is_some() && encoded.as_deref() == live
    })
}

fn data(desired: &Value, live: Option<&Value>, string_data: Option<&Value>) -> bool {
    let Some(desired) = desired.as_object() else {
        return desired.is_null();
    };
    desired
        .iter()
        .filter(|(key, _)| string_data.and_then(|data| data.get(*key)).is_none())
        .all(|(key, value)| live.and_then(|live| live.get(key)) == Some(value))
}

//! What applying a manifest would make of a live object, as far as that can be known without the API server.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::{is_secret, lists::Lists};

/// Like the result of a dry run, for the case that the API server rejects it as invalid: a changed field is immutable, or is the key of
/// a list, such as the port of a Service. Such drift can be shown, but applying the manifest does not correct it.
///
/// Defaults are those of the live object. Elements of a list that the API server merges keep the fields that only the live object has,
/// if the lists have the same length; any other list is the desired one.
pub fn predicted_locally(desired: &Value, live: &Value) -> Value {
    let mut predicted = live.clone();
    let mut desired = desired.clone();
    if is_secret(live) {
        encode_string_data(&mut desired);
    }
    overlay(Lists::of(live), "", desired, &mut predicted);
    predicted
}

fn overlay(lists: Lists, key: &str, desired: Value, live: &mut Value) {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => overlay_fields(lists, desired, live),
        (Value::Array(desired), Value::Array(live))
            if lists.are_merged(key) && desired.len() == live.len() =>
        {
            for (desired, live) in desired.into_iter().zip(live) {
                overlay(lists, "", desired, live);
            }
        }
        (desired, live) => *live = desired,
    }
}

fn overlay_fields(lists: Lists, desired: Map<String, Value>, live: &mut Map<String, Value>) {
    for (key, value) in desired {
        match live.get_mut(&key) {
            _ if value.is_null() => {
                live.remove(&key);
            }
            Some(live) => overlay(lists, &key, value, live),
            None => {
                live.insert(key, value);
            }
        }
    }
}

fn encode_string_data(desired: &mut Value) {
    let Some(fields) = desired.as_object_mut() else {
        return;
    };
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    for (key, text) in texts {
        if let (Some(data), Some(text)) = (data.as_object_mut(), text.as_str()) {
            data.insert(key, STANDARD.encode(text).into());
        }
    }
}

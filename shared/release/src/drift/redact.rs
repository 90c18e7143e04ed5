//! Patches of Secrets without their data.

use helmops_api::labels::LAST_APPLIED;
use serde_json::Value;

/// Stands for a value that is not shown.
const REDACTED: &str = "<redacted>";

/// Replaces the values in a patch of a Secret. The keys stay, and so does `null`, which is a key to remove.
pub fn secret(patch: &mut Value) {
    for field in ["data", "stringData"] {
        match patch.get_mut(field) {
            Some(Value::Object(values)) => values.values_mut().for_each(hide),
            Some(value) => hide(value),
            None => {}
        }
    }
    let annotations = patch.pointer_mut("/metadata/annotations");
    if let Some(value) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED)) {
        hide(value);
    }
}

fn hide(value: &mut Value) {
    if !value.is_null() {
        *value = REDACTED.into();
    }
}

//! Fields that say nothing about drift: the API server writes them, or the controller of the kind does.

use serde_json::Value;

/// Fields of the metadata that the API server writes.
const METADATA: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "uid",
    "selfLink",
];

/// Whether a field of the metadata says nothing about drift.
pub fn is_metadata(key: &str) -> bool {
    METADATA.contains(&key)
}

/// Removes these fields, and the status, from an object.
pub fn remove(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !is_metadata(key));
    }
}

//! Changes mappings in objects.

use serde_json::{Map, Value};

/// Sets a label or annotation.
pub fn set_entry(object: &mut Value, field: &str, key: &str, value: &str) {
    let metadata = entries(object, "metadata");
    let of_field = metadata.entry(field).or_insert(Value::Null);
    mapping(of_field).insert(key.to_owned(), value.into());
}

/// The entries of a field.
pub fn entries<'o>(object: &'o mut Value, field: &str) -> &'o mut Map<String, Value> {
    mapping(mapping(object).entry(field).or_insert(Value::Null))
}

/// The entries of a mapping. What is none becomes an empty one: nothing else can be there.
pub fn mapping(value: &mut Value) -> &mut Map<String, Value> {
    match value {
        Value::Object(entries) => entries,
        other => {
            *other = Value::Object(Map::new());
            mapping(other)
        }
    }
}

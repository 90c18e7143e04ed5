//! JSON that the API does not look into.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// A JSON value kept as the text it came as, such as Helm values: nothing of it is lost or reordered, and it costs
/// neither a tree in memory nor the time to build one.
///
/// Two are equal when they mean the same JSON. It can only be decoded by `serde_json` itself, not through a buffering
/// adapter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeForm(Box<RawValue>);

impl FreeForm {
    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// A JSON text, kept as it is; nothing if it is none.
    pub fn from_text(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self)
    }

    /// The value as a tree.
    pub fn to_value(&self) -> Value {
        // The text was valid JSON when it came in, so this falls back only in theory.
        serde_json::from_str(self.as_str()).unwrap_or(Value::Null)
    }
}

impl From<&Value> for FreeForm {
    fn from(value: &Value) -> Self {
        // A `Value` always prints as valid JSON.
        Self(RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl PartialEq for FreeForm {
    fn eq(&self, other: &Self) -> bool {
        // Both usually come from the API server, which writes equal values as equal text.
        self.as_str() == other.as_str() || self.to_value() == other.to_value()
    }
}

impl JsonSchema for FreeForm {
    fn schema_name() -> Cow<'static, str> {
        "FreeForm".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_survives_and_equality_is_by_meaning() {
        let text = r#"{"b":1e+21,"a":[1.0,"A"]}"#;
        let values: FreeForm = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&values).unwrap(), text);
        assert_eq!(values, FreeForm::from(&json!({"a": [1.0, "A"], "b": 1e21})));
        assert_ne!(values, FreeForm::from(&json!({"a": [2.0, "A"], "b": 1e21})));
    }
}

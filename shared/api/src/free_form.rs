//! Free-form JSON, such as Helm values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use thiserror::Error;

use crate::json;

/// A JSON value kept as its original text, such as Helm values: nothing of it is lost or reordered, and it costs neither a
/// tree in memory nor the time to build one.
///
/// Two values are equal if their JSON means the same. It can only be decoded by `serde_json` itself, not through a
/// buffering adapter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeForm(Box<RawValue>);

impl FreeForm {
    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// A value with this JSON text; `None` if the text is not valid JSON.
    pub fn from_text(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self)
    }

    /// The nesting depth of lists and mappings.
    pub fn depth(&self) -> usize {
        json::depth(self.as_str().as_bytes())
    }

    /// The value as a tree.
    ///
    /// # Errors
    /// If it is nested deeper than [`MAX_DEPTH`]: trees are processed by recursive functions.
    pub fn to_value(&self) -> Result<Value, TooDeep> {
        let depth = self.depth();
        if depth > MAX_DEPTH {
            return Err(TooDeep { depth });
        }
        // The text was validated when it was decoded, and the decoder accepts 127 levels.
        serde_json::from_str(self.as_str()).map_err(|_| TooDeep { depth })
    }
}

/// How deep values may be nested. Typical values have 10 levels, and Fleet stops at 50 where it renders labels.
pub const MAX_DEPTH: usize = 100;

/// A value is nested too deeply.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "lists and mappings nest {depth} levels deep; at most {MAX_DEPTH} are allowed; make the values flatter"
)]
pub struct TooDeep {
    /// The depth.
    pub depth: usize,
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
        // A value that is too deep for a tree is only equal to the same text.
        self.as_str() == other.as_str()
            || matches!((self.to_value(), other.to_value()), (Ok(one), Ok(other)) if one == other)
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
    fn the_text_is_kept_and_equality_ignores_notation() {
        let text = r#"{"b":1e+21,"a":[1.0,"A"]}"#;
        let values: FreeForm = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&values).unwrap(), text);
        assert_eq!(values, FreeForm::from(&json!({"a": [1.0, "A"], "b": 1e21})));
        assert_ne!(values, FreeForm::from(&json!({"a": [2.0, "A"], "b": 1e21})));
    }

    #[test]
    fn values_that_are_too_deep_for_a_tree_are_compared_as_text() {
        let deep = |levels: usize, inner: &str| {
            let text = format!("{}{inner}{}", r#"{"a":["#.repeat(levels), "]}".repeat(levels));
            FreeForm::from_text(text).unwrap()
        };
        assert_ne!(deep(100, "1"), deep(100, "2"));
        assert_eq!(deep(100, "1"), deep(100, "1"));
        assert_eq!(deep(100, "1").to_value(), Err(TooDeep { depth: 200 }));
        assert_eq!(deep(50, r#""[[{{\"[""#).depth(), 100);
        assert!(deep(50, "1").to_value().is_ok());
        assert_ne!(deep(50, "1"), deep(50, "2"));
    }
}

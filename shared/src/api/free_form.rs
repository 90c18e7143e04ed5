//! JSON that the API does not look into.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use thiserror::Error;

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

    /// How deep lists and mappings nest.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
        for byte in self.as_str().bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_text => is_escaped = true,
                b'"' => in_text = !in_text,
                b'[' | b'{' if !in_text => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// The value as a tree.
    ///
    /// # Errors
    /// Where it nests more than [`MAX_DEPTH`] deep: a tree is gone through by functions that call themselves.
    pub fn to_value(&self) -> Result<Value, TooDeep> {
        let depth = self.depth();
        if depth > MAX_DEPTH {
            return Err(TooDeep { depth });
        }
        // The text was valid JSON when it came in, and the decoder takes 127 levels.
        serde_json::from_str(self.as_str()).map_err(|_| TooDeep { depth })
    }
}

/// How deep values may nest. What people write nests 10 deep, and Fleet gives up at 50 where it puts labels in.
pub const MAX_DEPTH: usize = 100;

/// A value nests too deeply.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("lists and mappings nest {depth} deep; {MAX_DEPTH} is the most, make the values flatter")]
pub struct TooDeep {
    /// How deep.
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
        // What is too deep for a tree is equal to the same text alone.
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
    fn text_survives_and_equality_is_by_meaning() {
        let text = r#"{"b":1e+21,"a":[1.0,"A"]}"#;
        let values: FreeForm = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&values).unwrap(), text);
        assert_eq!(values, FreeForm::from(&json!({"a": [1.0, "A"], "b": 1e21})));
        assert_ne!(values, FreeForm::from(&json!({"a": [2.0, "A"], "b": 1e21})));
    }

    #[test]
    fn what_is_too_deep_for_a_tree_is_an_error_and_differs() {
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

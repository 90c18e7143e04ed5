//! The conditions of an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{list, text};

/// A condition. Fields that are missing, or are no texts, are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// For example `Ready`.
    pub r#type: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// A word.
    pub reason: &'a str,
    /// A sentence.
    pub message: &'a str,
}

impl<'a> Condition<'a> {
    fn of(condition: &'a Value) -> Self {
        Self {
            r#type: text(condition, &["type"]),
            status: text(condition, &["status"]),
            reason: text(condition, &["reason"]),
            message: text(condition, &["message"]),
        }
    }

    /// Whether it has this type and status.
    pub fn is(&self, r#type: &str, status: &str) -> bool {
        self.r#type == r#type && self.status == status
    }
}

/// The conditions in the status of an object, without ignored ones.
pub fn of<'a>(object: &'a Value, ignored: &[BTreeMap<String, String>]) -> Vec<Condition<'a>> {
    list(object, &["status", "conditions"])
        .iter()
        .filter(|condition| condition.is_object())
        .filter(|condition| !ignored.iter().any(|fields| has_fields(condition, fields)))
        .map(Condition::of)
        .collect()
}

/// The content of the annotation `cattle.io/status`, in which Rancher's controllers put conditions of objects whose status belongs
/// to others.
pub fn annotation(object: &Value) -> Option<Value> {
    let text = text(object, &["metadata", "annotations", "cattle.io/status"]);
    if text.is_empty() {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// The conditions in that annotation.
pub fn of_annotation(annotation: &Value) -> impl Iterator<Item = Condition<'_>> {
    list(annotation, &["conditions"])
        .iter()
        .filter(|condition| condition.is_object())
        .map(Condition::of)
}

fn has_fields(condition: &Value, fields: &BTreeMap<String, String>) -> bool {
    fields
        .iter()
        .all(|(key, value)| condition.get(key).and_then(Value::as_str) == Some(value))
}

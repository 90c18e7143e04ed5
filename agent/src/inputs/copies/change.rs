//! What is changed in a copy, without I/O. Only the agent's own fields are: its content, and the labels and annotations of the source.
//! Those that other clients have added stay, as do finalizers.

use serde_json::{Map, Value};

use crate::inputs::MANAGER;

/// The type of a Secret that has none.
const OPAQUE: &str = "Opaque";
/// The fields with content, whose keys are all the agent's.
const CONTENT: [&str; 2] = ["data", "binaryData"];
/// Fields of the metadata that are shared with other clients.
const SHARED: [&str; 2] = ["labels", "annotations"];

/// How a copy becomes what it should be.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The copy is as it should be.
    None,
    /// A merge patch.
    Patch {
        patch: Value,
        /// Whether it changes the content.
        is_content: bool,
    },
    /// Only by another object: its type cannot be changed.
    Replace,
}

impl Change {
    /// Whether it changes the content.
    pub const fn is_content(&self) -> bool {
        match self {
            Self::None => false,
            Self::Patch { is_content, .. } => *is_content,
            Self::Replace => true,
        }
    }

    /// From the existing copy to the desired one.
    pub fn of(existing: &Value, desired: &Value) -> Self {
        let type_of = |object: &Value| at(object, &["type"]).as_str().unwrap_or(OPAQUE).to_owned();
        if type_of(existing) != type_of(desired) {
            return Self::Replace;
        }
        let mut patch = Map::new();
        for field in CONTENT {
            let (old, new) = (at(existing, &[field]), at(desired, &[field]));
            let removed = keys(old).filter(|key| new.get(key).is_none());
            let change = changed(old, new, removed);
            if !change.is_empty() {
                patch.insert(field.to_owned(), change.into());
            }
        }
        let is_content = !patch.is_empty();
        let mut metadata = Map::new();
        for field in SHARED {
            let (old, new) = (
                at(existing, &["metadata", field]),
                at(desired, &["metadata", field]),
            );
            let owned = owned(existing, field).into_iter();
            let removed = owned.filter(|key| new.get(key).is_none() && old.get(key).is_some());
            let change = changed(old, new, removed);
            if !change.is_empty() {
                metadata.insert(field.to_owned(), change.into());
            }
        }
        if !metadata.is_empty() {
            patch.insert("metadata".to_owned(), metadata.into());
        }
        if patch.is_empty() {
            return Self::None;
        }
        Self::Patch {
            patch: patch.into(),
            is_content,
        }
    }
}

/// A part of an object; null if it has none.
fn at<'v>(object: &'v Value, path: &[&str]) -> &'v Value {
    path.iter()
        .fold(object, |part, key| part.get(key).unwrap_or(&Value::Null))
}

fn keys(map: &Value) -> impl Iterator<Item = String> {
    map.as_object().into_iter().flatten().map(|(key, _)| key.clone())
}

fn changed(old: &Value, new: &Value, removed: impl Iterator<Item = String>) -> Map<String, Value> {
    let new = new.as_object().into_iter().flatten();
    let set = new.filter(|(key, value)| old.get(key.as_str()) != Some(value));
    let set = set.map(|(key, value)| (key.clone(), value.clone()));
    set.chain(removed.map(|key| (key, Value::Null))).collect()
}

/// The keys that the agent has set and no other client has changed since.
fn owned(object: &Value, field: &str) -> Vec<String> {
    let entries = at(object, &["metadata", "managedFields"])
        .as_array()
        .into_iter()
        .flatten();
    let own = entries.filter(|entry| at(entry, &["manager"]) == MANAGER.0);
    let field = format!("f:{field}");
    let keys = own.flat_map(|entry| keys(at(entry, &["fieldsV1", "f:metadata", &field])));
    keys.filter_map(|key| Some(key.strip_prefix("f:")?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn copy(data: &Value, labels: &Value, annotations: &Value, owned: &[&str]) -> Value {
        let owned: Map<_, _> = owned.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        json!({
            "type": "Opaque", "data": data,
            "metadata": {
                "labels": labels, "annotations": annotations, "finalizers": ["of/others"],
                "managedFields": [
                    { "manager": MANAGER.0, "fieldsV1": { "f:metadata": { "f:annotations": owned, "f:labels": { ".": {} } } } },
                    { "manager": "other", "fieldsV1": { "f:metadata": { "f:annotations": { "f:note": {} } } } },
                ],
            },
        })
    }

    #[test]
    fn what_others_have_added_is_no_difference() {
        let desired =
            json!({ "type": "Opaque", "data": { "a": "YQ==" }, "metadata": { "labels": { "own": "1" } } });
        let existing = copy(
            &json!({ "a": "YQ==" }),
            &json!({ "own": "1", "team": "x" }),
            &json!({ "note": "n" }),
            &[],
        );
        assert_eq!(Change::of(&existing, &desired), Change::None);
        // A Secret has a type although none was given.
        let untyped = json!({ "data": { "a": "YQ==" } });
        assert_eq!(Change::of(&existing, &untyped), Change::None);
    }

    #[test]
    fn only_own_fields_are_patched() {
        let desired = json!({
            "type": "Opaque", "data": { "a": "Yg==" }, "metadata": { "labels": { "own": "2" }, "annotations": { "new": "n" } },
        });
        let existing = copy(
            &json!({ "a": "YQ==", "old": "YQ==" }),
            &json!({ "own": "1" }),
            &json!({ "note": "n", "of-source": "s" }),
            &["of-source", "gone"],
        );
        let patch = json!({
            "data": { "a": "Yg==", "old": null },
            "metadata": { "labels": { "own": "2" }, "annotations": { "new": "n", "of-source": null } },
        });
        let is_content = true;
        assert_eq!(
            Change::of(&existing, &desired),
            Change::Patch { patch, is_content }
        );
    }

    /// Nothing that runs notices it.
    #[test]
    fn a_label_is_no_content() {
        let desired = json!({ "data": { "a": "YQ==" }, "metadata": { "labels": { "own": "2" } } });
        let existing = copy(&json!({ "a": "YQ==" }), &json!({ "own": "1" }), &json!({}), &[]);
        let patch = json!({ "metadata": { "labels": { "own": "2" } } });
        let is_content = false;
        assert_eq!(
            Change::of(&existing, &desired),
            Change::Patch { patch, is_content }
        );
    }

    #[test]
    fn another_type_needs_another_object() {
        let existing = copy(&json!({}), &json!({}), &json!({}), &[]);
        let desired = json!({ "type": "kubernetes.io/dockerconfigjson", "data": {} });
        assert_eq!(Change::of(&existing, &desired), Change::Replace);
    }
}

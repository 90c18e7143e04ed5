//! The smallest JSON merge patch between two values: what is written to a status, and what a changed object lacks.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// A JSON merge patch from one status to another, or `None` if they are equal. Most are equal, and then neither is serialized: a
/// status can be large.
pub fn change<S: PartialEq + Serialize>(old: &S, new: &S) -> Option<Value> {
    if old == new {
        return None;
    }
    merge_patch(&json!(old), &json!(new))
}

/// A JSON merge patch (RFC 7396) from `old` to `new`, or `None` if they are equal. Lists are replaced as a whole.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let change = match old.get(key) {
            Some(before) => merge_patch(before, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HelmOpStatus;

    #[test]
    fn a_patch_contains_only_differences() {
        let old = json!({ "a": 1, "b": { "c": 1, "d": 2 }, "e": [1], "f": 1 });
        let new = json!({ "a": 1, "b": { "c": 1, "d": 3 }, "e": [1, 2], "g": {} });
        let patch = merge_patch(&old, &new).unwrap();
        assert_eq!(patch, json!({ "b": { "d": 3 }, "e": [1, 2], "f": null, "g": {} }));
        let mut patched = old;
        json_patch::merge(&mut patched, &patch);
        assert_eq!(patched, new);
        assert_eq!(merge_patch(&new, &new), None);
    }

    #[test]
    fn equal_statuses_need_no_patch() {
        let old = HelmOpStatus {
            version: "1.0.0".to_owned(),
            ..HelmOpStatus::default()
        };
        let new = HelmOpStatus {
            version: "1.1.0".to_owned(),
            ..old.clone()
        };
        assert_eq!(change(&old, &old.clone()), None);
        assert_eq!(change(&old, &new), Some(json!({ "version": "1.1.0" })));
    }
}

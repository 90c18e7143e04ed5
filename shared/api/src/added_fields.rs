//! Fields that the API server adds to an object, because its CRD has defaults for them, or because of an admission webhook.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::unknown_fields::FieldPath;

/// Maximum number of paths. The CRDs limit it already; this bounds it in any case.
const MAX_PATHS: usize = 1_000;
/// Maximum length of a value as JSON, in bytes. Defaults are short.
const MAX_VALUE: usize = 1_024;

/// The paths of the fields of one kind that were missing in what was sent, and are in the response, with their values.
///
/// Without them, an object with such a field would always differ from the desired one, and be written in each reconciliation. A field with
/// another value is a difference: a client has set it, and the write that removes it brings the default back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedFields(BTreeMap<String, Value>);

impl AddedFields {
    /// None.
    pub const NONE: Self = Self(BTreeMap::new());

    /// Learns from a write, and returns whether anything changed.
    pub fn learn(&mut self, sent: &impl Serialize, stored: &impl Serialize) -> bool {
        let (Ok(sent), Ok(stored)) = (serde_json::to_value(sent), serde_json::to_value(stored)) else {
            return false;
        };
        let mut has_changed = false;
        added(FieldPath::of("spec"), &sent, &stored, &mut |path, value| {
            let path = path.to_string();
            let is_known = self.0.get(&path) == Some(value);
            let has_room = self.0.len() < MAX_PATHS || self.0.contains_key(&path);
            if !is_known && has_room && value.to_string().len() <= MAX_VALUE {
                self.0.insert(path, value.clone());
                has_changed = true;
            }
        });
        has_changed
    }

    /// Whether `stored` is `desired` with these fields.
    pub fn are_equal(&self, desired: &impl Serialize, stored: &impl Serialize) -> bool {
        if self.0.is_empty() {
            return false;
        }
        // What is nested too deeply for a tree is a difference.
        let (Ok(desired), Ok(mut stored)) = (serde_json::to_value(desired), serde_json::to_value(stored))
        else {
            return false;
        };
        self.remove(FieldPath::of("spec"), &desired, &mut stored);
        desired == stored
    }

    /// The paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Removes these fields from `stored` where `desired` lacks them.
    fn remove(&self, path: FieldPath<'_>, desired: &Value, stored: &mut Value) {
        match (desired, stored) {
            (Value::Object(desired), Value::Object(stored)) => {
                stored.retain(|name, value| match desired.get(name) {
                    Some(desired) => {
                        self.remove(path.field(name), desired, value);
                        true
                    }
                    None => self.0.get(&path.field(name).to_string()) != Some(value),
                });
            }
            (Value::Array(desired), Value::Array(stored)) if desired.len() == stored.len() => {
                for (desired, stored) in desired.iter().zip(stored) {
                    self.remove(path, desired, stored);
                }
            }
            _ => {}
        }
    }
}

/// Calls `found` with each field that `sent` lacks. The items of a list have the path of the list.
fn added(path: FieldPath<'_>, sent: &Value, stored: &Value, found: &mut dyn FnMut(FieldPath<'_>, &Value)) {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for (name, value) in stored {
                match sent.get(name) {
                    Some(sent) => added(path.field(name), sent, value, found),
                    None => found(path.field(name), value),
                }
            }
        }
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => {
            for (sent, stored) in sent.iter().zip(stored) {
                added(path, sent, stored, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_default_is_no_difference_once_it_was_seen() {
        let desired =
            json!({ "helm": { "chart": "web" }, "targets": [{ "name": "a" }, { "name": "b", "level": 2 }] });
        let stored = json!({
            "helm": { "chart": "web", "newer": 5 }, "drift": { "enabled": false },
            "targets": [{ "name": "a", "level": 1 }, { "name": "b", "level": 2 }],
        });
        let mut fields = AddedFields::default();
        assert!(!fields.are_equal(&desired, &stored));
        assert!(fields.learn(&desired, &stored));
        assert!(!fields.learn(&desired, &stored), "known already");
        assert_eq!(
            fields.paths().collect::<Vec<_>>(),
            ["spec.drift", "spec.helm.newer", "spec.targets.level"]
        );
        assert!(fields.are_equal(&desired, &stored));
        assert!(
            fields.are_equal(&desired, &desired),
            "the CRD of another time had no defaults"
        );
    }

    #[test]
    fn a_value_that_is_not_the_default_is_a_difference() {
        let (desired, defaulted) = (json!({ "helm": {} }), json!({ "helm": { "newer": 5 } }));
        let mut fields = AddedFields::default();
        fields.learn(&desired, &defaulted);
        assert!(
            !fields.are_equal(&desired, &json!({ "helm": { "newer": 6 } })),
            "the user has removed it"
        );
        assert!(
            !fields.are_equal(&json!({ "helm": { "newer": 6 } }), &defaulted),
            "the user has set it"
        );
        assert!(!fields.are_equal(&desired, &json!({})));
        assert!(
            fields.learn(&desired, &json!({ "helm": { "newer": 7 } })),
            "the default has changed"
        );
        assert!(!fields.are_equal(&desired, &defaulted));
    }

    #[test]
    fn the_number_of_paths_and_the_length_of_values_are_limited() {
        let many: serde_json::Map<_, _> = (0..2 * MAX_PATHS)
            .map(|number| (format!("f{number}"), json!(1)))
            .collect();
        let mut fields = AddedFields::default();
        fields.learn(&json!({}), &Value::Object(many));
        assert_eq!(fields.0.len(), MAX_PATHS);
        let mut fields = AddedFields::default();
        assert!(!fields.learn(&json!({}), &json!({ "long": "x".repeat(MAX_VALUE) })));
    }
}

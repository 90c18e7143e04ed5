//! Labels and annotations as templates and BundleDeployments get them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What stands for the value of a label.
const PREFIX: &str = "global.fleet.clusterLabels.";

/// How deep values are looked through, as in Fleet.
pub const MAX_DEPTH: usize = 50;

/// Without what belongs to tools: keys of `kubectl.kubernetes.io` and those with `cattle.io/` in them.
pub fn clean(map: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    with_fleets(map, &[])
}

/// Cleaned, but with the keys that have one of these prefixes.
pub fn with_fleets(map: Option<&BTreeMap<String, String>>, prefixes: &[&str]) -> BTreeMap<String, String> {
    map.into_iter()
        .flatten()
        .filter(|(key, _)| {
            prefixes.iter().any(|prefix| key.starts_with(prefix))
                || !(key.starts_with("kubectl.kubernetes.io") || key.contains("cattle.io/"))
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Whether values, as JSON, may name a label.
pub fn are_in(values: &str) -> bool {
    values.contains(PREFIX)
}

/// Puts the values of labels where values ask for them. `false` where they nest too deeply.
pub fn replace(values: &mut Map<String, Value>, labels: &BTreeMap<String, String>, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    values.values_mut().all(|value| match value {
        Value::String(text) => {
            if let Some(label) = text.strip_prefix(PREFIX) {
                *text = labels.get(label).cloned().unwrap_or_default();
            }
            true
        }
        Value::Object(entries) => replace(entries, labels, depth + 1),
        // Texts in lists stay, and so does everything in lists of lists.
        Value::Array(items) => items.iter_mut().all(|item| match item {
            Value::Object(entries) => replace(entries, labels, depth + 1),
            _ => true,
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    })
}

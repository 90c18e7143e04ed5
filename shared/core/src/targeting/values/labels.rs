//! Labels and annotations for templates and BundleDeployments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A string with this prefix is replaced by the value of a label.
const PREFIX: &str = "global.fleet.clusterLabels.";

/// How deep values are searched for labels, as in Fleet.
pub const MAX_DEPTH: usize = 50;

/// Removes the keys of tools: those that start with `kubectl.kubernetes.io` or contain `cattle.io/`.
pub fn clean(map: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    clean_except(map, &[])
}

/// Like [`clean`], but keeps the keys with one of these prefixes.
pub fn clean_except(map: Option<&BTreeMap<String, String>>, prefixes: &[&str]) -> BTreeMap<String, String> {
    map.into_iter()
        .flatten()
        .filter(|(key, _)| {
            prefixes.iter().any(|prefix| key.starts_with(prefix))
                || !(key.starts_with("kubectl.kubernetes.io") || key.contains("cattle.io/"))
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Whether values, as JSON, may refer to a label.
pub fn are_referenced(values: &str) -> bool {
    values.contains(PREFIX)
}

/// Replaces references to labels by their values. Returns `false` if the values nest too deep.
pub fn substitute(values: &mut Map<String, Value>, labels: &BTreeMap<String, String>, depth: usize) -> bool {
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
        Value::Object(entries) => substitute(entries, labels, depth + 1),
        // As in Fleet, strings in lists and nested lists are not processed.
        Value::Array(items) => items.iter_mut().all(|item| match item {
            Value::Object(entries) => substitute(entries, labels, depth + 1),
            _ => true,
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    })
}

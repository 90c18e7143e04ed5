//! What `kubectl apply` sends for one object: the changes between what was applied last, what exists, and what is desired.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::Collection;
use crate::api::Api;

/// The annotation with what was applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// As kubectl writes: unknown fields are an error.
const PARAMETERS: &str = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict";

/// Creates the object of this name, or gives it the desired content, and returns the warnings of the API server.
///
/// # Errors
/// If the API server rejects it. Also if kubectl would do something else: for an object that was not created by it, and for one whose
/// lists have keys.
pub(super) async fn apply(
    api: &Api,
    collection: &Collection<'_>,
    name: &str,
    desired: &Value,
) -> Result<Vec<String>> {
    let (path, desired) = (collection.object(name), completed(desired, collection.namespace));
    let Some(existing) = api.find(&path).await? else {
        let path = format!("{}?{PARAMETERS}", collection.path());
        return api.write(Method::POST, &path, &annotated(&desired)).await;
    };
    let change = patch(&desired, &existing)?.context("it was not created by kubectl apply")?;
    if change.is_empty() {
        return Ok(Vec::new());
    }
    ensure!(collection.has_no_keys(), "kubectl sends a strategic merge patch");
    let path = format!("{path}?{PARAMETERS}");
    api.write(Method::PATCH, &path, &Value::Object(change)).await
}

/// The desired object with what kubectl adds to it: its namespace, and annotations even if there are none.
fn completed(desired: &Value, namespace: Option<&str>) -> Value {
    let mut completed = desired.clone();
    if let Some(metadata) = completed.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(namespace) = namespace {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
    completed
}

/// The desired object with [`LAST_APPLIED`], which is sent to create it.
fn annotated(desired: &Value) -> Value {
    let mut annotated = desired.clone();
    // kubectl writes a line of JSON with sorted keys.
    let annotations = annotated.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert(LAST_APPLIED.to_owned(), format!("{desired}\n").into());
    }
    annotated
}

/// The JSON merge patch from the existing object to the desired one; `None` if the object was not created by `kubectl apply`.
///
/// # Errors
/// If [`LAST_APPLIED`] is not JSON.
fn patch(desired: &Value, existing: &Value) -> Result<Option<Map<String, Value>>> {
    let annotations = existing.pointer("/metadata/annotations");
    let Some(Value::String(last)) = annotations.and_then(|all| all.get(LAST_APPLIED)) else {
        return Ok(None);
    };
    let last = serde_json::from_str(last)?;
    Ok(Some(difference(&annotated(desired), existing, &last)))
}

/// Everything that differs from the desired object, and null for what was applied last and is not desired any more.
fn difference(desired: &Value, existing: &Value, last: &Value) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, desired) in fields(desired) {
        let (existing, last) = (value_of(existing, key), value_of(last, key));
        if !(desired.is_object() && existing.is_object()) {
            if desired != existing {
                patch.insert(key.clone(), desired.clone());
            }
            continue;
        }
        let inner = difference(desired, existing, last);
        if !inner.is_empty() {
            patch.insert(key.clone(), Value::Object(inner));
        }
    }
    for (key, _) in fields(last) {
        if desired.get(key).is_none() && existing.get(key).is_some() {
            patch.insert(key.clone(), Value::Null);
        }
    }
    patch
}

/// The value of a field; null if there is none.
fn value_of<'o>(object: &'o Value, key: &str) -> &'o Value {
    object.get(key).unwrap_or(&Value::Null)
}

fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch_of(desired: &Value, existing: Value, last: &Value) -> Value {
        let mut existing = existing;
        existing["metadata"]["annotations"][LAST_APPLIED] = json!(last.to_string());
        let mut patch = patch(desired, &existing).unwrap().unwrap();
        patch.remove("metadata");
        Value::Object(patch)
    }

    #[test]
    fn a_patch_changes_what_is_desired_and_removes_what_was_applied_last() {
        let existing = json!({ "spec": { "a": 1, "gone": 2, "of_others": 3, "deep": { "x": 1, "y": 2 }, "list": [1, 2] } });
        let last = json!({ "spec": { "a": 1, "gone": 2, "gone_already": 1, "deep": { "x": 1, "y": 2 } } });
        let desired = json!({ "spec": { "a": 5, "deep": { "x": 1 }, "list": [2] } });
        assert_eq!(
            patch_of(&desired, existing, &last),
            json!({ "spec": { "a": 5, "gone": null, "deep": { "y": null }, "list": [2] } })
        );
    }

    #[test]
    fn an_object_that_is_as_desired_gets_no_patch() {
        let metadata = json!({ "name": "web", "annotations": {} });
        let desired = json!({ "kind": "HelmOp", "metadata": metadata, "spec": { "a": 1 } });
        let mut existing = annotated(&desired);
        existing["spec"]["default"] = json!(true);
        existing["status"] = json!({ "version": "1.0.0" });
        assert_eq!(patch(&desired, &existing).unwrap(), Some(Map::new()));
    }

    #[test]
    fn an_object_gets_its_namespace_and_annotations() {
        let desired = json!({ "metadata": { "name": "web" } });
        let expected = json!({ "metadata": { "name": "web", "namespace": "team", "annotations": {} } });
        assert_eq!(completed(&desired, Some("team")), expected);
        let expected = json!({ "metadata": { "name": "web", "annotations": {} } });
        assert_eq!(completed(&desired, None), expected);
    }

    #[test]
    fn an_object_that_was_not_applied_is_left_to_kubectl() {
        let existing = json!({ "metadata": { "annotations": { "a": "b" } } });
        assert_eq!(patch(&json!({ "spec": {} }), &existing).unwrap(), None);
    }
}

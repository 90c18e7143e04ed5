//! Objects of any kind, in messages and as JSON.

use kube::api::DynamicObject;
use serde_json::Value;

/// Kind, namespace and name of an object, such as `Role cattle-fleet-system/helmops-agent`.
pub fn name_of(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match &object.metadata.namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// An object as JSON; `null` never occurs, since an object is made of what JSON has.
pub fn as_json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

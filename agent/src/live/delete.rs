//! Deletes a live object that belongs to a release.

use helmops_release::{marks, names::SetId, object::ObjectId};
use helmops_runtime::client::{ApiError, CallError, bounded};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Preconditions},
    core::DynamicObject,
};

use super::kinds::ResourceKind;

/// Deletes an object if it has the identity of a release, and nothing says that it is to be kept. Its dependents are deleted too.
///
/// # Errors
/// If it cannot be read or deleted.
pub async fn delete(
    client: &Client,
    kind: &ResourceKind,
    id: &ObjectId,
    set: &SetId,
) -> Result<(), CallError> {
    let api: Api<DynamicObject> = if kind.is_namespaced {
        Api::namespaced_with(client.clone(), &id.namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    };
    let found = bounded(api.get_metadata_opt(&id.name)).await;
    let Some(found) = found.map_err(CallError::of("read", id))? else {
        return Ok(());
    };
    let annotation = |key| found.annotations().get(key).map(String::as_str);
    let is_kept = annotation(marks::RESOURCE_POLICY).is_some_and(|policy| policy.trim() == marks::KEEP);
    if is_kept || annotation(marks::SET_ID) != Some(set.as_str()) {
        return Ok(());
    }
    let preconditions = Preconditions {
        uid: found.metadata.uid,
        resource_version: None,
    };
    let params = DeleteParams::background().preconditions(preconditions);
    match bounded(api.delete(&id.name, &params)).await {
        Ok(_) => Ok(()),
        Err(error) if ApiError::is_not_found(&error) => Ok(()),
        Err(error) => Err(CallError::of("delete", id)(error)),
    }
}

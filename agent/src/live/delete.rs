//! Reads the metadata of a live object, and deletes one that belongs to a release.

use helmops_release::{marks, names::SetId, object::ObjectId};
use helmops_runtime::client::{ApiError, CallError, bounded};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Preconditions},
    core::{DynamicObject, PartialObjectMeta},
};

use super::kinds::{KindError, Kinds, ResourceKind};

/// The metadata of a live object; `None` if it does not exist, or the cluster does not have its kind: without the CRD there is no object.
///
/// # Errors
/// If it cannot be read.
pub async fn find(kinds: &Kinds, client: &Client, id: &ObjectId) -> Result<Option<Metadata>, CallError> {
    match kinds.get(&id.api_version, &id.kind).await {
        Ok(kind) => metadata_of(&api(client, &kind, id), id).await,
        Err(KindError::Unknown { .. }) => Ok(None),
        Err(KindError::Call(error)) => Err(error),
    }
}

/// The metadata of an object of any kind.
pub type Metadata = PartialObjectMeta<DynamicObject>;

fn api(client: &Client, kind: &ResourceKind, id: &ObjectId) -> Api<DynamicObject> {
    if kind.is_namespaced {
        Api::namespaced_with(client.clone(), &id.namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    }
}

async fn metadata_of(api: &Api<DynamicObject>, id: &ObjectId) -> Result<Option<Metadata>, CallError> {
    let found = bounded(api.get_metadata_opt(&id.name)).await;
    found.map_err(CallError::of("read", id))
}

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
    let api = api(client, kind, id);
    let Some(found) = metadata_of(&api, id).await? else {
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

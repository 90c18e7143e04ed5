//! The parameters of all writes: the field manager, and the version that a write is based on.

use std::fmt;

use helmops_core::targeting::{copies::CopyRef, delivery::ObjectVersion};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{ApiError, bounded};

/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "helmops-controller";

/// For create and update.
pub fn post() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// For patches.
pub fn patch() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// For deleting exactly this object, and no later one with the same name.
pub fn delete(object: &impl ResourceExt) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: None,
    })
}

/// For deleting this version of an object.
pub fn delete_version(version: &ObjectVersion) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: version.uid.clone(),
        resource_version: version.resource_version.clone(),
    })
}

/// Patches a status. Fails with a conflict if another client has changed the object.
pub async fn status<K>(api: &Api<K>, object: &K, change: &Value) -> Result<K, ApiError>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    let metadata = json!({ "resourceVersion": object.resource_version() });
    let change = Patch::Merge(json!({ "metadata": metadata, "status": change }));
    bounded(api.patch_status(&object.name_any(), &patch(), &change)).await
}

/// Sets the finalizers. Fails with a conflict if another client has changed the object.
pub async fn finalizers<K>(api: &Api<K>, object: &K, finalizers: &[String]) -> Result<K, ApiError>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    let metadata = json!({ "resourceVersion": object.resource_version(), "finalizers": finalizers });
    let change = Patch::Merge(json!({ "metadata": metadata }));
    bounded(api.patch(&object.name_any(), &patch(), &change)).await
}

/// Sets the owner references of a copy, and returns its metadata. Fails with a conflict if another client has changed the object.
pub async fn owners<K>(
    api: &Api<K>,
    copy: &CopyRef,
    version: &ObjectVersion,
    owners: &[OwnerReference],
) -> Result<ObjectMeta, ApiError>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    let metadata = json!({ "resourceVersion": version.resource_version, "ownerReferences": owners });
    let change = Patch::Merge(json!({ "metadata": metadata }));
    let written = bounded(api.patch(&copy.name.name, &patch(), &change)).await?;
    Ok(written.meta().clone())
}

/// The finalizers of an object without `finalizer`; `None` if the object does not have it.
pub fn without_finalizer(object: &impl ResourceExt, finalizer: &str) -> Option<Vec<String>> {
    let all = object.finalizers();
    let others: Vec<_> = all.iter().filter(|one| *one != finalizer).cloned().collect();
    (others.len() < all.len()).then_some(others)
}

//! How objects are written: under which name, and over which version.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    client::{ApiError, bounded},
    context::FIELD_MANAGER,
};

/// For making and replacing.
pub fn post() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// For patching.
pub fn patch() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// For deleting this very object, and none that has taken its name since.
pub fn delete(object: &impl ResourceExt) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: None,
    })
}

/// For deleting this very object as long as nobody has changed it.
pub fn delete_unchanged(object: &impl ResourceExt) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: object.resource_version(),
    })
}

/// Changes a status. It fails where somebody else was quicker.
pub async fn status<K>(api: &Api<K>, object: &K, change: &Value) -> Result<K, ApiError>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    let metadata = json!({ "resourceVersion": object.resource_version() });
    let change = Patch::Merge(json!({ "metadata": metadata, "status": change }));
    bounded(api.patch_status(&object.name_any(), &patch(), &change)).await
}

/// Sets the finalizers. It fails where somebody else was quicker.
pub async fn finalizers<K>(api: &Api<K>, object: &K, finalizers: &[String]) -> Result<K, ApiError>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    let metadata = json!({ "resourceVersion": object.resource_version(), "finalizers": finalizers });
    let change = Patch::Merge(json!({ "metadata": metadata }));
    bounded(api.patch(&object.name_any(), &patch(), &change)).await
}

/// Sets the owners. It fails where somebody else was quicker.
pub async fn owners<K>(api: &Api<K>, object: &K, owners: &[OwnerReference]) -> Result<K, ApiError>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    let metadata = json!({ "resourceVersion": object.resource_version(), "ownerReferences": owners });
    let change = Patch::Merge(json!({ "metadata": metadata }));
    bounded(api.patch(&object.name_any(), &patch(), &change)).await
}

/// The finalizers of an object without one of them; nothing if it is not there.
pub fn without_finalizer(object: &impl ResourceExt, finalizer: &str) -> Option<Vec<String>> {
    let all = object.finalizers();
    let others: Vec<_> = all.iter().filter(|one| *one != finalizer).cloned().collect();
    (others.len() < all.len()).then_some(others)
}

//! The parameters of all writes: the field manager, and the version that a write is based on.

use std::fmt;

use helmops_core::targeting::{copies::CopyRef, delivery::ObjectVersion};
use helmops_runtime::{
    client::{ApiError, bounded},
    writes::FieldManager,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::json;

/// The name of the field manager.
pub const FIELD_MANAGER: &str = "helmops-controller";
/// The field manager of all writes.
pub const MANAGER: FieldManager = FieldManager(FIELD_MANAGER);

/// For deleting this version of an object.
pub fn delete_version(version: &ObjectVersion) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: version.uid.clone(),
        resource_version: version.resource_version.clone(),
    })
}

/// Sets the owner references of a copy. Fails with a conflict if another client has changed the object.
pub async fn owners<K>(
    api: &Api<K>,
    copy: &CopyRef,
    version: &ObjectVersion,
    owners: &[OwnerReference],
) -> Result<(), ApiError>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    let metadata = json!({ "resourceVersion": version.resource_version, "ownerReferences": owners });
    let change = Patch::Merge(json!({ "metadata": metadata }));
    let written = bounded(api.patch(&copy.name.name, &MANAGER.patch(), &change)).await;
    written.map(drop)
}

//! The parameters of writes: the field manager, and the version that a write is based on.

use std::fmt;

use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{ApiError, bounded};

/// The field manager of all writes of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldManager(pub &'static str);

impl FieldManager {
    /// For create and update.
    pub fn post(self) -> PostParams {
        PostParams {
            field_manager: Some(self.0.to_owned()),
            ..PostParams::default()
        }
    }

    /// For patches.
    pub fn patch(self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.0.to_owned()),
            ..PatchParams::default()
        }
    }

    /// Patches a status. Fails with a conflict if another client has changed the object.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn status<K>(self, api: &Api<K>, object: &K, change: &Value) -> Result<K, ApiError>
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned,
    {
        let metadata = json!({ "resourceVersion": object.resource_version() });
        let change = Patch::Merge(json!({ "metadata": metadata, "status": change }));
        bounded(api.patch_status(&object.name_any(), &self.patch(), &change)).await
    }

    /// Sets the finalizers. Fails with a conflict if another client has changed the object.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn finalizers<K>(self, api: &Api<K>, object: &K, finalizers: &[String]) -> Result<K, ApiError>
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned,
    {
        let metadata = json!({ "resourceVersion": object.resource_version(), "finalizers": finalizers });
        let change = Patch::Merge(json!({ "metadata": metadata }));
        bounded(api.patch(&object.name_any(), &self.patch(), &change)).await
    }
}

/// For deleting exactly this object, and no later one with the same name.
pub fn delete_exactly(object: &impl ResourceExt) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: None,
    })
}

/// The finalizers of an object without `finalizer`; `None` if the object does not have it.
pub fn without_finalizer(object: &impl ResourceExt, finalizer: &str) -> Option<Vec<String>> {
    let all = object.finalizers();
    let others: Vec<_> = all.iter().filter(|one| *one != finalizer).cloned().collect();
    (others.len() < all.len()).then_some(others)
}

//! Writes: the field manager, the version that a write is based on, and the writes of statuses.

use std::fmt;

use helmops_api::{Decoded, NamespacedName, merge_patch};
use helmops_kube::key_of;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::reflector::ObjectRef,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    client::{ApiError, CallError, bounded},
    pending_writes::PendingWrites,
};

/// The field manager of all writes of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldManager(pub &'static str);

impl FieldManager {
    /// The parameters of create and update.
    pub fn post(self) -> PostParams {
        PostParams {
            field_manager: Some(self.0.to_owned()),
            ..PostParams::default()
        }
    }

    /// The parameters of patches.
    pub fn patch(self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.0.to_owned()),
            ..PatchParams::default()
        }
    }

    /// Writes the status of an object, given as it was read, if the status differs from the stored one. Returns the written object;
    /// `None` if nothing was written: the status is the same, or the object does not exist any more.
    ///
    /// The write fails with a conflict if another client has changed the object. It is recorded as pending: a reconciliation that read
    /// the stored status from the cache again would take what it sees for the truth, and leave a status that is outdated by then.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn write_status<K, S>(
        self,
        client: &Client,
        pending_writes: &PendingWrites<ObjectRef<Decoded<K>>>,
        object: &K,
        stored: &S,
        next: &S,
    ) -> Result<Option<K>, CallError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + DeserializeOwned
            + 'static,
        S: PartialEq + Serialize,
    {
        let Some(change) = merge_patch::change(stored, next) else {
            return Ok(None);
        };
        let api = Api::<K>::namespaced(client.clone(), &object.namespace().unwrap_or_default());
        match self.patch_status(&api, object, &change).await {
            Ok(written) => {
                pending_writes.record(key_of(object).into_kind_unchecked(()), &written);
                Ok(Some(written))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => {
                let name = NamespacedName::of(object.meta());
                let object = format_args!("{} {name}", K::kind(&()));
                Err(CallError::of("write the status of", object)(error))
            }
        }
    }

    /// Patches a status. Fails with a conflict if another client has changed the object.
    async fn patch_status<K>(self, api: &Api<K>, object: &K, change: &Value) -> Result<K, ApiError>
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

    /// Removes a finalizer, if the object has it. Without it, the object may be gone, which is no error.
    ///
    /// # Errors
    /// As [`Self::finalizers`].
    pub async fn remove_finalizer<K>(self, api: &Api<K>, object: &K, finalizer: &str) -> Result<(), ApiError>
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned,
    {
        let Some(others) = without_finalizer(object, finalizer) else {
            return Ok(());
        };
        match self.finalizers(api, object, &others).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

/// For deleting exactly this object, and no later one with the same name.
pub fn delete_exactly(object: &impl ResourceExt) -> DeleteParams {
    delete_uid(object.uid())
}

/// For deleting exactly the object with this UID.
pub fn delete_uid(uid: Option<String>) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid,
        resource_version: None,
    })
}

/// The finalizers of an object without `finalizer`; `None` if the object does not have it.
pub fn without_finalizer(object: &impl ResourceExt, finalizer: &str) -> Option<Vec<String>> {
    let all = object.finalizers();
    let others: Vec<_> = all.iter().filter(|one| *one != finalizer).cloned().collect();
    (others.len() < all.len()).then_some(others)
}

#[cfg(test)]
mod tests;

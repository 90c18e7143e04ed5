//! Reads live objects, and deletes one that belongs to a release.
//!
//! Without its CRD there is no object. So the response that a resource does not exist, which is another one than that an object of it
//! does not, shows that what is known of its kind is outdated.

use std::{collections::BTreeMap, time::Instant};

use helmops_kube::path_segment;
use helmops_release::{marks, object::ObjectId};
use helmops_runtime::client::{ApiError, CallError, bounded};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::{DynamicObject, PartialObjectMeta},
};

use super::kinds::{Kinds, ResourceKind, Served};

/// How often a deletion is tried of an object that is changed at the same time, such as its status.
const DELETIONS: usize = 5;

/// The metadata of an object of any kind.
pub type Metadata = PartialObjectMeta<DynamicObject>;

/// Live objects, as a client may read and delete them.
#[derive(Clone, Copy)]
pub struct Objects<'o> {
    /// The kinds of the API server.
    pub kinds: &'o Kinds,
    /// The client whose permissions apply.
    pub client: &'o Client,
}

impl Objects<'_> {
    /// An object; `None` if it does not exist, or the cluster does not have its kind.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn read(&self, id: &ObjectId) -> Result<Option<DynamicObject>, CallError> {
        let get = |api: Api<DynamicObject>, name: String| async move { api.get(&name).await };
        self.found("read", id, get).await
    }

    /// Its metadata; `None` if it does not exist, or the cluster does not have its kind.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn metadata(&self, id: &ObjectId) -> Result<Option<Metadata>, CallError> {
        let get = |api: Api<DynamicObject>, name: String| async move { api.get_metadata(&name).await };
        self.found("read", id, get).await
    }

    /// What the API server has in place of an object that was applied at some time, and its metadata if it exists. Nothing that was known
    /// of its kind before `since` counts as missing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn resolve(
        &self,
        id: &ObjectId,
        since: Instant,
    ) -> Result<(Served, Option<Metadata>), CallError> {
        let mut is_repeated = false;
        loop {
            let served = self.kinds.served(id, since).await?;
            let found = match served.identity(id) {
                Some(id) => self.metadata(&id).await?,
                None => None,
            };
            // The request may have shown that the kind is gone.
            let is_outdated = found.is_none() && served.kind().is_some_and(|kind| self.kinds.lacks(kind));
            if !is_outdated || is_repeated {
                return Ok((served, found));
            }
            is_repeated = true;
        }
    }

    /// Deletes an object with its dependents, if these annotations show that it may be deleted, and they do not say that it is to be kept.
    ///
    /// # Errors
    /// If it cannot be read or deleted.
    pub async fn delete(
        &self,
        id: &ObjectId,
        mut is_own: impl FnMut(&BTreeMap<String, String>) -> bool,
    ) -> Result<(), CallError> {
        let mut conflict = None;
        for _ in 0..DELETIONS {
            let Some(found) = self.metadata(id).await? else {
                return Ok(());
            };
            let policy = found.annotations().get(marks::RESOURCE_POLICY);
            let is_kept = policy.is_some_and(|policy| marks::says_keep(policy));
            if is_kept || !is_own(found.annotations()) {
                return Ok(());
            }
            // Another client may have taken it over since.
            let params = DeleteParams::background().preconditions(Preconditions {
                uid: found.metadata.uid,
                resource_version: found.metadata.resource_version,
            });
            let delete = |api: Api<DynamicObject>, name: String| {
                let params = params.clone();
                async move { api.delete(&name, &params).await.map(drop) }
            };
            match self.found("delete", id, delete).await {
                Err(error) if error.is_conflict() => conflict = Some(error),
                deleted => return deleted.map(drop),
            }
        }
        conflict.map_or(Ok(()), Err)
    }

    /// Patches the metadata of an object, if it exists.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn patch(&self, id: &ObjectId, patch: json_patch::Patch) -> Result<(), CallError> {
        let patch = Patch::<()>::Json(patch);
        let send = |api: Api<DynamicObject>, name: String| {
            let patch = patch.clone();
            async move { api.patch_metadata(&name, &PatchParams::default(), &patch).await }
        };
        self.found("change the metadata of", id, send).await?;
        Ok(())
    }

    /// Sends a request for an object. A kind whose resource does not exist is looked up again, once.
    async fn found<T, R>(
        &self,
        operation: &'static str,
        id: &ObjectId,
        request: impl Fn(Api<DynamicObject>, String) -> R,
    ) -> Result<Option<T>, CallError>
    where
        R: Future<Output = kube::Result<T>>,
    {
        let mut is_repeated = false;
        loop {
            let Some(kind) = self.kinds.get(&id.api_version, &id.kind).await? else {
                return Ok(None);
            };
            let api = api(self.client, &kind, id);
            let name = path_segment(&id.name).into_owned();
            match bounded(request(api, name)).await {
                Ok(found) => return Ok(Some(found)),
                Err(error) if error.is_missing_object() => return Ok(None),
                Err(error) if ApiError::is_not_found(&error) && !is_repeated => {
                    self.kinds.forget(&id.api_version);
                    is_repeated = true;
                }
                Err(error) => return Err(CallError::of(operation, id)(error)),
            }
        }
    }
}

/// The requests for objects of a kind, in the namespace of one of them if the kind has namespaces.
pub fn api(client: &Client, kind: &ResourceKind, id: &ObjectId) -> Api<DynamicObject> {
    if kind.is_namespaced {
        Api::namespaced_with(client.clone(), &path_segment(&id.namespace), &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    }
}

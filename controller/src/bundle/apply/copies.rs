//! Writes copies: Secrets and ConfigMaps in the namespaces of clusters.

use std::fmt;

use helmops_core::targeting::{
    copies::{CopyKind, CopyRef, Object},
    delivery::{CopyWrite, ObjectVersion},
};
use helmops_runtime::client::{ApiError, bounded};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Resource, api::Patch};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::Context,
    watch::Copies,
    writes::{self, MANAGER},
};

/// Writes copies, and records the results in the cache.
#[derive(Clone, Copy)]
pub struct CopyWriter<'c> {
    pub context: &'c Context,
    pub copies: &'c Copies,
}

impl CopyWriter<'_> {
    pub async fn create(&self, write: &CopyWrite) -> Result<(), ApiError> {
        match &write.copy.object {
            Object::Secret(secret) => self.create_object(CopyKind::Secret, secret, write).await,
            Object::ConfigMap(map) => self.create_object(CopyKind::ConfigMap, map, write).await,
        }
    }

    /// Gives a copy exactly these data, metadata and owners.
    pub async fn apply(&self, write: &CopyWrite) -> Result<(), ApiError> {
        match &write.copy.object {
            Object::Secret(secret) => self.apply_object(CopyKind::Secret, secret, write).await,
            Object::ConfigMap(map) => self.apply_object(CopyKind::ConfigMap, map, write).await,
        }
    }

    pub async fn set_owners(
        &self,
        copy: &CopyRef,
        version: &ObjectVersion,
        owners: &[OwnerReference],
    ) -> Result<(), ApiError> {
        // The cache gets the owners from the event: the response does not show whether the data are as they were written.
        match copy.kind {
            CopyKind::Secret => writes::owners(&self.api::<Secret>(copy), copy, version, owners).await,
            CopyKind::ConfigMap => writes::owners(&self.api::<ConfigMap>(copy), copy, version, owners).await,
        }
    }

    pub async fn delete(&self, copy: &CopyRef, version: &ObjectVersion) -> Result<(), ApiError> {
        let (name, params) = (&copy.name.name, writes::delete_version(version));
        let deleted = match copy.kind {
            CopyKind::Secret => bounded(self.api::<Secret>(copy).delete(name, &params))
                .await
                .map(drop),
            CopyKind::ConfigMap => bounded(self.api::<ConfigMap>(copy).delete(name, &params))
                .await
                .map(drop),
        };
        match deleted {
            Err(error) if !error.is_not_found() => Err(error),
            _ => {
                self.copies.deleted(copy);
                Ok(())
            }
        }
    }

    async fn create_object<K: Copyable>(
        &self,
        kind: CopyKind,
        object: &K,
        write: &CopyWrite,
    ) -> Result<(), ApiError> {
        let object = owned(object, &write.owners);
        let created = bounded(self.api_of(&object).create(&MANAGER.post(), &object)).await?;
        self.copies.wrote(kind, created.meta(), write.copy.object.keys());
        Ok(())
    }

    /// A second write removes the keys that another client has added.
    async fn apply_object<K: Copyable>(
        &self,
        kind: CopyKind,
        object: &K,
        write: &CopyWrite,
    ) -> Result<(), ApiError> {
        let object = owned(object, &write.owners);
        let (api, name) = (
            self.api_of(&object),
            object.meta().name.as_deref().unwrap_or_default(),
        );
        let params = MANAGER.patch().force();
        let mut written = bounded(api.patch(name, &params, &Patch::Apply(&object))).await?;
        if !written.has_same_data(&object) {
            let mut replacement = object.clone();
            let version = &written.meta().resource_version;
            replacement.meta_mut().resource_version.clone_from(version);
            written = bounded(api.replace(name, &MANAGER.post(), &replacement)).await?;
        }
        self.copies.wrote(kind, written.meta(), write.copy.object.keys());
        Ok(())
    }

    fn api<K: Copyable>(&self, copy: &CopyRef) -> Api<K> {
        Api::namespaced(self.context.client.clone(), &copy.name.namespace)
    }

    fn api_of<K: Copyable>(&self, object: &K) -> Api<K> {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.context.client.clone(), namespace)
    }
}

fn owned<K: Copyable>(object: &K, owners: &[OwnerReference]) -> K {
    let mut object = object.clone();
    object.meta_mut().owner_references = Some(owners.to_vec());
    object
}

/// A kind that is copied.
trait Copyable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + Serialize + DeserializeOwned
{
    fn has_same_data(&self, other: &Self) -> bool;
}

impl Copyable for Secret {
    fn has_same_data(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl Copyable for ConfigMap {
    fn has_same_data(&self, other: &Self) -> bool {
        (&self.data, &self.binary_data) == (&other.data, &other.binary_data)
    }
}

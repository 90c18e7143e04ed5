//! The observed state of a cluster: what the caches and the API server have in its namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use helmops_api::{BundleDeployment, Decoded, NamespacedName, PrunedFields};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::targeting::copies::{CopyRef, Object, ObservedCopy};

/// A BundleDeployment in a cache, or why it does not decode.
pub type CachedDeployment = Arc<Decoded<BundleDeployment>>;

/// The state of the namespace of a cluster, as far as a Bundle needs it.
#[derive(Clone, Debug, Default)]
pub struct ClusterState {
    /// The cached BundleDeployments of all Bundles, if the Bundle has downstream resources there. Otherwise at least the one with
    /// its name.
    pub(super) deployments: Vec<CachedDeployment>,
    /// The cached copies that are [relevant](super::CacheFilter) to the Bundle.
    pub(super) copies: BTreeMap<CopyRef, Arc<ObservedCopy>>,
    /// The objects that were read; `None` for those that do not exist.
    objects: BTreeMap<CopyRef, Option<Object>>,
    /// The metadata that were read; `None` for objects that do not exist.
    metadata: BTreeMap<CopyRef, Option<ObjectMeta>>,
    /// The fields of deployments that the API server drops.
    pruned: Arc<PrunedFields>,
    /// The copies whose cached state has proved stale: a write that it led to has failed.
    pub stale: BTreeSet<CopyRef>,
}

impl ClusterState {
    /// The state in the caches, and the fields of deployments that the API server drops.
    pub fn cached(
        deployments: Vec<CachedDeployment>,
        copies: BTreeMap<CopyRef, Arc<ObservedCopy>>,
        pruned: Arc<PrunedFields>,
    ) -> Self {
        Self {
            deployments,
            copies,
            pruned,
            ..Self::default()
        }
    }

    pub(super) fn pruned(&self) -> &PrunedFields {
        &self.pruned
    }

    /// Adds an object that was read. If it does not exist, its cached state is dropped.
    pub fn add_object(&mut self, reference: CopyRef, object: Option<Object>) {
        if object.is_none() {
            self.copies.remove(&reference);
        }
        self.objects.insert(reference, object);
    }

    /// Adds metadata that were read. If the object does not exist, its cached state is dropped.
    pub fn add_metadata(&mut self, reference: CopyRef, metadata: Option<ObjectMeta>) {
        if metadata.is_none() {
            self.copies.remove(&reference);
        }
        self.metadata.insert(reference, metadata);
    }

    /// An object, as far as it was read.
    pub(super) fn object(&self, reference: &CopyRef) -> ReadObject<'_> {
        match self.objects.get(reference) {
            None => ReadObject::NotRead,
            Some(None) => ReadObject::Missing,
            Some(Some(object)) => ReadObject::Found(object),
        }
    }

    /// The metadata of an object, if it was read and exists.
    pub(super) fn metadata_of(&self, reference: &CopyRef) -> Option<&ObjectMeta> {
        let object = self.objects.get(reference).and_then(Option::as_ref);
        let metadata = self.metadata.get(reference).and_then(Option::as_ref);
        object.map(Object::metadata).or(metadata)
    }

    /// The BundleDeployments that decode.
    pub(super) fn valid_deployments(&self) -> impl Iterator<Item = &BundleDeployment> {
        self.deployments
            .iter()
            .filter_map(|deployment| deployment.valid())
    }
}

/// An object that may have been read.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadObject<'s> {
    /// The object was not read.
    NotRead,
    /// The object does not exist.
    Missing,
    /// The object.
    Found(&'s Object),
}

/// What has to be read from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A Secret or ConfigMap, for [`ClusterState::add_object`].
    Object(CopyRef),
    /// Its metadata, for [`ClusterState::add_metadata`].
    Metadata(CopyRef),
    /// A BundleDeployment that is not in the cache. If it exists, the cache is stale and nothing is planned.
    Deployment(NamespacedName),
}

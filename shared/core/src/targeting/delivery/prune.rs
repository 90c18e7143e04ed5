//! What is needed no longer: copies, and BundleDeployments.

use std::collections::{BTreeMap, HashMap};

use helmops_api::{Cluster, Decoded, NamespacedName, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;

use super::{Action, ObjectVersion};
use crate::targeting::copies::{CopyPurpose, CopyRef};

/// Releases a copy: the deployment with this UID is removed from its owners, and a copy without another owner is deleted. `uid`
/// is `None` if no deployment owns it. Nothing is done if the object is not a copy any more, or has got an owner meanwhile.
///
/// Another deployment may become an owner at the same time: then the action fails, because the copy has changed.
pub fn release(copy: &CopyRef, metadata: &ObjectMeta, uid: Option<&str>) -> Option<Action> {
    CopyPurpose::of(metadata)?;
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let others: Vec<_> = owners
        .iter()
        .filter(|owner| Some(&*owner.uid) != uid)
        .cloned()
        .collect();
    let version = ObjectVersion::of(metadata);
    if others.is_empty() {
        return Some(Action::DeleteCopy {
            copy: copy.clone(),
            version,
        });
    }
    (others.len() < owners.len()).then(|| Action::SetOwners {
        copy: copy.clone(),
        version,
        owners: others,
    })
}

/// The copies of a Bundle without an owner whose deployment does not exist, and is not about to be created: their deployment was
/// deleted, or its creation was interrupted. `has_deployment` is whether the Bundle has or may get a deployment in a namespace.
///
/// The caches may be stale, so it is confirmed that there is no deployment before such a copy is deleted.
pub fn leftovers(unowned: Vec<CopyRef>, has_deployment: impl Fn(&str) -> bool) -> Vec<CopyRef> {
    let is_leftover = |copy: &CopyRef| !has_deployment(&copy.name.namespace);
    unowned.into_iter().filter(is_leftover).collect()
}

/// What decides of an object whether a cluster is a target of a Bundle, and where its deployments are.
///
/// Versions of an object with the same decide the same. Many differ in nothing else: each heartbeat of an agent makes a new one of its
/// Cluster, so that a comparison of versions never succeeds with thousands of clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Decisive<'o> {
    uid: Option<&'o str>,
    /// It changes with the spec. Objects without one have no spec that decides.
    generation: Option<i64>,
    /// No object without labels differs from one with none.
    labels: Option<&'o BTreeMap<String, String>>,
    /// The Cluster that owns a namespace. Other annotations decide nothing.
    owner: [Option<&'o str>; 2],
    is_deleted: bool,
    /// The namespace of a Cluster in its status, and whether its Schedules forbid changes; `None` if it does not decode. The caches of Clusters
    /// and Schedules decide the latter, and may be behind: a difference costs only a retry.
    status: Option<(&'o str, bool)>,
}

impl<'o> Decisive<'o> {
    /// The decisive parts of an object whose status decides nothing.
    pub fn of(metadata: &'o ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.as_deref(),
            generation: metadata.generation,
            labels: metadata.labels.as_ref().filter(|labels| !labels.is_empty()),
            owner: [labels::CLUSTER_NAMESPACE, labels::CLUSTER]
                .map(|name| labels::annotation(metadata, name)),
            is_deleted: metadata.deletion_timestamp.is_some(),
            status: None,
        }
    }

    /// The decisive parts of a Cluster.
    pub fn of_cluster(cluster: &'o Decoded<Cluster>) -> Self {
        let status = cluster.valid().map(|cluster| &cluster.status);
        Self {
            status: status.map(|status| (&*status.namespace, status.is_out_of_schedule())),
            ..Self::of(cluster.meta())
        }
    }
}

/// Whether the deployment of a cluster that is no target any more according to the caches is deleted: they show what decides of the Cluster
/// as the API server has it; `None` if it is not there. A deleted one may still be in the cache.
pub fn is_orphan_for_certain(cached: Option<&Decisive<'_>>, current: Option<&Decisive<'_>>) -> bool {
    current.is_none() || cached == current
}

/// Compares the objects of a list with those that were cached: the cached ones that the list has not shown yet.
pub struct Unseen<'c>(HashMap<NamespacedName, Decisive<'c>>);

impl<'c> Unseen<'c> {
    /// Starts with all cached objects, by name.
    pub fn new(cached: impl IntoIterator<Item = (NamespacedName, Decisive<'c>)>) -> Self {
        Self(cached.into_iter().collect())
    }

    /// The list shows an object.
    ///
    /// # Errors
    /// With its name, if it was not cached, or decided otherwise.
    pub fn see(&mut self, name: NamespacedName, object: &Decisive<'_>) -> Result<(), NamespacedName> {
        match self.0.remove(&name) {
            Some(cached) if cached == *object => Ok(()),
            _ => Err(name),
        }
    }

    /// The list is complete.
    ///
    /// # Errors
    /// With the name of a cached object that it does not have.
    pub fn end(self) -> Result<(), NamespacedName> {
        self.0.into_keys().next().map_or(Ok(()), Err)
    }
}

/// Whether a BundleDeployment with the name of a Bundle may belong to it: it does unless its labels name another Bundle.
pub fn may_be_of(bundle_namespace: &str, bundle: &str, deployment: &ObjectMeta) -> bool {
    let is_or_unknown =
        |label: &str, name: &str| labels::of(deployment, label).is_none_or(|found| found == name);
    is_or_unknown(labels::BUNDLE_NAMESPACE, bundle_namespace) && is_or_unknown(labels::BUNDLE_NAME, bundle)
}

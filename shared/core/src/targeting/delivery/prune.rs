//! What is needed no longer: copies, and BundleDeployments.

use std::collections::HashMap;

use helmops_api::{NamespacedName, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

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

/// Whether the deployment of a cluster that is no target any more according to the caches is deleted: they show the Cluster as it is. The
/// versions of the Cluster are those in the cache and in the API server; `None` if it is not there. A deleted one may still be in the cache.
pub fn is_orphan_for_certain(cached: Option<&str>, current: Option<&str>) -> bool {
    current.is_none() || cached == current
}

/// Compares the objects of a list with those that were cached: the cached ones that the list has not shown yet.
pub struct Unseen<'c>(HashMap<NamespacedName, Option<&'c str>>);

impl<'c> Unseen<'c> {
    /// All cached objects.
    pub fn new(cached: impl IntoIterator<Item = &'c ObjectMeta>) -> Self {
        let cached = cached.into_iter();
        let version = |metadata: &'c ObjectMeta| metadata.resource_version.as_deref();
        Self(
            cached
                .map(|metadata| (NamespacedName::of(metadata), version(metadata)))
                .collect(),
        )
    }

    /// The list shows an object.
    ///
    /// # Errors
    /// With its name, if it was not cached in this version.
    pub fn see(&mut self, object: &ObjectMeta) -> Result<(), NamespacedName> {
        let name = NamespacedName::of(object);
        match self.0.remove(&name) {
            Some(version) if version == object.resource_version.as_deref() => Ok(()),
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

//! What in a cluster, or among the sources, blocks the delivery to it.

use helmops_api::{Decoded, NamespacedName};
use kube_core::Resource;

use super::{BundleDelivery, ClusterState, observed::CachedDeployment};
use crate::targeting::{
    blocked::{BlockClass, Blocked},
    copies::{Copy, CopyKind, CopyPurpose, CopyRef, CopyRole, SourceRef, downstream},
    deployment::is_of_content,
    target::Target,
};

/// An object that is not managed has the name of a copy.
pub(super) fn foreign_object(reference: &CopyRef, copy: &Copy) -> Blocked {
    let CopyRef { kind, name } = reference;
    let source = match CopyPurpose::of(copy.object.metadata()).and_then(|purpose| purpose.source) {
        Some(source) => format!("{kind} {source}"),
        None => "the values of this Bundle".to_owned(),
    };
    let NamespacedName { namespace, name } = name;
    Blocked::new(
        BlockClass::NameConflict,
        format!(
            "the cluster's namespace {namespace} has a {kind} {name} that helmops does not manage and that was not made from \
             {source}; rename or delete it"
        ),
    )
}

/// The conflict with a BundleDeployment that has the name of the Bundle and is not its own.
fn name_conflict(namespace: &str, name: &str, found: &CachedDeployment) -> Blocked {
    let message = match &**found {
        Decoded::Invalid { error, .. } => {
            format!("BundleDeployment {namespace}/{name} {}", error.predicate())
        }
        Decoded::Valid(_) => format!(
            "the cluster already has BundleDeployment {name} of a Bundle in another namespace; rename one of the Bundles"
        ),
    };
    Blocked::new(BlockClass::NameConflict, message)
}

impl BundleDelivery<'_> {
    /// Whether the state of a cluster can block it; otherwise only the sources can.
    pub fn may_conflict(target: &Target<'_>) -> bool {
        let desired = target.desired.as_ref();
        let has_downstream = desired.is_ok_and(|desired| !desired.options.downstream_resources.is_empty());
        target.existing.is_none() || has_downstream
    }

    /// Why the desired state of a cluster cannot be delivered, as far as the caches and the sources show it. It is decided before
    /// the rollout is planned, so that the cluster does not use up its limits.
    pub fn blocked(&self, target: &Target<'_>, state: &ClusterState) -> Option<Blocked> {
        let desired = target.desired.as_ref().ok()?;
        // Without a namespace the target waits for one.
        let namespace = target.namespace()?;
        let has_name =
            |deployment: &&CachedDeployment| deployment.meta().name.as_deref() == Some(self.name());
        let other = state.deployments.iter().find(has_name);
        if let Some(other) = other.filter(|_| target.existing.is_none()) {
            return Some(name_conflict(namespace, self.name(), other));
        }
        let downstream = match downstream(&desired.options) {
            Ok(downstream) => downstream,
            Err(error) => return Some(Blocked::until_change(error.to_string())),
        };
        let access = self
            .access_source()
            .filter(|_| !is_of_content(self.bundle(), &desired.id));
        let unavailable = downstream
            .iter()
            .chain(access)
            .find_map(|source| self.unavailable(source));
        unavailable.or_else(|| {
            let mut sources = downstream.iter();
            sources.find_map(|source| self.copy_conflict(namespace, source, state))
        })
    }

    fn unavailable(&self, source: &SourceRef) -> Option<Blocked> {
        match self.sources().get(source) {
            Some(Ok(_)) => None,
            Some(Err(blocked)) => Some(blocked.clone()),
            None => Some(Blocked::until_change(format!("{source} was not read"))),
        }
    }

    /// Why a downstream resource cannot be copied: two copies with the same name would overwrite each other again and again.
    fn copy_conflict(&self, namespace: &str, source: &SourceRef, state: &ClusterState) -> Option<Blocked> {
        let SourceRef { kind, name } = source;
        if *kind == CopyKind::Secret && self.name() == name {
            return Some(Blocked::new(
                BlockClass::NameConflict,
                format!(
                    "spec.downstreamResources: Secret {name} has the name of the Bundle, whose values are in a Secret of that \
                     name on the cluster; rename one of them"
                ),
            ));
        }
        let known = state.copies.get(&CopyRef {
            kind: *kind,
            name: NamespacedName::new(namespace, name),
        })?;
        let is_owned = || {
            let mut deployments = state.deployments.iter();
            deployments.any(|deployment| {
                let uid = deployment.meta().uid.as_deref();
                uid.is_some_and(|uid| known.is_owned_by(uid))
            })
        };
        if known.same_data_as.is_some() && !is_owned() {
            // It was deleted with its deployment: no watch shows what another controller created.
            return None;
        }
        let purpose = &known.purpose;
        let is_other =
            purpose.role != CopyRole::Downstream || purpose.bundle_namespace != self.bundle_namespace();
        is_other.then(|| {
            Blocked::new(
                BlockClass::NameConflict,
                format!(
                    "spec.downstreamResources: the cluster's namespace {namespace} already has a {kind} {name} for Bundles of \
                     namespace {}; rename one of them",
                    purpose.bundle_namespace
                ),
            )
        })
    }
}

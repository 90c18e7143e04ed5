//! Which deployments own a copy.

use helmops_api::BundleDeployment;

use super::{
    ClusterState,
    bundle::{SourceCopy, StepInput},
};
use crate::targeting::copies::{CopyRole, ObservedCopy, referenced_sources};

impl SourceCopy<'_> {
    /// The deployments that should own the copy: all deployments of the cluster that reference a downstream resource, and the
    /// deployment of the Bundle. A deployment that does not exist yet cannot own anything.
    pub fn owning<'s>(&self, input: &StepInput<'s>, state: &'s ClusterState) -> Vec<&'s BundleDeployment> {
        let own = input.existing.and_then(|existing| existing.metadata.uid.as_ref());
        let shares = |other: &&BundleDeployment| {
            let metadata = &other.metadata;
            metadata.uid.is_some()
                && metadata.uid.as_ref() != own
                && metadata.deletion_timestamp.is_none()
                && self.is_referenced_by(other)
        };
        let is_shared = self.role == CopyRole::Downstream;
        let others = state.valid_deployments().filter(|_| is_shared).filter(shares);
        others.chain(input.existing).collect()
    }

    fn is_referenced_by(&self, deployment: &BundleDeployment) -> bool {
        let kind = self.source.kind();
        let sources = referenced_sources(deployment);
        sources
            .iter()
            .any(|source| source.kind == kind && source.name == self.name)
    }
}

/// Whether a copy need not be written for the sake of its owners.
///
/// A Secret with values may have no owner: it has the name of its deployment, which is enough to find it. No copy may have only
/// owners that do not exist any more: the garbage collector of the API server would delete it.
pub(super) fn is_owned(copy: &ObservedCopy, role: CopyRole, owning: &[&BundleDeployment]) -> bool {
    if copy.owners.is_empty() {
        return role == CopyRole::Values || owning.is_empty();
    }
    let owns = |deployment: &&BundleDeployment| {
        let uid = deployment.metadata.uid.as_deref();
        uid.is_some_and(|uid| copy.is_owned_by(uid))
    };
    !owning.is_empty() && owning.iter().all(owns)
}

//! What the caches do not decide: it is read from the API server before a delivery is planned.

use std::collections::BTreeSet;

use helmops_api::NamespacedName;

use super::{
    BundleDelivery, ClusterState, Read,
    bundle::{SourceCopy, StepInput},
    observed::ReadObject,
    owners::is_owned,
};
use crate::targeting::{
    copies::{CopyRef, CopyRole, Destination, SourceRef},
    identity::values_hash,
    rollout::RolloutStep,
    target::Target,
};

impl BundleDelivery<'_> {
    /// What has to be read before a step is planned; nothing if the caches decide everything.
    pub fn reads(&self, target: &Target<'_>, step: RolloutStep, state: &ClusterState) -> Vec<Read> {
        let Some(input) = self.step_input(target, step) else {
            return Vec::new();
        };
        let mut reads = Vec::new();
        self.read_values(&input, state, &mut reads);
        for copy in self.source_copies(&input) {
            let reference = copy.reference(input.destination.namespace);
            let is_undecided = match copy.role {
                CopyRole::Downstream => is_downstream_undecided(&input, copy, &reference, state),
                CopyRole::Access | CopyRole::Values => is_access_undecided(&input, copy, &reference, state),
            };
            if is_undecided || state.stale.contains(&reference) {
                reads.push(Read::Object(reference));
            }
        }
        let is_read = |copy: &CopyRef| {
            reads
                .iter()
                .any(|read| matches!(read, Read::Object(read) if read == copy))
        };
        let released = self.released(&input, state).into_iter();
        let released: Vec<_> = released
            .filter(|copy| !is_read(copy))
            .map(Read::Metadata)
            .collect();
        reads.extend(released);
        reads
    }

    fn read_values(&self, input: &StepInput<'_>, state: &ClusterState, reads: &mut Vec<Read>) {
        let values = input.values_reference();
        let cached = state.copies.get(&values);
        let is_stale = state.stale.contains(&values);
        let is_own = cached.is_some_and(|cached| cached.purpose == *self.values_purpose());
        let Some(existing) = input.existing else {
            if is_own || is_stale {
                // It may be the Secret of a deployment that the cache does not show yet.
                let Destination {
                    namespace, bundle, ..
                } = input.destination;
                reads.push(Read::Deployment(NamespacedName::new(namespace, bundle)));
            }
            let is_other = cached.is_some() && !is_own && !has_no_values(input);
            if is_other || is_stale {
                reads.push(Read::Object(values));
            }
            return;
        };
        let is_intact = input.has_current_values(&values, state);
        let may_exist = cached.is_some() || !existing.spec.values_hash.is_empty();
        let is_unknown = !is_own && may_exist && !has_no_values(input);
        if is_stale || is_unknown || input.next.needs_secret(input.desired, &existing.spec, is_intact) {
            reads.push(Read::Object(values));
        }
    }

    /// The cached copies that the deployment, or the Bundle in place of a deployment, owns and does not need after a step.
    pub(super) fn released(&self, input: &StepInput<'_>, state: &ClusterState) -> Vec<CopyRef> {
        let uid = input
            .existing
            .and_then(|existing| existing.metadata.uid.as_deref());
        let is_owned = state.copies.iter().filter(|(_, copy)| {
            uid.is_some_and(|uid| copy.is_owned_by(uid))
                || copy.is_unowned_of(input.destination.bundle_namespace, input.destination.bundle)
        });
        let mut needed: Option<BTreeSet<SourceRef>> = None;
        let mut released = Vec::new();
        for (reference, _) in is_owned {
            if *reference == input.values_reference() {
                // If its values decide whether it is needed, it is read as a whole.
                if has_no_values(input) || !matches!(state.object(reference), ReadObject::NotRead) {
                    released.push(reference.clone());
                }
                continue;
            }
            let access = self.access().filter(|_| input.needs_access);
            let is_access =
                access.is_some_and(|access| access.reference(input.destination.namespace) == *reference);
            let needed = needed.get_or_insert_with(|| input.downstream());
            let is_downstream = needed
                .iter()
                .any(|source| source.kind == reference.kind && source.name == reference.name.name);
            if !is_access && !is_downstream {
                released.push(reference.clone());
            }
        }
        released
    }
}

/// Whether a deployment certainly has no values after a step.
fn has_no_values(input: &StepInput<'_>) -> bool {
    let had_none = input
        .existing
        .is_none_or(|existing| existing.spec.values_hash.is_empty());
    let is_desired = |id: &str| id == input.desired.id;
    let has_desired = input.next.ids.into_iter().any(is_desired);
    let is_known = had_none || input.next.ids.into_iter().all(is_desired);
    let desired = input.desired.values.as_bytes();
    is_known && (!has_desired || values_hash(desired, desired).is_empty())
}

/// Whether the cache shows that a copy of a source need not be written.
pub(super) fn is_decided(copy: &SourceCopy<'_>, reference: &CopyRef, state: &ClusterState) -> bool {
    let cached = state
        .copies
        .get(reference)
        .filter(|cached| cached.purpose == copy.purpose);
    cached.is_some_and(|cached| {
        cached.has_data_of(&copy.copied_from) || cached.is_current(&copy.copied_from, copy.keys)
    })
}

/// Existing objects are compared with their source before they are written: the agent deploys again when anything of the object
/// changes, even a label.
fn is_downstream_undecided(
    input: &StepInput<'_>,
    copy: &SourceCopy<'_>,
    reference: &CopyRef,
    state: &ClusterState,
) -> bool {
    let Some(cached) = state.copies.get(reference) else {
        return input.existing.is_some();
    };
    let is_current = cached.is_current(&copy.copied_from, copy.keys);
    let is_kept =
        || cached.has_data_of(&copy.copied_from) && is_owned(cached, copy.role, &copy.owning(input, state));
    cached.purpose != copy.purpose || !(is_current || is_kept())
}

/// An access Secret that is not known as such is read if the deployment has it already, or if it is a copy for another purpose.
fn is_access_undecided(
    input: &StepInput<'_>,
    copy: &SourceCopy<'_>,
    reference: &CopyRef,
    state: &ClusterState,
) -> bool {
    match state.copies.get(reference) {
        Some(cached) => cached.purpose != copy.purpose,
        None => input.existing.is_some_and(|existing| {
            let options = existing.spec.helm_chart_options.as_ref();
            options.is_some_and(|options| options.secret_name == copy.name)
        }),
    }
}

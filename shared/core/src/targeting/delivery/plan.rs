//! The plan of a rollout step for a cluster.

use std::sync::Arc;

use helmops_api::BundleDeployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;

use super::{
    Action, BundleDelivery, CachedDeployment, ClusterState, CopyWrite, ObjectVersion, Plan,
    bundle::{SourceCopy, StepInput},
    conflicts::foreign_object,
    observed::ReadObject,
    owners::is_owned,
    prune::release,
    reads::is_decided,
};
use crate::targeting::{
    blocked::Blocked,
    copies::{
        Copy, CopyPurpose, CopyRef, CopyRole, ExistingObject, Object, ObservedCopy, copied_from, owner,
    },
    deployment::{CopyState, DesiredSecret, DownstreamCopy, Observed, SecretValues, deployment, recorded},
    rollout::RolloutStep,
    target::Target,
};

/// A copy that should exist.
struct DesiredCopy<'d, F> {
    role: CopyRole,
    purpose: &'d CopyPurpose,
    copied_from: &'d str,
    keys: usize,
    reference: CopyRef,
    owning: Vec<&'d BundleDeployment>,
    build: F,
}

impl BundleDelivery<'_> {
    /// The actions of a rollout step for a cluster. `state` contains what [`BundleDelivery::reads`] requires.
    ///
    /// # Errors
    /// If an object that is not managed has the name of a copy. Then there is no action at all.
    pub fn plan(
        &self,
        target: &Target<'_>,
        step: RolloutStep,
        state: &ClusterState,
    ) -> Result<Plan, Blocked> {
        let Some(input) = self.step_input(target, step) else {
            return Ok(Plan::default());
        };
        let values = input.values_reference();
        let stored = match state.object(&values) {
            ReadObject::Found(Object::Secret(secret)) => Copy::values_of(secret),
            _ => None,
        };
        let downstream = self.compared(&input, state);
        let observed = Observed {
            secret: stored.as_ref(),
            is_intact: input.has_current_values(&values, state),
            downstream: &downstream,
        };
        let Some(mut desired) = deployment(self.bundle(), self.charts(), target, step, observed) else {
            return Ok(Plan::default());
        };
        let secret = std::mem::replace(&mut desired.secret, DesiredSecret::None);
        let to_write = desired.merged(input.existing, state.pruned()).map(Box::new);

        let mut actions = Vec::new();
        let copies = self.source_copies(&input);
        for copy in &copies {
            ensure(&source_copy(&input, copy, state), &input, state, &mut actions)?;
        }
        let mut of_values = Vec::new();
        if let DesiredSecret::Values(values) = &secret {
            self.ensure_values(&input, values, state, &mut of_values)?;
        }
        if input.existing.is_some() {
            // The deployment has the hash of its values, so the values follow.
            actions.extend(to_write.map(Action::ReplaceDeployment));
            actions.append(&mut of_values);
        } else {
            actions.append(&mut of_values);
            actions.extend(to_write.map(Action::CreateDeployment));
        }
        let uid = input
            .existing
            .and_then(|existing| existing.metadata.uid.as_deref());
        for copy in self.released(&input, state) {
            let is_needed = secret != DesiredSecret::None && copy == values;
            let metadata = state.metadata_of(&copy).filter(|_| !is_needed);
            actions.extend(metadata.and_then(|metadata| release(&copy, metadata, uid)));
        }
        Ok(Plan {
            actions,
            has_new_owner: input.existing.is_none() && !copies.is_empty(),
        })
    }

    /// The downstream resources of the options that the agent deploys with after the step, compared with their sources.
    fn compared(&self, input: &StepInput<'_>, state: &ClusterState) -> Vec<DownstreamCopy> {
        let Some(options) = input.next.options[0] else {
            return Vec::new();
        };
        let recorded = input.existing.and_then(recorded).unwrap_or_default();
        let copies = self.downstream_of(options).into_iter().map(|copy| {
            let source = format!("{} {}", copy.source.kind(), copy.copied_from);
            let is_recorded = input.existing.is_none() || recorded.contains(&*source);
            DownstreamCopy {
                copy: (!is_recorded).then(|| compare(input, copy, state)),
                source,
            }
        });
        copies.collect()
    }

    fn ensure_values(
        &self,
        input: &StepInput<'_>,
        values: &SecretValues,
        state: &ClusterState,
        actions: &mut Vec<Action>,
    ) -> Result<(), Blocked> {
        let copy = Copy::of_values(input.destination, values);
        let desired = DesiredCopy {
            role: CopyRole::Values,
            purpose: self.values_purpose(),
            copied_from: &copy.copied_from,
            keys: SecretValues::KEYS,
            reference: input.values_reference(),
            owning: input.existing.into_iter().collect(),
            build: || copy.clone(),
        };
        ensure(&desired, input, state, actions)
    }
}

fn source_copy<'d>(
    input: &StepInput<'d>,
    copy: &'d SourceCopy<'_>,
    state: &'d ClusterState,
) -> DesiredCopy<'d, impl Fn() -> Copy + use<'d>> {
    let destination = input.destination;
    DesiredCopy {
        role: copy.role,
        purpose: &copy.purpose,
        copied_from: &copy.copied_from,
        keys: copy.keys,
        reference: copy.reference(destination.namespace),
        owning: copy.owning(input, state),
        build: move || copy.build(destination),
    }
}

/// Adds the actions that create or repair a copy; none if it is up to date.
fn ensure(
    desired: &DesiredCopy<'_, impl Fn() -> Copy>,
    input: &StepInput<'_>,
    state: &ClusterState,
    actions: &mut Vec<Action>,
) -> Result<(), Blocked> {
    let known = state.copies.get(&desired.reference);
    let known = known.filter(|known| known.purpose == *desired.purpose);
    let is_current = known.is_some_and(|known| known.is_current(desired.copied_from, desired.keys));
    let has_content = |known: &&Arc<ObservedCopy>| is_current || known.has_data_of(desired.copied_from);
    let is_owned = |known: &Arc<ObservedCopy>| is_owned(known, desired.role, &desired.owning);
    if known.filter(has_content).is_some_and(is_owned) {
        return Ok(());
    }
    let copy = (desired.build)();
    let owning = desired.owning.iter();
    let owners: Vec<_> = owning
        .filter_map(|deployment| owner(deployment, desired.role))
        .collect();
    let write = |copy: Copy, owners| CopyWrite {
        copy: Box::new(copy),
        owners,
    };
    match state.object(&desired.reference) {
        ReadObject::NotRead if known.is_some() => actions.push(Action::ApplyCopy(write(copy, owners))),
        ReadObject::NotRead | ReadObject::Missing => actions.push(Action::CreateCopy(write(copy, owners))),
        ReadObject::Found(found) => {
            if !has_same_purpose(&copy, found, input, state) {
                return Err(foreign_object(&desired.reference, &copy));
            }
            let may_keep = desired.role == CopyRole::Downstream && !is_current;
            if may_keep && found.has_content_of(&copy.object) {
                // The agent deploys again when anything of the object changes, even a label.
                actions.push(keep(copy, found, &desired.reference, owners, state));
            } else if found.can_become(&copy.object) {
                actions.push(Action::ApplyCopy(write(copy, owners)));
            } else {
                actions.push(Action::DeleteCopy {
                    copy: desired.reference.clone(),
                    version: ObjectVersion::of(found.metadata()),
                });
                actions.push(Action::CreateCopy(write(copy, owners)));
            }
        }
    }
    Ok(())
}

/// Leaves an object as it is, except for its owners: the desired ones are added, and deployments that do not exist any more are
/// removed.
fn keep(
    copy: Copy,
    found: &Object,
    reference: &CopyRef,
    desired: Vec<OwnerReference>,
    state: &ClusterState,
) -> Action {
    let metadata = found.metadata();
    let before = metadata.owner_references.as_deref().unwrap_or_default();
    let kept = before.iter().filter(|owner| !is_gone(owner, state));
    let mut owners: Vec<_> = kept.cloned().collect();
    for owner in desired {
        if owners.iter().all(|known| known.uid != owner.uid) {
            owners.push(owner);
        }
    }
    if owners == before {
        return Action::KeepCopy {
            copy: Box::new(copy),
            metadata: Box::new(metadata.clone()),
        };
    }
    Action::SetOwners {
        copy: reference.clone(),
        version: ObjectVersion::of(metadata),
        owners,
    }
}

/// Whether an owner is a deployment that does not exist any more.
fn is_gone(owner: &OwnerReference, state: &ClusterState) -> bool {
    let has_uid = |deployment: &CachedDeployment| deployment.meta().uid.as_ref() == Some(&owner.uid);
    owner.kind == BundleDeployment::kind(&()) && !state.deployments.iter().any(has_uid)
}

/// Whether an existing object was created for the same purpose as a copy, by this controller or by Fleet's own.
fn has_same_purpose(copy: &Copy, found: &Object, input: &StepInput<'_>, state: &ClusterState) -> bool {
    let deployments: Vec<_> = state.valid_deployments().chain(input.existing).collect();
    let found = ExistingObject {
        metadata: found.metadata(),
        type_: found.type_(),
    };
    copy.is_same(found, &deployments)
}

/// Compares the copy of a downstream resource with its source.
fn compare(input: &StepInput<'_>, copy: &SourceCopy<'_>, state: &ClusterState) -> CopyState {
    let reference = copy.reference(input.destination.namespace);
    let kind = copy.source.kind();
    let same = |copied_from: Option<String>| CopyState::Same {
        copied_from: copied_from.map(|version| format!("{kind} {version}")),
    };
    if is_decided(copy, &reference, state) {
        let known = state.copies.get(&reference);
        return same(known.and_then(|known| known.copied_from.clone()));
    }
    match state.object(&reference) {
        ReadObject::Found(found) if found.has_content_of(copy.source) => {
            let has_same_purpose = CopyPurpose::of(found.metadata()).as_ref() == Some(&copy.purpose);
            same(copied_from(found.metadata()).filter(|_| has_same_purpose))
        }
        ReadObject::Missing => CopyState::Missing,
        ReadObject::Found(_) | ReadObject::NotRead => CopyState::Different,
    }
}

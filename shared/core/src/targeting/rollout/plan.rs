//! The rollout step of each cluster in one round.

use std::collections::HashSet;

use helmops_api::{
    Bundle, BundleDeployment,
    bundle::{PartitionStatus, RolloutStatus},
    rollout::RolloutStrategy,
    status::number,
};
use helmops_model::deployment_state::{DeploymentState, has_deployed};
use k8s_openapi::jiff::Timestamp;

use super::{
    error::PlanError,
    is_unavailable,
    limit::InvalidAmount,
    partition::{Partition, amount_of, partitions},
    partition_gate::{GateFacts, GateRequest, GateStates},
    waits::Waits,
};
use crate::{
    status::is_silent,
    targeting::{desired::DesiredTarget, target::Target},
};

/// What to do for a cluster in this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// It has no deployment and gets none yet: the rollout has not reached it, or it is in no partition.
    Wait,
    /// Its deployment stays as it is: the rollout has not reached it, it is in no partition, or its desired state is unknown.
    Hold,
    /// The desired state is staged in its deployment, which may be new.
    Stage,
    /// The desired state is promoted: its deployment, which may be new, deploys it.
    Promote,
}

/// One round of a rollout.
#[derive(Debug, PartialEq)]
pub struct Rollout {
    /// The step of each target, in the order of the targets.
    pub steps: Vec<RolloutStep>,
    /// The partitions.
    pub partitions: Vec<PartitionRound>,
    /// Indexes of the targets that are in no partition. They get nothing unless the partitions change.
    pub unassigned: Vec<usize>,
    /// Number of unavailable clusters, including those that become unavailable in this round.
    pub unavailable: usize,
    /// How many clusters may be unavailable.
    pub max_unavailable: usize,
    /// Number of partitions with more unavailable clusters than allowed.
    pub unavailable_partitions: usize,
    /// How many partitions may be unavailable.
    pub max_unavailable_partitions: usize,
    /// Number of clusters that get the Bundle for the first time.
    pub newly_created: usize,
    /// How many may be new in one round, if that is limited.
    pub max_new: Option<usize>,
    /// What is rolled out and what it waits for; `None` if the strategy makes no partition wait.
    pub status: Option<RolloutStatus>,
    /// Whether every partition is complete, and it is not halted before others, nor goes back. Only if the strategy makes a partition wait.
    pub is_complete: bool,
    /// When the next round is due, although nothing may have changed.
    pub next_round: Option<Timestamp>,
    /// The gate whose state decides how it goes on and is not known. Until then its partition waits.
    pub required_gate: Option<Box<GateRequest>>,
}

/// A partition after a round.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionRound {
    /// Its status, without a summary.
    pub status: PartitionStatus,
    /// Indexes of its targets.
    pub members: Vec<usize>,
}

/// Plans a round.
///
/// Partitions are processed in order. In each, clusters without a deployment get one until `maxNew` is reached, and the desired
/// state is staged for all clusters. Then each cluster is promoted unless it is paused, or unless it is available and the
/// maximum of unavailable clusters is reached in the Bundle or in the partition. If too many partitions have too many clusters
/// that are not up to date and available, later partitions wait. They also wait for the soaks, gates and approvals of the strategy, of which
/// `gates` has the states that are known: see [`Rollout::required_gate`].
///
/// All that a round has to know of earlier ones is in the status of the Bundle, which must get [`Rollout::status`] and the partitions.
///
/// A cluster whose values cannot be computed does not block the others: it counts as unavailable only if its deployment is.
///
/// # Errors
/// If the strategy has an amount that is neither a number nor a percentage, a soak that is no duration, an invalid gate, or an invalid
/// selector.
pub fn plan(
    bundle: &Bundle,
    targets: &[Target<'_>],
    gates: &GateStates,
    now: Timestamp,
) -> Result<Rollout, PlanError> {
    let default = RolloutStrategy::default();
    let spec = &bundle.spec;
    let strategy = spec.rollout_strategy.as_ref().unwrap_or(&default);
    let partitions = partitions(strategy, targets)?;
    let assigned: HashSet<usize> = partitions
        .iter()
        .flat_map(|partition| &partition.members)
        .copied()
        .collect();
    let mut planner = Planner {
        targets,
        is_paused: spec.paused,
        rollout: Rollout {
            steps: targets.iter().map(|target| initial_step(target)).collect(),
            partitions: Vec::with_capacity(partitions.len()),
            unassigned: (0..targets.len())
                .filter(|index| !assigned.contains(index))
                .collect(),
            unavailable: count_unavailable(targets.iter()),
            max_unavailable: amount_of(targets.len(), strategy.max_unavailable.as_ref(), "100%")?,
            unavailable_partitions: 0,
            max_unavailable_partitions: max_unavailable_partitions(strategy, partitions.len())?,
            newly_created: 0,
            max_new: strategy
                .max_new
                .map(|max| usize::try_from(max).unwrap_or_default()),
            status: None,
            is_complete: !targets.is_empty(),
            next_round: None,
            required_gate: None,
        },
    };
    let mut waits = Waits::of(bundle, strategy, targets, gates, now)?;
    let mut proceeds = true;
    for (index, partition) in partitions.iter().enumerate() {
        let mut unavailable = count_unavailable(planner.members(partition));
        let (has_changes, may_proceed) = (planner.has_changes(partition), proceeds && !spec.paused);
        let is_admitted = waits
            .as_mut()
            .is_none_or(|waits| waits.admit(index, partition, has_changes, may_proceed));
        if proceeds && is_admitted {
            planner.stage(partition);
            planner.promote(partition, &mut unavailable);
            unavailable = planner.count_incomplete(partition);
            if unavailable > partition.max_unavailable {
                planner.rollout.unavailable_partitions += 1;
            }
            proceeds = planner.rollout.unavailable_partitions <= planner.rollout.max_unavailable_partitions;
        }
        let mut status = status(partition, unavailable);
        if let Some(waits) = &mut waits {
            let unfinished = planner.count_unfinished(partition);
            let is_complete = !planner.has_waiting(partition) && unfinished <= tolerated(partition);
            planner.rollout.is_complete &= is_complete;
            let times = waits.finish(index, partition, unfinished, is_complete);
            status.completed_at = times.completed_at;
            status.gate_since = times.gate_since;
            status.gate_passed_at = times.gate_passed_at;
        }
        planner.rollout.partitions.push(PartitionRound {
            status,
            members: partition.members.clone(),
        });
    }
    if let Some(waits) = waits {
        planner.rollout.is_complete &= !waits.prevents_completion();
        planner.rollout.required_gate = planner.required_gate(&waits, bundle, &partitions, now);
        let (status, next_round) = waits.status(planner.is_updating());
        planner.rollout.status = Some(status);
        planner.rollout.next_round = next_round;
    }
    Ok(planner.rollout)
}

fn max_unavailable_partitions(strategy: &RolloutStrategy, count: usize) -> Result<usize, InvalidAmount> {
    match &strategy.max_unavailable_partitions {
        Some(amount) => amount_of(count, Some(amount), "0"),
        None => Ok(usize::from(count == 0)),
    }
}

fn initial_step(target: &Target<'_>) -> RolloutStep {
    match target.existing {
        Some(_) => RolloutStep::Hold,
        None => RolloutStep::Wait,
    }
}

fn count_unavailable<'t>(targets: impl Iterator<Item = &'t Target<'t>>) -> usize {
    targets
        .filter(|target| target.existing.is_some_and(is_unavailable))
        .count()
}

fn status(partition: &Partition, unavailable: usize) -> PartitionStatus {
    PartitionStatus {
        name: partition.name.clone(),
        count: number(partition.members.len()),
        max_unavailable: number(partition.max_unavailable),
        unavailable: number(unavailable),
        ..PartitionStatus::default()
    }
}

/// Whether a cluster has another deployment than the desired one, or none.
fn needs_promotion(target: &Target<'_>) -> bool {
    let Ok(desired) = &target.desired else {
        return false;
    };
    target
        .existing
        .is_none_or(|existing| existing.spec.deployment_id != desired.id)
}

/// Whether it can be the turn of a cluster: it is not paused, and has a namespace.
fn has_turn(target: &Target<'_>) -> bool {
    target.namespace().is_some() && !target.member.cluster.spec.paused
}

/// Whether the agent of a cluster can change it now.
fn is_reached(target: &Target<'_>) -> bool {
    let cluster = target.member.cluster;
    let is_suspended = |existing: &BundleDeployment| {
        let lifecycle = existing.spec.lifecycle.as_ref();
        lifecycle.and_then(|lifecycle| lifecycle.suspend) == Some(true)
    };
    !cluster.spec.paused
        && !cluster.status.is_out_of_schedule()
        && !is_silent(&cluster.status)
        && !target.existing.is_some_and(is_suspended)
}

fn is_being_updated(deployment: &BundleDeployment) -> bool {
    matches!(
        DeploymentState::of(deployment),
        DeploymentState::WaitApplied | DeploymentState::WaitingForDependency
    )
}

struct Planner<'r, 'a> {
    targets: &'r [Target<'a>],
    is_paused: bool,
    rollout: Rollout,
}

impl<'r, 'a> Planner<'r, 'a> {
    fn members<'p>(
        &self,
        partition: &'p Partition,
    ) -> impl Iterator<Item = &'r Target<'a>> + use<'p, 'r, 'a> {
        let targets = self.targets;
        partition.members.iter().filter_map(|index| targets.get(*index))
    }

    /// The targets of a partition with their steps.
    fn steps(&self, partition: &Partition) -> impl Iterator<Item = (&'r Target<'a>, RolloutStep)> {
        let steps = partition
            .members
            .iter()
            .filter_map(|index| self.rollout.steps.get(*index));
        self.members(partition).zip(steps.copied())
    }

    fn stage(&mut self, partition: &Partition) {
        for index in &partition.members {
            let (Some(target), Some(step)) = (self.targets.get(*index), self.rollout.steps.get_mut(*index))
            else {
                continue;
            };
            if target.desired.is_err() {
                continue;
            }
            if target.existing.is_some() {
                *step = RolloutStep::Stage;
            } else if target.namespace().is_some()
                && self
                    .rollout
                    .max_new
                    .is_none_or(|max| self.rollout.newly_created < max)
            {
                self.rollout.newly_created += 1;
                *step = RolloutStep::Stage;
            }
        }
    }

    fn promote(&mut self, partition: &Partition, unavailable: &mut usize) {
        let rollout = &mut self.rollout;
        for index in &partition.members {
            let (Some(target), Some(step)) = (self.targets.get(*index), rollout.steps.get_mut(*index)) else {
                continue;
            };
            let is_held = self.is_paused || target.member.cluster.spec.paused;
            if *step != RolloutStep::Stage || is_held || !needs_promotion(target) {
                continue;
            }
            // Promoting a deployment that is new or unavailable does not reduce availability.
            let is_available = target
                .existing
                .is_some_and(|deployment| !is_unavailable(deployment));
            if is_available {
                let may_become_unavailable =
                    rollout.unavailable < rollout.max_unavailable && *unavailable < partition.max_unavailable;
                if !may_become_unavailable {
                    continue;
                }
                rollout.unavailable += 1;
                *unavailable += 1;
            }
            *step = RolloutStep::Promote;
        }
    }

    /// The gate that has to be evaluated, with what it decides on.
    fn required_gate(
        &self,
        waits: &Waits<'_>,
        bundle: &Bundle,
        partitions: &[Partition],
        now: Timestamp,
    ) -> Option<Box<GateRequest>> {
        let (index, id) = waits.required_gate()?;
        let gate = partitions.get(index)?.gate.clone()?;
        let statuses = self.rollout.partitions.iter().map(|round| &round.status);
        let known: Vec<_> = partitions.iter().zip(statuses).take(index + 1).collect();
        Some(Box::new(GateRequest {
            partition: index,
            gate,
            facts: GateFacts::new(bundle, id, &known, self.targets, now)?,
        }))
    }

    /// Whether any cluster of a partition gets something else than it has. A paused one gets nothing.
    fn has_changes(&self, partition: &Partition) -> bool {
        self.members(partition)
            .any(|target| has_turn(target) && needs_promotion(target))
    }

    /// Whether any cluster is being updated. One that nothing reaches now may stay as it is for days.
    fn is_updating(&self) -> bool {
        let mut steps = self.targets.iter().zip(&self.rollout.steps);
        steps.any(|(target, step)| {
            is_reached(target)
                && (*step == RolloutStep::Promote || target.existing.is_some_and(is_being_updated))
        })
    }

    /// Whether any cluster of a partition still has its turn to come. A paused one has none, nor has one without a namespace.
    fn has_waiting(&self, partition: &Partition) -> bool {
        self.steps(partition)
            .any(|(target, step)| step != RolloutStep::Promote && has_turn(target) && needs_promotion(target))
    }

    /// Number of clusters of a partition that are not up to date and ready, those included whose desired state is unknown: nothing shows
    /// that it works there.
    fn count_unfinished(&self, partition: &Partition) -> usize {
        let is_finished = |target: &&Target<'_>| {
            let desired = target.desired.as_ref().ok().zip(target.existing);
            desired.is_some_and(|(desired, existing)| is_complete(desired, existing, RolloutStep::Hold))
        };
        partition
            .members
            .len()
            .saturating_sub(self.members(partition).filter(is_finished).count())
    }

    /// Number of clusters of a partition that are not up to date or not available.
    fn count_incomplete(&self, partition: &Partition) -> usize {
        self.steps(partition)
            .filter(|(target, step)| match (&target.desired, target.existing) {
                (Err(_), existing) => existing.is_some_and(is_unavailable),
                (Ok(_), None) => true,
                (Ok(desired), Some(existing)) => !is_complete(desired, existing, *step),
            })
            .count()
    }
}

/// How many clusters of a complete partition may be unfinished: as many as may be unavailable, unless that is all of them. Then the
/// partition would be complete whatever happens in it.
fn tolerated(partition: &Partition) -> usize {
    if partition.max_unavailable < partition.members.len() {
        partition.max_unavailable
    } else {
        0
    }
}

fn is_complete(desired: &DesiredTarget, existing: &BundleDeployment, step: RolloutStep) -> bool {
    let is_promoted = step == RolloutStep::Promote || existing.spec.deployment_id == desired.id;
    is_promoted && has_deployed(existing, &desired.id)
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

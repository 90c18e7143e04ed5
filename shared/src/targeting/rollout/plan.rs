//! What is done for each cluster in one round.

use std::collections::HashSet;

use thiserror::Error;

use super::{
    is_unavailable,
    limit::InvalidAmount,
    partition::{Partition, amount_of, partitions},
};
use crate::{
    api::{BundleDeployment, BundleSpec, bundle::PartitionStatus, rollout::RolloutStrategy},
    targeting::{
        selector::InvalidSelector,
        target::{DesiredTarget, Target},
    },
};

/// How many clusters get the Bundle for the first time in one round, unless it is said.
const MAX_NEW: i64 = 50;

/// A strategy that cannot be followed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// A number or percentage is neither.
    #[error("rolloutStrategy: {0}")]
    Amount(#[from] InvalidAmount),
    /// The selector of a partition is not one.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
}

/// What is done for a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// It has no deployment and gets none yet: its turn has not come, or no partition has it.
    Wait,
    /// Its deployment stays as it is: its turn has not come, no partition has it, or what is wanted is not known.
    Hold,
    /// Its deployment, a new one perhaps, learns what comes next.
    Stage,
    /// Its deployment, a new one perhaps, gets what is wanted.
    Promote,
}

/// One round of a roll-out.
#[derive(Debug, PartialEq)]
pub struct Rollout {
    /// What is done for each target, in their order.
    pub turns: Vec<RolloutStep>,
    /// The partitions.
    pub partitions: Vec<PartitionRound>,
    /// The targets that no partition has, by their place. They get nothing, unless the partitions change.
    pub unassigned: Vec<usize>,
    /// Number of clusters that are unavailable, those included that become so in this round.
    pub unavailable: usize,
    /// How many may be.
    pub max_unavailable: usize,
    /// Number of partitions with more unavailable clusters than they may have.
    pub unavailable_partitions: usize,
    /// How many there may be.
    pub max_unavailable_partitions: usize,
    /// Number of clusters that get the Bundle for the first time.
    pub newly_created: usize,
    /// How many may in one round.
    pub max_new: usize,
}

/// A partition after a round.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionRound {
    /// What its status says, without a summary.
    pub status: PartitionStatus,
    /// Its targets, by their place.
    pub members: Vec<usize>,
}

/// Plans a round.
///
/// Partition after partition, clusters without a deployment get one while fewer than `maxNew` did, and all learn what comes
/// next. Then each is given what is wanted unless it is paused, or available while as many others as allowed are not,
/// in the Bundle or in the partition. Where too many partitions have too many clusters that are not up to date and
/// available, later partitions wait.
///
/// A cluster whose values cannot be made holds nobody up: it counts as unavailable only if its deployment is.
///
/// # Errors
/// Where the strategy has an amount that is neither number nor percentage, or a selector that is not one.
pub fn plan(spec: &BundleSpec, targets: &[Target<'_>]) -> Result<Rollout, PlanError> {
    let standard = RolloutStrategy::default();
    let strategy = spec.rollout_strategy.as_ref().unwrap_or(&standard);
    let partitions = partitions(strategy, targets)?;
    let assigned: HashSet<usize> = partitions
        .iter()
        .flat_map(|partition| &partition.members)
        .copied()
        .collect();
    let mut round = Round {
        targets,
        is_paused: spec.paused,
        rollout: Rollout {
            turns: targets.iter().map(|target| untouched(target)).collect(),
            partitions: Vec::with_capacity(partitions.len()),
            unassigned: (0..targets.len())
                .filter(|place| !assigned.contains(place))
                .collect(),
            unavailable: count_unavailable(targets.iter()),
            max_unavailable: amount_of(targets.len(), strategy.max_unavailable.as_ref(), "100%")?,
            unavailable_partitions: 0,
            max_unavailable_partitions: max_unavailable_partitions(strategy, partitions.len())?,
            newly_created: 0,
            max_new: usize::try_from(strategy.max_new.unwrap_or(MAX_NEW)).unwrap_or_default(),
        },
    };
    let mut goes_on = true;
    for partition in &partitions {
        let mut unavailable = count_unavailable(round.members(partition));
        if goes_on {
            round.stage(partition);
            round.promote(partition, &mut unavailable);
            unavailable = round.not_done(partition);
            if unavailable > partition.max_unavailable {
                round.rollout.unavailable_partitions += 1;
            }
            goes_on = round.rollout.unavailable_partitions <= round.rollout.max_unavailable_partitions;
        }
        round.rollout.partitions.push(PartitionRound {
            status: status(partition, unavailable),
            members: partition.members.clone(),
        });
    }
    Ok(round.rollout)
}

fn max_unavailable_partitions(strategy: &RolloutStrategy, count: usize) -> Result<usize, InvalidAmount> {
    match &strategy.max_unavailable_partitions {
        Some(amount) => amount_of(count, Some(amount), "0"),
        None => Ok(usize::from(count == 0)),
    }
}

fn untouched(target: &Target<'_>) -> RolloutStep {
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
        summary: None,
    }
}

/// A number as the API has it.
fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

struct Round<'r, 'a> {
    targets: &'r [Target<'a>],
    is_paused: bool,
    rollout: Rollout,
}

impl<'r, 'a> Round<'r, 'a> {
    fn members<'p>(
        &self,
        partition: &'p Partition,
    ) -> impl Iterator<Item = &'r Target<'a>> + use<'p, 'r, 'a> {
        let targets = self.targets;
        partition.members.iter().filter_map(|place| targets.get(*place))
    }

    fn stage(&mut self, partition: &Partition) {
        for place in &partition.members {
            let (Some(target), Some(turn)) = (self.targets.get(*place), self.rollout.turns.get_mut(*place))
            else {
                continue;
            };
            if target.wanted.is_err() {
                continue;
            }
            if target.existing.is_some() {
                *turn = RolloutStep::Stage;
            } else if target.namespace().is_some() && self.rollout.newly_created < self.rollout.max_new {
                self.rollout.newly_created += 1;
                *turn = RolloutStep::Stage;
            }
        }
    }

    fn promote(&mut self, partition: &Partition, unavailable: &mut usize) {
        let rollout = &mut self.rollout;
        for place in &partition.members {
            let (Some(target), Some(turn)) = (self.targets.get(*place), rollout.turns.get_mut(*place)) else {
                continue;
            };
            let (RolloutStep::Stage, Ok(wanted)) = (*turn, &target.wanted) else {
                continue;
            };
            let is_up_to_date = target
                .existing
                .is_some_and(|deployment| deployment.spec.deployment_id == wanted.id);
            if self.is_paused || target.member.cluster.spec.paused || is_up_to_date {
                continue;
            }
            // One that does not do its work anyway, or is new, can only get better.
            let is_available = target
                .existing
                .is_some_and(|deployment| !is_unavailable(deployment));
            if is_available {
                let has_room =
                    rollout.unavailable < rollout.max_unavailable && *unavailable < partition.max_unavailable;
                if !has_room {
                    continue;
                }
                rollout.unavailable += 1;
                *unavailable += 1;
            }
            *turn = RolloutStep::Promote;
        }
    }

    /// How many of a partition are not up to date, or not available.
    fn not_done(&self, partition: &Partition) -> usize {
        let turns = partition
            .members
            .iter()
            .filter_map(|place| self.rollout.turns.get(*place));
        self.members(partition)
            .zip(turns)
            .filter(|(target, turn)| match (&target.wanted, target.existing) {
                (Err(_), existing) => existing.is_some_and(is_unavailable),
                (Ok(_), None) => true,
                (Ok(wanted), Some(existing)) => !is_done(wanted, existing, **turn),
            })
            .count()
    }
}

fn is_done(wanted: &DesiredTarget, existing: &BundleDeployment, turn: RolloutStep) -> bool {
    let is_asked_for = turn == RolloutStep::Promote || existing.spec.deployment_id == wanted.id;
    is_asked_for && existing.status.applied_deployment_id == wanted.id && existing.status.ready
}

#[cfg(test)]
mod tests;

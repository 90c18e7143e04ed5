//! The status of a Bundle: how far its roll-out is.

use super::{
    condition::{self, ConditionType, State},
    deployments::Deployment,
    ready_message::of_summary,
    summary,
};
use crate::{
    api::{
        Bundle, BundleDeployment,
        bundle::{BundleDisplay, BundleStatus},
        status::BundleSummary,
    },
    reason::Reason,
    targeting::{Rollout, Target},
};

/// A cluster that a Bundle goes to, after a round of its roll-out.
#[derive(Clone, Copy, Debug)]
pub struct TargetStatus<'a> {
    /// The cluster, and what is to be there.
    pub target: &'a Target<'a>,
    /// Its deployment as it is now.
    pub deployment: Option<&'a BundleDeployment>,
    /// What keeps it from getting what is wanted.
    pub problem: Option<&'a str>,
}

/// What came of a round.
#[derive(Clone, Copy, Debug)]
pub enum RolloutRound<'a> {
    /// Clusters were given what it is their turn for. The places are in the order of the targets.
    Done(&'a Rollout, &'a [TargetStatus<'a>]),
    /// Nothing was done, because of something that concerns all of them.
    Refused(Reason, &'a str),
}

/// The status that follows. `now` is a time in RFC 3339.
///
/// Fields that this controller does not know of, and conditions of others, stay as they are. After a refusal everything
/// else stays too: it is what the clusters have.
pub fn bundle(bundle: &Bundle, round: RolloutRound<'_>, now: &str) -> BundleStatus {
    let generation = bundle.metadata.generation;
    let mut status = bundle.status.as_deref().cloned().unwrap_or_default();
    status.observed_generation = generation;
    let ready = match round {
        RolloutRound::Done(rollout, places) => {
            fill(&mut status, rollout, places);
            ready(status.summary.as_ref(), bundle)
        }
        RolloutRound::Refused(reason, message) => State::False(reason, message.to_owned()),
    };
    condition::set(
        &mut status.conditions,
        ConditionType::Ready,
        &ready,
        generation,
        now,
    );
    status
}

fn fill(status: &mut BundleStatus, rollout: &Rollout, places: &[TargetStatus<'_>]) {
    let deployments: Vec<Deployment<'_>> = places
        .iter()
        .map(|place| Deployment::of_target(place.target, place.deployment, place.problem))
        .collect();
    let summary = summary::of_deployments(&deployments);
    let count = |number: usize| Some(summary::number(number));
    status.newly_created = summary::number(rollout.newly_created);
    status.unavailable = count(rollout.unavailable);
    status.unavailable_partitions = count(rollout.unavailable_partitions);
    status.max_unavailable = count(rollout.max_unavailable);
    status.max_unavailable_partitions = count(rollout.max_unavailable_partitions);
    status.max_new = count(rollout.max_new);
    status.partitions = rollout
        .partitions
        .iter()
        .map(|partition| {
            let members: Vec<_> = partition
                .members
                .iter()
                .filter_map(|place| deployments.get(*place).copied())
                .collect();
            let mut status = partition.status.clone();
            // Its examples are among those of the Bundle, or would be too many.
            status.summary = Some(BundleSummary {
                non_ready_resources: Vec::new(),
                ..summary::of_deployments(&members)
            });
            status
        })
        .collect();
    status.display = Some(BundleDisplay {
        ready_clusters: summary::ready_of_all(&summary),
        state: summary::worst(&summary).map_or_else(String::new, |state| state.as_str().to_owned()),
    });
    status.summary = Some(summary);
}

fn ready(summary: Option<&BundleSummary>, bundle: &Bundle) -> State {
    let desired = summary
        .and_then(|summary| summary.desired_ready)
        .unwrap_or_default();
    if desired == 0 {
        let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
        let message =
            format!("no cluster is targeted: spec.targets match no Cluster in namespace {namespace}");
        return State::False(Reason::NoClusters, message);
    }
    summary.map_or(State::True(Reason::Ready), |summary| {
        of_summary(summary, "Cluster")
    })
}

#[cfg(test)]
mod tests;

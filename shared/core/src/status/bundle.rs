//! The status of a Bundle: the progress of its rollout.

use helmops_api::{
    Bundle, BundleDeployment,
    bundle::{BundleDisplay, BundleStatus},
    rollout::RolloutStrategy,
    status::{BundleSummary, number},
};
use helmops_model::{
    condition::{self, ConditionState, ConditionType},
    reason::Reason,
};

use super::{
    deployments::Deployment,
    lifecycle, no_clusters,
    ready_message::of_summary,
    summary,
    wait::{Unready, Wait, joined},
};
use crate::targeting::{Rollout, Target, rollout::completed};

/// A target of a Bundle after a round of its rollout.
#[derive(Clone, Copy, Debug)]
pub struct TargetStatus<'a> {
    /// The cluster and its desired state.
    pub target: &'a Target<'a>,
    /// Its current deployment.
    pub deployment: Option<&'a BundleDeployment>,
    /// Why the desired state cannot be delivered.
    pub problem: Option<&'a str>,
}

/// The result of a rollout round.
#[derive(Clone, Copy, Debug)]
pub enum RolloutRound<'a> {
    /// Each cluster got its rollout step. The statuses are in the order of the targets.
    Done(&'a Rollout, &'a [TargetStatus<'a>]),
    /// Nothing was done, because of an error that concerns all clusters.
    Refused(Reason, &'a str),
}

/// The new status. `now` is a time in RFC 3339.
///
/// Fields that this controller does not know, and conditions of other controllers, stay as they are. If the round was refused,
/// everything else stays too: it is the state of the clusters.
pub fn bundle(bundle: &Bundle, round: RolloutRound<'_>, now: &str) -> BundleStatus {
    let generation = bundle.metadata.generation;
    let mut status = bundle.status.as_deref().cloned().unwrap_or_default();
    status.observed_generation = generation;
    let ready = match round {
        RolloutRound::Done(rollout, targets) => {
            fill(&mut status, bundle, rollout, targets);
            ready(&status, bundle)
        }
        RolloutRound::Refused(reason, message) => ConditionState::False(reason, message.to_owned()),
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

fn fill(status: &mut BundleStatus, bundle: &Bundle, rollout: &Rollout, targets: &[TargetStatus<'_>]) {
    let deployments: Vec<Deployment<'_>> = targets
        .iter()
        .map(|status| Deployment::of_target(status.target, status.deployment, status.problem))
        .collect();
    let summary = summary::of_deployments(&deployments);
    let count = |count: usize| Some(number(count));
    status.newly_created = number(rollout.newly_created);
    status.unavailable = count(rollout.unavailable);
    status.unavailable_partitions = count(rollout.unavailable_partitions);
    status.max_unavailable = count(rollout.max_unavailable);
    status.max_unavailable_partitions = count(rollout.max_unavailable_partitions);
    status.max_new = rollout.max_new.map(number);
    status.rollout.clone_from(&rollout.status);
    remember_completed(status, bundle, rollout);
    status.partitions = rollout
        .partitions
        .iter()
        .map(|partition| {
            let members: Vec<_> = partition
                .members
                .iter()
                .filter_map(|index| deployments.get(*index).copied())
                .collect();
            let mut status = partition.status.clone();
            // Examples are listed for the whole Bundle only: for each partition they would be too many.
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
    status.lifecycle = lifecycle::summary(&bundle.spec, &deployments);
}

/// Records what the clusters go back to when a later rollout fails.
fn remember_completed(status: &mut BundleStatus, bundle: &Bundle, rollout: &Rollout) {
    let strategy = bundle.spec.rollout_strategy.as_ref();
    if !strategy.is_some_and(RolloutStrategy::rolls_back) {
        status.completed = None;
        return;
    }
    let done = rollout.status.as_ref().filter(|_| rollout.is_complete);
    let known = status.completed.as_ref().map(|completed| &completed.id);
    if let Some(done) = done
        && known != Some(&done.id)
    {
        // An older one than the last is none.
        status.completed = completed::record(bundle, &done.id).map(Box::new);
    }
}

fn ready(status: &BundleStatus, bundle: &Bundle) -> ConditionState {
    let none = BundleSummary::default();
    let summary = status.summary.as_ref().unwrap_or(&none);
    if summary.desired_ready.unwrap_or_default() == 0 {
        let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
        let message = no_clusters::message(&bundle.spec.targets, "", namespace);
        return ConditionState::False(Reason::NoClusters, message);
    }
    let counted = of_summary(summary, "Cluster");
    let Some(wait) = status.rollout.as_ref().and_then(Wait::of) else {
        return counted;
    };
    let unready = Unready {
        summary,
        wait: Some(wait),
        is_stopped: bundle.spec.paused,
        // A cluster that waits may be ready, with what it has.
        is_progressing: matches!(counted, ConditionState::True(_)),
    };
    ConditionState::False(unready.reason(), joined(&[wait.message, counted.message()]))
}

#[cfg(test)]
mod tests;

//! Number of deployments by state, and the first ones that are not ready.

use std::cmp::Reverse;

use bounded_text::{cut, excerpt};
use helmops_api::status::{BundleSummary, NonReadyResource, StatusBase, StatusDisplay, number};
use helmops_model::{
    condition::MAX_MESSAGE,
    deployment_state::{DeploymentState, count},
};

use super::{
    budget::{self, Budget},
    deployments::{Deployment, DeploymentName, ObservedDeployment},
    non_ready::{MAX_NAME, objects},
};

/// How many deployments that are not ready are listed: as in Fleet.
const MAX_NON_READY: usize = 10;

/// Sets the summary, the display and the numbers of clusters.
///
/// `counted` is the summary of the Bundle. Only it contains clusters that are targeted but have no deployment yet, because the
/// rollout has not reached them (`Pending`) or because of an error (`ErrApplied`): they are counted as long as there are fewer
/// deployments than the Bundle counts clusters.
pub fn fill(base: &mut StatusBase, deployments: &[Deployment<'_>], counted: Option<&BundleSummary>) {
    let waiting = waiting(deployments, counted);
    let summary = summarize(deployments, &waiting);
    let clusters = || deployments.chunk_by(|one, other| one.name == other.name);
    let ready = clusters()
        .filter(|cluster| cluster.iter().all(|one| one.state == DeploymentState::Ready))
        .count();
    base.ready_clusters = Some(number(ready));
    base.desired_ready_clusters = Some(number(clusters().count()).saturating_add(waiting.count()));
    base.display = Some(display(&summary));
    base.summary = Some(summary);
}

/// Sets the same from the summary of the Bundle only, if deployments are not watched.
pub fn fill_from_bundle(base: &mut StatusBase, counted: &BundleSummary) {
    let mut budget = Budget::of(budget::NON_READY);
    let summary = BundleSummary {
        ready: Some(counted.ready.unwrap_or_default()),
        desired_ready: Some(counted.desired_ready.unwrap_or_default()),
        non_ready_resources: counted
            .non_ready_resources
            .iter()
            .take(MAX_NON_READY)
            .map(|one| NonReadyResource {
                name: excerpt(&one.name, MAX_NAME),
                bundle_state: excerpt(&one.bundle_state, MAX_NAME),
                message: excerpt(&one.message, MAX_MESSAGE),
                ..objects(&one.modified_status, &one.non_ready_status, &mut budget)
            })
            .collect(),
        ..*counted
    };
    base.ready_clusters = summary.ready;
    base.desired_ready_clusters = summary.desired_ready;
    base.display = Some(display(&summary));
    base.summary = Some(summary);
}

fn add(summary: &mut BundleSummary, state: DeploymentState, more: i64) {
    let number = match state {
        DeploymentState::Ready => summary.ready.get_or_insert_default(),
        DeploymentState::NotReady => &mut summary.not_ready,
        DeploymentState::Pending => &mut summary.pending,
        DeploymentState::OutOfSync => &mut summary.out_of_sync,
        DeploymentState::Modified => &mut summary.modified,
        DeploymentState::WaitApplied => &mut summary.wait_applied,
        DeploymentState::WaitingForDependency => &mut summary.waiting_for_dependency,
        DeploymentState::ErrApplied => &mut summary.err_applied,
    };
    *number = number.saturating_add(more);
}

/// Clusters without a deployment.
#[derive(Default)]
struct Waiting<'a> {
    /// Clusters that the rollout has not reached.
    pending: i64,
    /// Clusters with an error.
    failed: i64,
    /// Some of these clusters, for the message.
    examples: Vec<Deployment<'a>>,
}

impl Waiting<'_> {
    const fn count(&self) -> i64 {
        self.pending.saturating_add(self.failed)
    }
}

fn waiting<'a>(deployments: &[Deployment<'_>], counted: Option<&'a BundleSummary>) -> Waiting<'a> {
    let Some(counted) = counted else {
        return Waiting::default();
    };
    let missing = counted
        .desired_ready
        .unwrap_or_default()
        .saturating_sub(number(deployments.len()));
    let with_error = deployments
        .iter()
        .filter(|one| one.state == DeploymentState::ErrApplied);
    let without_one = counted.err_applied.saturating_sub(number(with_error.count()));
    let failed = without_one.min(missing).max(0);
    let pending = counted.pending.min(missing.saturating_sub(failed)).max(0);
    let examples = |state: DeploymentState, count: i64| {
        counted
            .non_ready_resources
            .iter()
            .take(MAX_NON_READY)
            .filter(move |one| one.bundle_state == state.as_str())
            .filter_map(|one| Some((DeploymentName::parse(&one.name)?, &*one.message)))
            .filter(|(cluster, _)| deployments.binary_search_by_key(cluster, |one| one.name).is_err())
            .take(usize::try_from(count).unwrap_or(usize::MAX))
            .map(move |(name, message)| Deployment {
                name,
                state,
                observed: if message.is_empty() {
                    ObservedDeployment::None
                } else {
                    ObservedDeployment::Problem(message)
                },
            })
    };
    Waiting {
        pending,
        failed,
        examples: examples(DeploymentState::ErrApplied, failed)
            .chain(examples(DeploymentState::Pending, pending))
            .collect(),
    }
}

/// Number of deployments by state.
pub fn of_deployments(deployments: &[Deployment<'_>]) -> BundleSummary {
    summarize(deployments, &Waiting::default())
}

fn summarize(deployments: &[Deployment<'_>], waiting: &Waiting<'_>) -> BundleSummary {
    let mut summary = BundleSummary {
        ready: Some(0),
        desired_ready: Some(number(deployments.len()).saturating_add(waiting.count())),
        pending: waiting.pending,
        err_applied: waiting.failed,
        ..BundleSummary::default()
    };
    for deployment in deployments {
        add(&mut summary, deployment.state, 1);
    }
    let mut budget = Budget::of(budget::NON_READY);
    let not_ready = deployments.iter().chain(&waiting.examples).copied();
    summary.non_ready_resources = examples(not_ready.filter(|one| one.state != DeploymentState::Ready))
        .iter()
        .map(|deployment| describe(deployment, &mut budget))
        .collect();
    summary
}

/// The deployments to list: the worst first, those of the same state in the order of their clusters, and at least one of each
/// state as an example.
fn examples<'a>(not_ready: impl Iterator<Item = Deployment<'a>>) -> Vec<Deployment<'a>> {
    let mut all: Vec<_> = not_ready.collect();
    all.sort_by_key(|deployment| Reverse(deployment.state));
    let states: Vec<_> = all.chunk_by(|one, other| one.state == other.state).collect();
    let mut kept = Vec::with_capacity(MAX_NON_READY);
    for (others, state) in (0..states.len()).rev().zip(states) {
        let limit = MAX_NON_READY.saturating_sub(kept.len() + others);
        kept.extend(state.iter().take(limit));
    }
    kept
}

fn describe(deployment: &Deployment<'_>, budget: &mut Budget) -> NonReadyResource {
    let objects = match deployment.observed {
        ObservedDeployment::Decoded(object) => objects(
            &object.status.modified_status,
            &object.status.non_ready_status,
            budget,
        ),
        ObservedDeployment::Invalid(_) | ObservedDeployment::Problem(_) | ObservedDeployment::None => {
            NonReadyResource::default()
        }
    };
    NonReadyResource {
        name: cut(deployment.name.to_string(), MAX_NAME),
        bundle_state: deployment.state.as_str().to_owned(),
        message: excerpt(&deployment.message(), MAX_MESSAGE),
        ..objects
    }
}

/// The columns of `kubectl get`: the worst state, and the message of the first deployment in it.
fn display(summary: &BundleSummary) -> StatusDisplay {
    let worst = worst(summary).map_or("", DeploymentState::as_str);
    let first = summary
        .non_ready_resources
        .iter()
        .find(|one| one.bundle_state == worst);
    let message = first.map(|one| one.message.clone()).unwrap_or_default();
    StatusDisplay {
        ready_bundle_deployments: ready_of_all(summary),
        state: worst.to_owned(),
        error: !message.is_empty(),
        message,
    }
}

/// The worst state of any deployment; `None` if all are ready.
pub fn worst(summary: &BundleSummary) -> Option<DeploymentState> {
    DeploymentState::ALL
        .into_iter()
        .rev()
        .find(|state| count(summary, *state) > 0)
        .filter(|worst| *worst != DeploymentState::Ready)
}

/// The numbers of ready and of all deployments, such as `2/3`.
pub fn ready_of_all(summary: &BundleSummary) -> String {
    format!(
        "{}/{}",
        summary.ready.unwrap_or_default(),
        summary.desired_ready.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests;

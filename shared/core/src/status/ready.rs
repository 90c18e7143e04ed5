//! Whether a HelmOp is deployed and ready on all target clusters.

use bounded_text::numbered;
use helmops_api::{Condition, HelmOp, bundle::BundleStatus, status::BundleSummary};
use helmops_model::{
    condition::ConditionState,
    deployment_state::{DeploymentState, count},
    reason::Reason,
};

use super::{
    no_clusters,
    ready_message::{is_ready_message, ready_message},
    rollup::BundleState,
    wait::{Unready, Wait, joined},
};
use crate::schedule::Waiting;

/// The condition `Ready`, and whether it is expected to change without action of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The state of the condition.
    pub state: ConditionState,
    /// Whether clusters are being updated.
    pub is_progressing: bool,
}

impl Readiness {
    fn not_ready(reason: Reason, message: String) -> Self {
        Self {
            state: ConditionState::False(reason, message),
            is_progressing: reason == Reason::Progressing,
        }
    }

    /// With the text before the message.
    fn after(self, text: &str) -> Self {
        let message = format!("{text}; {}", self.state.message());
        Self {
            state: ConditionState::False(self.state.reason(), message),
            ..self
        }
    }
}

/// The readiness of an accepted HelmOp. `summary` is the summary of its deployments.
///
/// It is ready only if the Bundle's controller has observed the current generation, at least one cluster is targeted, and both
/// the deployments and the Bundle report that all are ready: they are watched separately, and a stale one must not make the
/// HelmOp ready.
///
/// On so many clusters the release is `suspended`. A cluster that waits for a window needs no action of a user, so it is in progress.
pub fn ready(
    helmop: &HelmOp,
    observed: BundleState<'_>,
    summary: Option<&BundleSummary>,
    suspended: i64,
) -> Readiness {
    let Some(status) = observed.status() else {
        let message = "the Bundle is written; waiting for its deployment";
        return Readiness::not_ready(Reason::Progressing, message.to_owned());
    };
    if let Some(error) = error_of(status) {
        let message = format!("the Bundle cannot be deployed: {}", error.message);
        return Readiness::not_ready(Reason::NotReady, message);
    }
    if status.observed_generation != observed.bundle.and_then(|bundle| bundle.metadata.generation) {
        let message = "the Bundle changed; rolling out";
        return Readiness::not_ready(Reason::Progressing, message.to_owned());
    }
    let none = BundleSummary::default();
    let counted = status.summary.as_ref().unwrap_or(&none);
    if counted.desired_ready.unwrap_or_default() == 0 {
        let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
        let default = format!(", and no Cluster in namespace {namespace} is in ClusterGroup \"default\"");
        let message = no_clusters::message(&helmop.spec.bundle.targets, &default, namespace);
        return Readiness::not_ready(Reason::NoClusters, message);
    }
    let summary = summary.unwrap_or(counted);
    let rollout = observed.rollout();
    let wait = rollout.as_ref().and_then(Wait::of);
    if !all_ready(summary) || wait.is_some() {
        let readiness = not_all_ready(helmop, status, summary, suspended, wait);
        let waiting = observed.waiting.and_then(Waiting::message);
        return match waiting {
            Some(waiting) => readiness.after(&waiting),
            None => readiness,
        };
    }
    if counted.err_applied > 0 {
        // All deployments are ready, but the desired state cannot be delivered to some clusters.
        return Readiness::not_ready(Reason::NotReady, ready_message(counted, "Cluster"));
    }
    let is_reported_false = ready_condition(status).is_some_and(|condition| condition.status == "False");
    if is_reported_false || !all_ready(counted) || summary.desired_ready < counted.desired_ready {
        let message = format!(
            "the status of the Bundle is not up to date yet: {}",
            ready_count(counted)
        );
        return Readiness::not_ready(Reason::Progressing, message);
    }
    Readiness {
        state: ConditionState::True(Reason::Ready),
        is_progressing: false,
    }
}

/// An error of the Bundle as a whole, such as invalid targets. The Bundle's controller stops there, and does not report the
/// generation of the error.
fn error_of(status: &BundleStatus) -> Option<&Condition> {
    ready_condition(status).filter(|condition| {
        condition.status == "False" && !condition.message.is_empty() && is_error(condition)
    })
}

/// Whether the counts do not show why a Bundle is not ready. helmops sets a reason; Fleet's condition has only its message.
fn is_error(condition: &Condition) -> bool {
    let reason = Reason::ALL
        .iter()
        .find(|reason| reason.as_str() == condition.reason);
    match reason {
        Some(
            Reason::NotReady
            | Reason::NoClusters
            | Reason::Progressing
            | Reason::AwaitingApproval
            | Reason::GateFailed
            | Reason::RolloutHalted
            | Reason::RolloutRolledBack,
        ) => false,
        Some(_) => true,
        None => !is_ready_message(&condition.message),
    }
}

fn ready_condition(status: &BundleStatus) -> Option<&Condition> {
    Condition::find(&status.conditions, "Ready")
}

fn all_ready(summary: &BundleSummary) -> bool {
    summary.ready.unwrap_or_default() >= summary.desired_ready.unwrap_or_default()
}

fn ready_count(summary: &BundleSummary) -> String {
    let (ready, desired) = (
        summary.ready.unwrap_or_default(),
        summary.desired_ready.unwrap_or_default(),
    );
    format!("{ready} of {desired} clusters are ready")
}

fn not_all_ready(
    helmop: &HelmOp,
    status: &BundleStatus,
    summary: &BundleSummary,
    suspended: i64,
    wait: Option<Wait<'_>>,
) -> Readiness {
    let mut message = ready_message(summary, "Cluster");
    if message.is_empty() {
        message = ready_count(summary);
    }
    let held_back = summary.out_of_sync.saturating_add(summary.pending);
    let is_paused = helmop.spec.bundle.paused && held_back > 0;
    let paused = if is_paused {
        "spec.paused is set, so the rollout is paused"
    } else {
        ""
    };
    let suspension = suspension(suspended);
    let limit = reached_limit(status, summary).filter(|_| !is_paused);
    let limit_text = limit.as_ref().map_or("", |limit| &limit.text);
    let (halt, gate) = match wait {
        Some(wait) if wait.is_halted() => (wait.message, ""),
        Some(wait) => ("", wait.message),
        None => ("", ""),
    };
    // In the order of `Unready::reason`.
    let message = joined(&[&*suspension, halt, paused, limit_text, gate, &message]);
    let is_stopped = is_paused || limit.is_some_and(|limit| limit.is_final);
    let has_to_act = wait.is_some_and(|wait| wait.final_reason.is_some());
    let is_held_back = held_back > 0 || wait.is_some();
    // What waits for others goes on by itself, as soon as they are in an accepted state.
    let waiting = count(summary, DeploymentState::WaitingForDependency).saturating_add(summary.wait_applied);
    let is_progressing = waiting > suspended || (is_held_back && !is_stopped && !has_to_act);
    let unready = Unready {
        summary,
        wait,
        is_stopped,
        is_progressing,
    };
    let reason = unready.reason();
    Readiness {
        state: ConditionState::False(reason, message),
        // Only clusters that nothing reaches may be left then.
        is_progressing: is_progressing && !matches!(reason, Reason::AwaitingApproval | Reason::GateFailed),
    }
}

fn suspension(suspended: i64) -> String {
    if suspended <= 0 {
        return String::new();
    }
    format!(
        "spec.lifecycle.suspend is set for {}",
        numbered(suspended, "cluster")
    )
}

/// A limit of the roll-out that keeps clusters from being updated.
struct ReachedLimit {
    text: String,
    /// Whether clusters wait until the limit is changed.
    is_final: bool,
}

/// The limit that clusters wait for, if any.
fn reached_limit(status: &BundleStatus, summary: &BundleSummary) -> Option<ReachedLimit> {
    const STRATEGY: &str = "spec.rolloutStrategy";
    let stop = |text: String| Some(ReachedLimit { text, is_final: true });
    let wait = |text: String| {
        Some(ReachedLimit {
            text,
            is_final: false,
        })
    };
    if summary.pending > 0 && status.max_new == Some(0) {
        return stop(format!(
            "{STRATEGY}.maxNew is 0, so no cluster gets the chart for the first time"
        ));
    }
    let (max, unavailable) = (status.max_unavailable?, status.unavailable.unwrap_or_default());
    if summary.out_of_sync <= 0 {
        return None;
    }
    let partition = status.partitions.iter().find(|partition| {
        partition.count > 0
            && partition.unavailable >= partition.max_unavailable
            && partition.max_unavailable < partition.count
            // Clusters of later partitions wait for something else.
            && partition.summary.as_ref().is_none_or(|summary| summary.out_of_sync > 0)
    });
    let no_update = "so no ready cluster is updated";
    match partition {
        _ if max == 0 => stop(format!("{STRATEGY}.maxUnavailable is 0, {no_update}")),
        _ if unavailable >= max && max < summary.desired_ready.unwrap_or_default() => wait(format!(
            "as many clusters are unavailable as {STRATEGY}.maxUnavailable allows: {max}"
        )),
        Some(partition) if partition.max_unavailable == 0 => stop(format!(
            "maxUnavailable of partition {:?} of {STRATEGY} is 0, {no_update} there",
            partition.name
        )),
        Some(partition) => wait(format!(
            "as many clusters of partition {:?} of {STRATEGY} are unavailable as its maxUnavailable allows: {}",
            partition.name, partition.max_unavailable
        )),
        None => None,
    }
}

#[cfg(test)]
mod tests;

//! Whether everything that a HelmOp asks for is deployed and ready.

use super::{
    condition::State,
    ready_message::{is_ready_message, ready_message},
    rollup::BundleState,
};
use crate::{
    api::{Condition, HelmOp, bundle::BundleStatus, status::BundleSummary},
    reason::Reason,
};

/// What the condition `Ready` says, and whether that is expected to change by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// What the condition says.
    pub state: State,
    /// Clusters are being brought up to date.
    pub is_moving: bool,
}

impl Readiness {
    fn no(reason: Reason, message: String) -> Self {
        Self {
            state: State::False(reason, message),
            is_moving: reason == Reason::Progressing,
        }
    }
}

/// Judges a HelmOp that is accepted. `summary` is what its status says of deployments.
///
/// It is ready only where the Bundle's controller has seen what the Bundle says now, at least one cluster is targeted,
/// and deployments and Bundle agree that all of them are ready: they are watched apart, and the one that is behind
/// must not decide.
pub fn ready(helmop: &HelmOp, seen: BundleState<'_>, summary: Option<&BundleSummary>) -> Readiness {
    let Some(status) = seen.status() else {
        let message = "the Bundle is written; waiting for its deployment";
        return Readiness::no(Reason::Progressing, message.to_owned());
    };
    if let Some(error) = error_of(status) {
        let message = format!("the Bundle cannot be deployed: {}", error.message);
        return Readiness::no(Reason::NotReady, message);
    }
    if status.observed_generation != seen.bundle.and_then(|bundle| bundle.metadata.generation) {
        let message = "the Bundle changed; rolling out";
        return Readiness::no(Reason::Progressing, message.to_owned());
    }
    let none = BundleSummary::default();
    let counted = status.summary.as_ref().unwrap_or(&none);
    if counted.desired_ready.unwrap_or_default() == 0 {
        let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
        return Readiness::no(
            Reason::NoClusters,
            format!("no cluster is targeted: spec.targets match no Cluster in namespace {namespace}"),
        );
    }
    let summary = summary.unwrap_or(counted);
    if !is_whole(summary) {
        return incomplete(helmop, summary);
    }
    if counted.err_applied > 0 {
        // Deployments that do well, and clusters that cannot be given what comes next.
        return Readiness::no(Reason::NotReady, ready_message(counted, "Cluster"));
    }
    let told_otherwise = ready_condition(status).is_some_and(|told| told.status == "False");
    if told_otherwise || !is_whole(counted) || summary.desired_ready < counted.desired_ready {
        let message = format!(
            "the status of the Bundle is not up to date yet: {}",
            numbers(counted)
        );
        return Readiness::no(Reason::Progressing, message);
    }
    Readiness {
        state: State::True(Reason::Ready),
        is_moving: false,
    }
}

/// An error of the Bundle as a whole, such as targets that cannot be made out. The Bundle's controller stops there and
/// does not say which generation it speaks of.
fn error_of(status: &BundleStatus) -> Option<&Condition> {
    ready_condition(status).filter(|told| {
        told.status == "False"
            && !told.message.is_empty()
            && !is_ready_message(&told.message)
            // No error, and told by its numbers.
            && told.reason != Reason::NoClusters.as_str()
    })
}

fn ready_condition(status: &BundleStatus) -> Option<&Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.r#type == "Ready")
}

fn is_whole(summary: &BundleSummary) -> bool {
    summary.ready.unwrap_or_default() >= summary.desired_ready.unwrap_or_default()
}

fn numbers(summary: &BundleSummary) -> String {
    let (ready, desired) = (
        summary.ready.unwrap_or_default(),
        summary.desired_ready.unwrap_or_default(),
    );
    format!("{ready} of {desired} clusters are ready")
}

fn incomplete(helmop: &HelmOp, summary: &BundleSummary) -> Readiness {
    let mut message = ready_message(summary, "Cluster");
    if message.is_empty() {
        message = numbers(summary);
    }
    let held_back = summary.out_of_sync.saturating_add(summary.pending);
    let is_paused = helmop.spec.bundle.paused && held_back > 0;
    if is_paused {
        message = format!("spec.paused is set, so the rollout is paused; {message}");
    }
    let is_moving = summary.wait_applied > 0 || (held_back > 0 && !is_paused);
    let reason = if is_moving && summary.err_applied == 0 {
        Reason::Progressing
    } else {
        Reason::NotReady
    };
    Readiness {
        state: State::False(reason, message),
        is_moving,
    }
}

#[cfg(test)]
mod tests;

//! The status of a HelmOp.

use helmops_api::{HelmOp, HelmOpStatus, ResolvedChart};
use helmops_model::{
    chart::source::{ChartSource, is_archive},
    condition::{self, ConditionState, ConditionType},
    reason::Reason,
};

use super::{
    notices,
    polling::{self, Polling, Stalled},
    ready::ready,
    rollup::{self, BundleState},
};

/// The result of a reconciliation.
#[derive(Clone, Debug, PartialEq)]
pub enum ReconcileOutcome {
    /// The Bundle is up to date.
    Accepted {
        /// The version of the HelmOp's own chart; empty for an archive.
        version: String,
        /// The resolved versions.
        resolved: Vec<ResolvedChart>,
    },
    /// The HelmOp is not accepted until a user changes the HelmOp, a Secret, a Policy or the repository. What was deployed before
    /// stays.
    Refused {
        /// The reason.
        reason: Reason,
        /// The message.
        message: String,
    },
    /// The HelmOp is not accepted because of a transient error, and is retried. What was deployed before stays.
    Retrying {
        /// The reason.
        reason: Reason,
        /// The message.
        message: String,
    },
}

/// The new conditions.
struct Conditions {
    accepted: ConditionState,
    ready: ConditionState,
    reconciling: Option<ConditionState>,
    stalled: Stalled,
}

/// The charts that have another digest now than the one that is held; `None` if there are none.
fn digest_changed(resolved: &[ResolvedChart]) -> Option<ConditionState> {
    let mut changed = resolved.iter().filter(|chart| !chart.changed_digest.is_empty());
    let first = changed.next()?;
    let more = match changed.count() {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    };
    let name = if first.url.is_empty() {
        &first.repo
    } else {
        &first.url
    };
    if let ChartSource::Packed { path, .. } = ChartSource::of(&first.repo, &first.chart) {
        // An archive keeps its version.
        let fix = if is_archive(path) {
            "upload it with another version"
        } else {
            "raise the version, or set reconcileStrategy: Revision beside path to deploy each change"
        };
        let message = format!(
            "chart {path:?} of {} has changed, but its Chart.yaml still has version {}, so what is deployed stays; {fix}{more}",
            first.repo, first.version
        );
        return Some(ConditionState::TrueWithMessage(Reason::DigestChanged, message));
    }
    let message = format!(
        "{name}, version {}, was published again with the digest {}, but {} stays deployed; set spec.onDigestChange: Follow to deploy it, or \
         publish it under a new version{more}",
        first.version, first.changed_digest, first.digest
    );
    Some(ConditionState::TrueWithMessage(Reason::DigestChanged, message))
}

/// The new status. `observed` is the HelmOp's Bundle with its deployments (the Bundle alone is sufficient), even if the HelmOp is
/// not accepted, and `now` is a time in RFC 3339.
///
/// Fields that this controller does not know, and conditions of other controllers, stay as they are. A HelmOp that is not
/// accepted is never ready, even if it is still deployed; one whose version is resolved stays accepted, even if polls fail.
#[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
pub fn next<'a>(
    helmop: &HelmOp,
    observed: impl Into<BundleState<'a>>,
    outcome: &ReconcileOutcome,
    polling: &Polling,
    now: &str,
) -> HelmOpStatus {
    let observed = observed.into();
    let generation = helmop.metadata.generation;
    let mut status = helmop.status.clone().unwrap_or_default();
    status.observed_generation = generation;
    if let ReconcileOutcome::Accepted { version, resolved } = outcome {
        version.clone_into(&mut status.version);
        resolved.clone_into(&mut status.resolved);
    }
    rollup::fill(&mut status.base, observed);
    status.lifecycle = rollup::lifecycle(&helmop.spec.bundle, observed);
    status.rollout = observed.rollout().map(Box::new);
    let new = conditions(helmop, observed, &status, outcome, polling);
    polling::fill(&mut status, polling, generation, now);
    let conditions = &mut status.base.conditions;
    for (r#type, state) in [
        (ConditionType::Accepted, new.accepted),
        (ConditionType::Ready, new.ready),
    ] {
        condition::set(conditions, r#type, &state, generation, now);
    }
    if matches!(outcome, ReconcileOutcome::Accepted { .. }) {
        notices::fill(conditions, polling, generation, now);
        match digest_changed(&status.resolved) {
            Some(state) => condition::set(conditions, ConditionType::DigestChanged, &state, generation, now),
            None => condition::clear(conditions, ConditionType::DigestChanged),
        }
    }
    match new.reconciling {
        Some(state) => condition::set(conditions, ConditionType::Reconciling, &state, generation, now),
        None => condition::clear(conditions, ConditionType::Reconciling),
    }
    match new.stalled {
        Stalled::Yes(state) => condition::set(conditions, ConditionType::Stalled, &state, generation, now),
        Stalled::No => condition::clear(conditions, ConditionType::Stalled),
        Stalled::Unchanged => {}
    }
    status
}

fn conditions(
    helmop: &HelmOp,
    observed: BundleState<'_>,
    status: &HelmOpStatus,
    outcome: &ReconcileOutcome,
    polling: &Polling,
) -> Conditions {
    match outcome {
        ReconcileOutcome::Accepted { .. } => {
            let suspended = status.lifecycle.as_ref().map_or(0, |counts| counts.suspended);
            let readiness = ready(helmop, observed, status.base.summary.as_ref(), suspended);
            let progressing =
                ConditionState::TrueWithMessage(Reason::Progressing, readiness.state.message().to_owned());
            Conditions {
                accepted: ConditionState::True(Reason::Accepted),
                ready: readiness.state,
                reconciling: readiness.is_progressing.then_some(progressing),
                stalled: polling::stalled(polling, &status.base.conditions),
            }
        }
        ReconcileOutcome::Refused { reason, message } => Conditions {
            accepted: ConditionState::False(*reason, message.clone()),
            ready: ConditionState::False(*reason, message.clone()),
            reconciling: None,
            stalled: Stalled::Yes(ConditionState::TrueWithMessage(*reason, message.clone())),
        },
        ReconcileOutcome::Retrying { reason, message } => Conditions {
            accepted: ConditionState::False(*reason, message.clone()),
            ready: ConditionState::False(*reason, message.clone()),
            reconciling: Some(ConditionState::TrueWithMessage(*reason, message.clone())),
            stalled: Stalled::No,
        },
    }
}

/// Removes the fields of a status that Fleet's CRD does not have.
pub fn without_extras(mut status: HelmOpStatus) -> HelmOpStatus {
    status.observed_generation = None;
    status.resolved.clear();
    status.lifecycle = None;
    status.rollout = None;
    status.seen.clear();
    status.base.omitted = None;
    for condition in &mut status.base.conditions {
        condition.observed_generation = None;
    }
    status
}

#[cfg(test)]
mod tests;

//! The status of a HelmOp.

use super::{
    condition::{self, ConditionType, State},
    polling::{self, Polling, Stalled},
    ready::ready,
    rollup::{self, BundleState},
};
use crate::{
    api::{HelmOp, HelmOpStatus, ResolvedChart},
    reason::Reason,
};

/// What came of a reconciliation.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The Bundle is as the HelmOp asks.
    Accepted {
        /// The version of the HelmOp's own chart; empty for an archive.
        version: String,
        /// What was looked up, and what it came to.
        resolved: Vec<ResolvedChart>,
    },
    /// It is not, and will not be before somebody changes something: the HelmOp, a Secret, a policy, the repository.
    /// What was deployed before stays.
    Refused {
        /// Why, in a word.
        reason: Reason,
        /// Why, in a sentence.
        message: String,
    },
    /// It is not, for something that may pass, and is tried again. What was deployed before stays.
    Retrying {
        /// Why, in a word.
        reason: Reason,
        /// Why, in a sentence.
        message: String,
    },
}

/// The conditions that follow.
struct Verdict {
    accepted: State,
    ready: State,
    reconciling: Option<State>,
    stalled: Stalled,
}

/// The status that follows. `seen` is the HelmOp's Bundle as it is now with its deployments (a Bundle alone will do), also
/// where the HelmOp is not accepted, and `now` a time in RFC 3339.
///
/// Fields that this controller does not know of, and conditions of others, stay as they are. A HelmOp that is not
/// accepted is never ready, whatever is still deployed; one whose version is known stays accepted, whatever comes of looks
/// for newer ones.
#[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
pub fn next<'a>(
    helmop: &HelmOp,
    seen: impl Into<BundleState<'a>>,
    outcome: &Outcome,
    polling: &Polling,
    now: &str,
) -> HelmOpStatus {
    let seen = seen.into();
    let generation = helmop.metadata.generation;
    let mut status = helmop.status.clone().unwrap_or_default();
    status.observed_generation = generation;
    if let Outcome::Accepted { version, resolved } = outcome {
        version.clone_into(&mut status.version);
        resolved.clone_into(&mut status.resolved);
    }
    rollup::fill(&mut status.base, seen);
    let verdict = judge(helmop, seen, &status, outcome, polling);
    polling::fill(&mut status, polling, generation, now);
    let conditions = &mut status.base.conditions;
    for (r#type, state) in [
        (ConditionType::Accepted, verdict.accepted),
        (ConditionType::Ready, verdict.ready),
    ] {
        condition::set(conditions, r#type, &state, generation, now);
    }
    match verdict.reconciling {
        Some(state) => condition::set(conditions, ConditionType::Reconciling, &state, generation, now),
        None => condition::clear(conditions, ConditionType::Reconciling),
    }
    match verdict.stalled {
        Stalled::Yes(state) => condition::set(conditions, ConditionType::Stalled, &state, generation, now),
        Stalled::No => condition::clear(conditions, ConditionType::Stalled),
        Stalled::Unchanged => {}
    }
    status
}

fn judge(
    helmop: &HelmOp,
    seen: BundleState<'_>,
    status: &HelmOpStatus,
    outcome: &Outcome,
    polling: &Polling,
) -> Verdict {
    match outcome {
        Outcome::Accepted { .. } => {
            let readiness = ready(helmop, seen, status.base.summary.as_ref());
            let moving = State::TrueFor(Reason::Progressing, readiness.state.message().to_owned());
            Verdict {
                accepted: State::True(Reason::Accepted),
                ready: readiness.state,
                reconciling: readiness.is_moving.then_some(moving),
                stalled: polling::stalled(polling, &status.base.conditions),
            }
        }
        Outcome::Refused { reason, message } => Verdict {
            accepted: State::False(*reason, message.clone()),
            ready: State::False(*reason, message.clone()),
            reconciling: None,
            stalled: Stalled::Yes(State::TrueFor(*reason, message.clone())),
        },
        Outcome::Retrying { reason, message } => Verdict {
            accepted: State::False(*reason, message.clone()),
            ready: State::False(*reason, message.clone()),
            reconciling: Some(State::TrueFor(*reason, message.clone())),
            stalled: Stalled::No,
        },
    }
}

/// What is left of a status in a cluster whose definition of HelmOp lacks the fields that Fleet's own does.
pub fn without_extras(mut status: HelmOpStatus) -> HelmOpStatus {
    status.observed_generation = None;
    status.resolved.clear();
    status.base.omitted = None;
    for condition in &mut status.base.conditions {
        condition.observed_generation = None;
    }
    status
}

#[cfg(test)]
mod tests;

//! Polling in the status of a HelmOp.

use helmops_api::{Condition, HelmOpStatus};
use helmops_model::{
    condition::{self, ConditionState, ConditionType},
    reason::Reason,
};

/// What the status reports about polling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polling {
    /// No polling: it is off, or the HelmOp is refused.
    Off,
    /// The condition `Polled` stays as it is.
    Unchanged,
    /// The HelmOp was not polled yet.
    Scheduled {
        /// When the first poll is due, in RFC 3339.
        next: String,
    },
    /// A poll was attempted.
    Attempted(PollAttempt),
}

/// A finished attempt to find a newer version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollAttempt {
    /// When it started, in RFC 3339.
    pub start: String,
    /// Whether polling is on, so that the next attempt is scheduled.
    pub is_scheduled: bool,
    /// The message for `Polled`, which may be empty, or the failure.
    pub result: Result<String, PollFailure>,
}

/// Why a poll failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollFailure {
    /// The reason.
    pub reason: Reason,
    /// The message.
    pub message: String,
    /// Whether it may pass without action of a user.
    pub is_transient: bool,
}

/// Sets `Polled` and the time of the last poll.
pub fn fill(status: &mut HelmOpStatus, polling: &Polling, generation: Option<i64>, now: &str) {
    let state = match polling {
        Polling::Off => None,
        Polling::Unchanged => return,
        Polling::Scheduled { next } => {
            let message = format!("not polled yet; next poll at {next}");
            Some(ConditionState::Unknown(Reason::Progressing, message))
        }
        Polling::Attempted(attempt) => {
            status.last_polling_triggered.clone_from(&attempt.start);
            match &attempt.result {
                Ok(_) if !attempt.is_scheduled => None,
                Ok(note) => Some(ConditionState::TrueWithMessage(Reason::Polled, note.clone())),
                Err(failure) => Some(ConditionState::False(failure.reason, failure.message.clone())),
            }
        }
    };
    let conditions = &mut status.base.conditions;
    match state {
        Some(state) => condition::set(conditions, ConditionType::Polled, &state, generation, now),
        None => condition::clear(conditions, ConditionType::Polled),
    }
}

/// Whether an accepted HelmOp is stalled because no newer version can be found until a user acts. `conditions` are the existing
/// ones.
pub fn stalled(polling: &Polling, conditions: &[Condition]) -> Stalled {
    match polling {
        Polling::Attempted(PollAttempt {
            result: Err(failure), ..
        }) if !failure.is_transient => Stalled::Yes(ConditionState::TrueWithMessage(
            failure.reason,
            failure.message.clone(),
        )),
        Polling::Unchanged if is_false(conditions, ConditionType::Polled) => Stalled::Unchanged,
        Polling::Off | Polling::Unchanged | Polling::Scheduled { .. } | Polling::Attempted(_) => Stalled::No,
    }
}

/// The condition `Stalled` of an accepted HelmOp, see [`stalled`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stalled {
    /// The condition is removed.
    No,
    /// The condition stays as it is.
    Unchanged,
    /// The condition is set.
    Yes(ConditionState),
}

fn is_false(conditions: &[Condition], r#type: ConditionType) -> bool {
    conditions
        .iter()
        .any(|condition| condition.r#type == r#type.as_str() && condition.status == "False")
}

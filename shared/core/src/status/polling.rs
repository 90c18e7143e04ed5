//! Polling in the status of a HelmOp.

use helmops_api::{Condition, HelmOpStatus, helmop::SeenVersion, timestamp::timestamp};
use helmops_model::{
    condition::{self, ConditionState, ConditionType},
    reason::Reason,
};
use k8s_openapi::jiff::Timestamp;

use super::notices::Notices;
use crate::poll::may_hide_polls;

/// What the status reports about polling.
#[derive(Clone, Debug, PartialEq)]
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

impl Polling {
    /// When the poll started and when the one after it is due, whose time may be recorded in place of this one: no user waits for the
    /// result.
    pub fn recordable_later(&self) -> Option<(Timestamp, Timestamp)> {
        match self {
            Self::Attempted(attempt) if !attempt.is_requested => Some((attempt.start, attempt.next?)),
            _ => None,
        }
    }
}

/// A finished attempt to find a newer version.
#[derive(Clone, Debug, PartialEq)]
pub struct PollAttempt {
    /// When it started.
    pub start: Timestamp,
    /// Whether polling is on, so that the next attempt is scheduled.
    pub is_scheduled: bool,
    /// Whether a user or a Receiver has requested it, and may wait for its result.
    pub is_requested: bool,
    /// When the next one is due, if polling is on.
    pub next: Option<Timestamp>,
    /// The message for `Polled`, which may be empty, or the failure.
    pub result: Result<String, PollFailure>,
    /// What it has found about the charts besides their versions; `None` if that is not known.
    pub notices: Option<Notices>,
    /// The versions that wait until they are old enough; `None` if that is not known.
    pub seen: Option<Vec<SeenVersion>>,
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

/// Whether a status differs from the `stored` one in nothing but the time of a poll, and the stored time is recent enough until the poll
/// after it, which is due at `next_poll`.
pub fn is_recorded_later(stored: &HelmOpStatus, next: &HelmOpStatus, next_poll: Timestamp) -> bool {
    let Ok(last) = stored.last_polling_triggered.parse() else {
        return false;
    };
    let with_stored_time = || HelmOpStatus {
        last_polling_triggered: stored.last_polling_triggered.clone(),
        ..next.clone()
    };
    may_hide_polls(last, next_poll) && with_stored_time() == *stored
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
            status.last_polling_triggered = timestamp(attempt.start);
            if let Some(seen) = &attempt.seen {
                status.seen.clone_from(seen);
            }
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

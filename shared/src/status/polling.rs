//! What the status tells of looks for newer versions.

use super::condition::{self, ConditionType, State};
use crate::{
    api::{Condition, HelmOpStatus},
    reason::Reason,
};

/// What there is to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polling {
    /// Nobody looks: it is off, or the HelmOp is refused as it is.
    Off,
    /// Nothing that was not told already.
    Unchanged,
    /// No look is on record.
    Awaited {
        /// When the first one is due, in RFC 3339.
        next: String,
    },
    /// A look.
    Looked(PollAttempt),
}

/// A look for newer versions that has come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollAttempt {
    /// When it began, in RFC 3339.
    pub start: String,
    /// Whether the next one comes by itself.
    pub is_repeated: bool,
    /// What came of it: what there is to say of it, or why it failed.
    pub result: Result<String, Failure>,
}

/// Why versions could not be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why, in a word.
    pub reason: Reason,
    /// Why, in a sentence.
    pub message: String,
    /// Whether it may pass by itself, so that nobody need do anything yet.
    pub is_transient: bool,
}

/// Sets what the status says of looks.
pub fn fill(status: &mut HelmOpStatus, polling: &Polling, generation: Option<i64>, now: &str) {
    let state = match polling {
        Polling::Off => None,
        Polling::Unchanged => return,
        Polling::Awaited { next } => {
            let message = format!("not polled yet; next poll at {next}");
            Some(State::Unknown(Reason::Progressing, message))
        }
        Polling::Looked(look) => {
            status.last_polling_triggered.clone_from(&look.start);
            match &look.result {
                Ok(_) if !look.is_repeated => None,
                Ok(note) => Some(State::TrueFor(Reason::Polled, note.clone())),
                Err(failure) => Some(State::False(failure.reason, failure.message.clone())),
            }
        }
    };
    let conditions = &mut status.base.conditions;
    match state {
        Some(state) => condition::set(conditions, ConditionType::Polled, &state, generation, now),
        None => condition::clear(conditions, ConditionType::Polled),
    }
}

/// Whether a HelmOp that is accepted stands still all the same: no newer version can be found before somebody does
/// something. `conditions` are those that are told already.
pub fn stalled(polling: &Polling, conditions: &[Condition]) -> Stalled {
    match polling {
        Polling::Looked(PollAttempt {
            result: Err(failure), ..
        }) if !failure.is_transient => Stalled::Yes(State::TrueFor(failure.reason, failure.message.clone())),
        Polling::Unchanged if is_false(conditions, ConditionType::Polled) => Stalled::Unchanged,
        Polling::Off | Polling::Unchanged | Polling::Awaited { .. } | Polling::Looked(_) => Stalled::No,
    }
}

/// See [`stalled`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stalled {
    /// It does not.
    No,
    /// It is as it was.
    Unchanged,
    /// It does.
    Yes(State),
}

fn is_false(conditions: &[Condition], r#type: ConditionType) -> bool {
    conditions
        .iter()
        .any(|condition| condition.r#type == r#type.as_str() && condition.status == "False")
}

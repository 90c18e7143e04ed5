//! The status of an Alert.

use helmops_api::{
    notifications::{AlertStatus, UndeliveredMessage},
    status::number,
    timestamp::timestamp,
};
use helmops_core::{
    reason::Reason,
    status::{ConditionState, ConditionType, set_condition},
};
use helmops_notify::alert::{Message, Plan, Reported};
use k8s_openapi::jiff::Timestamp;

use super::standing::Standing;

/// The number of messages that a status lists.
const MAX_LISTED: usize = 10;

/// What the status of an Alert follows from.
pub struct Observation<'a> {
    /// Whether it can send messages.
    pub standing: &'a Standing,
    /// What is to be sent.
    pub plan: &'a Plan,
    /// What was reported.
    pub reported: &'a Reported,
    /// The generation of the Alert.
    pub generation: Option<i64>,
    /// The current time.
    pub now: Timestamp,
}

/// Sets all that follows from an observation.
pub fn fill(status: &mut AlertStatus, observation: &Observation<'_>) {
    let Observation {
        standing,
        plan,
        reported,
        generation,
        now,
    } = observation;
    let time = timestamp(*now);
    status.observed_generation = *generation;
    status.failing = number(reported.failing());
    status.reported = reported.to_status();
    // Messages on their way change several times in a second: the status shows those that have to wait.
    let waiting: &[Message] = match standing {
        Standing::Sending { .. } | Standing::Invalid(_) => &[],
        Standing::Failing { .. } | Standing::Blocked { .. } => &plan.messages,
    };
    status.undelivered = number(waiting.len());
    let before = std::mem::take(&mut status.undelivered_messages);
    let listed = waiting.iter().take(MAX_LISTED);
    status.undelivered_messages = listed
        .map(|message| undelivered(message, &before, &time))
        .collect();
    let condition = match standing {
        Standing::Sending { .. } if plan.is_full => ConditionState::False(
            Reason::TooManyObjects,
            "more objects fail than status.reported has room for; further failures are not reported: make several Alerts of it, by \
             namespaces or labels"
                .to_owned(),
        ),
        standing => standing.condition(),
    };
    let conditions = &mut status.conditions;
    set_condition(conditions, ConditionType::Ready, &condition, *generation, &time);
}

/// An entry of the list. It keeps its time.
fn undelivered(message: &Message, before: &[UndeliveredMessage], now: &str) -> UndeliveredMessage {
    let object = match &message.subjects[..] {
        [subject] => subject.id.to_string(),
        [subject, others @ ..] => format!("{} and {} more", subject.id, others.len()),
        [] => String::new(),
    };
    let known = before
        .iter()
        .find(|known| known.object == object && known.reason == message.reason);
    UndeliveredMessage {
        since: known.map_or(now, |known| &known.since).to_owned(),
        object,
        reason: message.reason.clone(),
    }
}

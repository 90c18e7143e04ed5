//! The message of the condition `Ready`.

use bounded_text::cut;
use helmops_api::status::BundleSummary;
use helmops_model::{
    condition::ConditionState,
    deployment_state::{DeploymentState, count},
    reason::Reason,
};

/// How many modified objects, and how many objects that are not ready, are named for each state: as in Fleet.
const MAX_OBJECTS: usize = 4;
/// Maximum length of the difference of one object, in bytes: a patch can be as long as the object.
const MAX_PATCH: usize = 200;
/// Maximum length of the text about an object that is not ready, in bytes: with the cause that its pods show.
const MAX_OBJECT: usize = 640;

/// Fleet's message of the condition `Ready`: each state that is not ready with its count and one example, and the problems of
/// the example's objects. Empty if everything is ready.
///
/// `kind` is the kind that identifies deployments, such as `Cluster`. A state without an example is included too, unlike in
/// Fleet.
pub fn ready_message(summary: &BundleSummary, kind: &str) -> String {
    let mut parts = Vec::new();
    for state in DeploymentState::ALL
        .into_iter()
        .filter(|state| *state != DeploymentState::Ready)
    {
        let count = count(summary, state);
        if count <= 0 {
            continue;
        }
        let word = state.as_str();
        let example = summary
            .non_ready_resources
            .iter()
            .find(|one| one.bundle_state == word);
        let Some(example) = example else {
            parts.push(format!("{word}({count})"));
            continue;
        };
        parts.push(if example.message.is_empty() {
            format!("{word}({count}) [{kind} {}]", example.name)
        } else {
            format!("{word}({count}) [{kind} {}: {}]", example.name, example.message)
        });
        let modified = example
            .modified_status
            .iter()
            .take(MAX_OBJECTS)
            .map(|object| cut(object.to_string(), MAX_PATCH));
        let non_ready = example
            .non_ready_status
            .iter()
            .take(MAX_OBJECTS)
            .map(|object| cut(object.to_string(), MAX_OBJECT));
        parts.extend(modified.chain(non_ready));
    }
    parts.sort();
    parts.join("; ")
}

/// The condition `Ready` that follows from a summary.
pub fn of_summary(summary: &BundleSummary, kind: &str) -> ConditionState {
    let message = ready_message(summary, kind);
    if message.is_empty() {
        ConditionState::True(Reason::Ready)
    } else {
        ConditionState::False(Reason::NotReady, message)
    }
}

/// Whether a message is a [`ready_message`], not an error.
pub fn is_ready_message(message: &str) -> bool {
    DeploymentState::ALL.into_iter().any(|state| {
        let rest = message.strip_prefix(state.as_str());
        rest.is_some_and(|rest| rest.starts_with('('))
    })
}

#[cfg(test)]
mod tests;

//! The message of the condition `Ready`.

use bounded_text::cut;
use helmops_api::status::{BundleSummary, ModifiedStatus, NonReadyStatus, ObjectSummary};

use super::{condition::ConditionState, state::DeploymentState, summary::count};
use crate::reason::Reason;

/// How many modified objects, and how many objects that are not ready, are named for each state: as in Fleet.
const MAX_OBJECTS: usize = 4;
/// Maximum length of the text about one object, in bytes: a patch can be as long as the object.
const MAX_OBJECT: usize = 200;

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
        let modified = example.modified_status.iter().take(MAX_OBJECTS).map(modified);
        let non_ready = example.non_ready_status.iter().take(MAX_OBJECTS).map(non_ready);
        parts.extend(modified.chain(non_ready).map(|object| cut(object, MAX_OBJECT)));
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

fn modified(object: &ModifiedStatus) -> String {
    let mut text = name(&object.kind, &object.api_version, &object.namespace, &object.name);
    match object {
        ModifiedStatus {
            missing: true,
            exist: true,
            ..
        } => text.push_str(" is not owned by us"),
        ModifiedStatus { missing: true, .. } => text.push_str(" missing"),
        ModifiedStatus { delete: true, .. } => text.push_str(" extra"),
        ModifiedStatus { patch, .. } => {
            text.push_str(" modified ");
            text.push_str(patch);
        }
    }
    text
}

fn non_ready(object: &NonReadyStatus) -> String {
    let mut text = name(&object.kind, &object.api_version, &object.namespace, &object.name);
    if let Some(summary) = &object.summary {
        text.push(' ');
        push_summary(&mut text, summary);
    }
    text
}

/// Appends the state, or whether the object is progressing or has an error, and the messages. Fleet omits the bracket before a
/// single `error]`.
fn push_summary(text: &mut String, summary: &ObjectSummary) {
    let mark = match (summary.transitioning, summary.error) {
        (false, false) => return text.push_str(&summary.state),
        (true, false) => "[progressing]",
        (true, true) => "[progressing,error]",
        (false, true) => "[error]",
    };
    text.push_str(mark);
    if !summary.message.is_empty() {
        text.push(' ');
        text.push_str(&summary.message.join(", "));
    }
}

/// `kind.group namespace/name`. The group of `v1` is `v1`, as in Fleet.
fn name(kind: &str, api_version: &str, namespace: &str, name: &str) -> String {
    let mut text = kind.to_lowercase();
    if let Some(group) = api_version.split('/').next().filter(|group| !group.is_empty()) {
        text.push('.');
        text.push_str(group);
    }
    text.push(' ');
    if !namespace.is_empty() {
        text.push_str(namespace);
        text.push('/');
    }
    text.push_str(name);
    text
}

#[cfg(test)]
mod tests;

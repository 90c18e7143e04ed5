//! Rules for objects of every kind.

use super::{Assessment, Status, Subject};
use crate::health::fields::{number, text};

/// What decides before the rules of the kind: deletion, a generation that is not observed yet, and the two conditions of the
/// convention.
pub fn first<'a>(subject: &Subject<'a, '_>) -> Option<Assessment<'a>> {
    let object = subject.object;
    if !text(object, &["metadata", "deletionTimestamp"]).is_empty() {
        return Some(Assessment::new(
            Status::Terminating,
            "Resource scheduled for deletion",
        ));
    }
    let generation = number(object, &["metadata", "generation"]);
    let observed = number(object, &["status", "observedGeneration"]);
    if let (Some(generation), Some(observed)) = (generation, observed)
        && generation != observed
    {
        let kind = text(object, &["kind"]);
        return Some(Assessment::in_progress(format!(
            "{kind} generation is {generation}, but latest observed generation is {observed}"
        )));
    }
    subject
        .conditions
        .iter()
        .filter(|condition| condition.status == "True")
        .find_map(|condition| match condition.r#type {
            "Reconciling" => Some(Assessment::in_progress(condition.message)),
            "Stalled" => Some(Assessment::failed(condition.message)),
            _ => None,
        })
}

/// The rules of kinds that have nothing to wait for.
pub fn always<'a>(_: &Subject<'a, '_>) -> Assessment<'a> {
    Assessment::current("Resource is always ready")
}

/// The rules of kinds without rules of their own: the condition `Ready`, if there is one.
pub fn last<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    let mut ready = subject
        .conditions
        .iter()
        .filter(|condition| condition.r#type == "Ready");
    let found = ready.find_map(|condition| match condition.status {
        "True" => Some(Assessment::current("Resource is Ready")),
        "False" | "Unknown" => Some(Assessment::in_progress(condition.message)),
        _ => None,
    });
    found.unwrap_or_else(|| Assessment::current("Resource is current"))
}

//! StatefulSets. Their controller sets no conditions.

use super::{Assessment, Subject};
use crate::health::fields::{number, text};

/// The rules of StatefulSets.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    let object = subject.object;
    // The user deletes the pods, whenever that is.
    if text(object, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Assessment::current("StatefulSet is using the ondelete update strategy");
    }
    let desired = subject.number(&["spec", "replicas"], 1);
    let replicas = subject.observed("replicas");
    let ready = subject.observed("readyReplicas");
    let current = subject.observed("currentReplicas");
    let updated = subject.observed("updatedReplicas");
    if desired > replicas {
        return Assessment::in_progress(format!("Replicas: {replicas}/{desired}"));
    }
    if desired > ready {
        return Assessment::in_progress(format!("Ready: {ready}/{desired}"));
    }
    if replicas > desired {
        let excess = replicas.saturating_sub(desired);
        return Assessment::in_progress(format!("Pending termination: {excess}"));
    }
    let partition = number(object, &["spec", "updateStrategy", "rollingUpdate", "partition"]);
    // The reference implementation uses -1 for no partition.
    if let Some(partition) = partition.filter(|partition| *partition != -1) {
        let to_update = desired.saturating_sub(partition);
        return if updated < to_update {
            Assessment::in_progress(format!("updated: {updated}/{to_update}"))
        } else {
            Assessment::current(format!("Partition rollout complete. updated: {updated}"))
        };
    }
    if desired > current {
        Assessment::in_progress(format!("current: {current}/{desired}"))
    } else if text(object, &["status", "currentRevision"]) != text(object, &["status", "updateRevision"]) {
        Assessment::in_progress("Waiting for updated revision to match current")
    } else {
        Assessment::current(format!(
            "All replicas scheduled as expected. Replicas: {replicas}"
        ))
    }
}

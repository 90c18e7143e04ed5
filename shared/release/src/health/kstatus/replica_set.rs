//! ReplicaSets.

use super::{Assessment, Subject};

/// The rules of ReplicaSets.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    if subject.condition("ReplicaFailure", "True").is_some() {
        return Assessment::in_progress("Replica Failure condition. Check Pods");
    }
    let desired = subject.number(&["spec", "replicas"], 1);
    let counts = [
        ("Labelled", "fullyLabeledReplicas"),
        ("Available", "availableReplicas"),
        ("Ready", "readyReplicas"),
    ];
    let counts = counts.map(|(word, key)| (word, subject.observed(key)));
    let low = counts.into_iter().find(|(_, count)| desired > *count);
    let replicas = subject.observed("replicas");
    match low {
        Some((word, count)) => Assessment::in_progress(format!("{word}: {count}/{desired}")),
        None if replicas > desired => {
            let excess = replicas.saturating_sub(desired);
            Assessment::in_progress(format!("Pending termination: {excess}"))
        }
        None => Assessment::current(format!("ReplicaSet is available. Replicas: {replicas}")),
    }
}

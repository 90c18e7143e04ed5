//! Pods.

use jiff::SignedDuration;

use super::{Assessment, Status, Subject};
use crate::health::fields::{list, text, time};

/// How long a pod may be unschedulable until that counts as a failure: a node may be on its way.
const SCHEDULING: SignedDuration = SignedDuration::from_secs(15);

/// The rules of Pods. One that has ended is as desired, whether or not it failed: nothing will change it.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    match text(subject.object, &["status", "phase"]) {
        "Succeeded" => Assessment::current("Pod has completed successfully"),
        "Failed" => Assessment::current("Pod has completed, but not successfully"),
        "Running" => running(subject),
        "Pending" => pending(subject),
        "" => Assessment::in_progress("Pod phase not available"),
        phase => Assessment::new(Status::Unknown, format!("unknown Pod phase {phase}")),
    }
}

fn running<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    if subject.condition("Ready", "True").is_some() {
        return Assessment::current("Pod is Ready");
    }
    let crashing: Vec<_> = list(subject.object, &["status", "containerStatuses"])
        .iter()
        .filter(|container| text(container, &["state", "waiting", "reason"]) == "CrashLoopBackOff")
        .map(|container| text(container, &["name"]))
        .collect();
    if crashing.is_empty() {
        Assessment::in_progress("Pod is running but is not Ready")
    } else {
        Assessment::failed(format!("Containers in CrashLoop state: {}", crashing.join(",")))
    }
}

fn pending<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    let is_unschedulable = subject
        .condition("PodScheduled", "False")
        .is_some_and(|condition| condition.reason == "Unschedulable");
    if !is_unschedulable {
        return Assessment::in_progress("Pod is in the Pending phase");
    }
    let deadline = time(subject.object, &["metadata", "creationTimestamp"])
        .and_then(|created| created.checked_add(SCHEDULING).ok())
        .filter(|deadline| *deadline > subject.now);
    match deadline {
        Some(deadline) => Assessment {
            recheck: Some(deadline),
            ..Assessment::in_progress("Pod has not been scheduled")
        },
        None => Assessment::failed("Pod could not be scheduled"),
    }
}

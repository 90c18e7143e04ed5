//! Deployments.

use super::{Assessment, Subject};

/// What the API server stores for a Deployment without a deadline: its controller sets no condition `Progressing` then.
const NO_DEADLINE: i64 = i32::MAX as i64;

/// The rules of Deployments.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    let has_missed_deadline = |condition: &super::Condition<'_>| {
        condition.r#type == "Progressing" && condition.reason == "ProgressDeadlineExceeded"
    };
    if subject.conditions.iter().any(has_missed_deadline) {
        return Assessment::failed("Progress deadline exceeded");
    }
    let desired = subject.number(&["spec", "replicas"], 1);
    let replicas = subject.observed("replicas");
    let updated = subject.observed("updatedReplicas");
    let ready = subject.observed("readyReplicas");
    let available = subject.observed("availableReplicas");
    let is_progressed = subject.number(&["spec", "progressDeadlineSeconds"], NO_DEADLINE) == NO_DEADLINE
        || subject.conditions.iter().any(|condition| {
            condition.is("Progressing", "True") && condition.reason == "NewReplicaSetAvailable"
        });
    if desired > replicas {
        Assessment::in_progress(format!("Replicas: {replicas}/{desired}"))
    } else if desired > updated {
        Assessment::in_progress(format!("Updated: {updated}/{desired}"))
    } else if replicas > desired {
        let excess = replicas.saturating_sub(desired);
        Assessment::in_progress(format!("Pending termination: {excess}"))
    } else if updated > available {
        Assessment::in_progress(format!("Available: {available}/{updated}"))
    } else if desired > ready {
        Assessment::in_progress(format!("Ready: {ready}/{desired}"))
    } else if !is_progressed {
        Assessment::in_progress("ReplicaSet not Available")
    } else if subject.condition("Available", "True").is_none() {
        Assessment::in_progress("Deployment not Available")
    } else {
        Assessment::current(format!("Deployment is available. Replicas: {replicas}"))
    }
}

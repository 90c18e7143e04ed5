//! Whether a wait for an object of a release is over.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    conditions,
    fields::{flag, group_kind},
    kstatus::{self, Assessment, Status},
};

/// Whether a wait for an object is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The object is ready, or there is nothing to wait for.
    Ready,
    /// It is not ready yet, with the reason.
    Waiting(String),
    /// It failed for good, so that waiting any longer is pointless, with the reason.
    Failed(String),
}

/// Whether a wait for an object is over, as in `helm upgrade --wait`.
///
/// A paused Deployment makes no progress, so it is not waited for. A Job is ready as soon as it runs, or with `wait_for_jobs` when
/// it is complete. Unlike the health, this depends on `kstatus` alone, and ignores no condition.
///
/// Helm also fails when pods of a workload have failed. Here the object alone counts: its own deadline
/// (`progressDeadlineSeconds`) is the longer, but certain, way to learn that.
pub fn readiness(object: &Value, wait_for_jobs: bool, now: Timestamp) -> Readiness {
    let kind = group_kind(object);
    if kind == ("apps", "Deployment") && flag(object, &["spec", "paused"]) {
        return Readiness::Ready;
    }
    let conditions = conditions::of(object, &[]);
    if wait_for_jobs && kind == ("batch", "Job") {
        return of(kstatus::completion(object, &conditions));
    }
    of(kstatus::assess(object, &conditions, now))
}

fn of(assessment: Assessment<'_>) -> Readiness {
    let message = assessment.message.into_owned();
    match assessment.status {
        Status::Current => Readiness::Ready,
        Status::InProgress | Status::Terminating | Status::Unknown => Readiness::Waiting(message),
        Status::Failed => Readiness::Failed(message),
    }
}

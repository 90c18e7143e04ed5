//! Whether a wait for an object of a release is over.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    conditions,
    fields::{at, flag, group_kind, list, number},
    kstatus::{self, Assessment, Status},
};

/// Whether a wait for an object is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The object is ready, or there is nothing to wait for.
    Ready,
    /// The same for a workload without readiness probes: its containers run. One that crashes is shown like this for a moment, at each of
    /// its restarts, so that it has to stay so.
    Started,
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
    match of(kstatus::assess(object, &conditions, now)) {
        Readiness::Ready if is_unprobed(object) => Readiness::Started,
        readiness => readiness,
    }
}

/// Whether pods of a workload are ready as soon as their containers run. The status of a `StatefulSet` knows no `minReadySeconds`.
fn is_unprobed(object: &Value) -> bool {
    let ("apps", kind @ ("Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")) = group_kind(object)
    else {
        return false;
    };
    let seconds = number(object, &["spec", "minReadySeconds"]).filter(|_| kind != "StatefulSet");
    let is_delayed = seconds.is_some_and(|seconds| seconds > 0);
    let is_empty = number(object, &["spec", "replicas"]) == Some(0);
    let containers = list(object, &["spec", "template", "spec", "containers"]);
    let is_probed = |container| {
        let probes = ["readinessProbe", "startupProbe"];
        probes.iter().any(|probe| at(container, &[probe]).is_some())
    };
    let are_probed = containers.iter().all(is_probed);
    !(is_empty || is_delayed || are_probed)
}

fn of(assessment: Assessment<'_>) -> Readiness {
    let message = assessment.message.into_owned();
    match assessment.status {
        Status::Current => Readiness::Ready,
        Status::InProgress | Status::Terminating | Status::Unknown => Readiness::Waiting(message),
        Status::Failed => Readiness::Failed(message),
    }
}

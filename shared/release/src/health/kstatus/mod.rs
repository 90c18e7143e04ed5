//! The status of an object by the convention of `kstatus`: one file for each kind with rules of its own.

mod crd;
mod daemon_set;
mod deployment;
mod generic;
mod job;
mod pod;
mod pvc;
mod replica_set;
mod service;
mod stateful_set;

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::{conditions::Condition, fields::group_kind};

/// The status of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The object is changing.
    InProgress,
    /// It failed.
    Failed,
    /// It is as desired.
    Current,
    /// It is being deleted.
    Terminating,
    /// It has a value that the rules of its kind do not know.
    Unknown,
}

/// The status with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment<'a> {
    /// The status.
    pub status: Status,
    /// Why.
    pub message: Cow<'a, str>,
    /// When the status changes although the object does not.
    pub recheck: Option<Timestamp>,
}

impl<'a> Assessment<'a> {
    fn new(status: Status, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            status,
            message: message.into(),
            recheck: None,
        }
    }

    fn in_progress(message: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Status::InProgress, message)
    }

    fn failed(message: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Status::Failed, message)
    }

    fn current(message: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Status::Current, message)
    }
}

/// What the rules of a kind depend on.
#[derive(Clone, Copy)]
struct Subject<'a, 'c> {
    object: &'a Value,
    conditions: &'c [Condition<'a>],
    now: Timestamp,
}

impl<'a> Subject<'a, '_> {
    /// The first condition with this type and status.
    fn condition(&self, r#type: &str, status: &str) -> Option<Condition<'a>> {
        let found = self
            .conditions
            .iter()
            .find(|condition| condition.is(r#type, status));
        found.copied()
    }

    /// The number at a path, or the default.
    fn number(&self, path: &[&str], default: i64) -> i64 {
        super::fields::number(self.object, path).unwrap_or(default)
    }

    /// A number of the status; 0 if it is missing, as the API server omits zeros.
    fn observed(&self, key: &str) -> i64 {
        self.number(&["status", key], 0)
    }
}

/// The rules of a kind. They apply to what [`generic::first`] does not decide.
type Rules = for<'a> fn(&Subject<'a, '_>) -> Assessment<'a>;

/// The kinds with rules of their own, by API group.
const KINDS: [(&str, &str, Rules); 16] = [
    ("", "ConfigMap", generic::always),
    ("", "Secret", generic::always),
    ("", "Service", service::rules),
    ("", "Pod", pod::rules),
    ("", "PersistentVolumeClaim", pvc::rules),
    ("apps", "Deployment", deployment::rules),
    ("extensions", "Deployment", deployment::rules),
    ("apps", "StatefulSet", stateful_set::rules),
    ("apps", "DaemonSet", daemon_set::rules),
    ("extensions", "DaemonSet", daemon_set::rules),
    ("apps", "ReplicaSet", replica_set::rules),
    ("extensions", "ReplicaSet", replica_set::rules),
    ("batch", "Job", job::rules),
    ("batch", "CronJob", generic::always),
    ("policy", "PodDisruptionBudget", generic::always),
    ("apiextensions.k8s.io", "CustomResourceDefinition", crd::rules),
];

/// The status of a Job that is to complete, with these conditions.
pub(super) fn completion<'a>(job: &'a Value, conditions: &[Condition<'a>]) -> Assessment<'a> {
    job::completion(job, conditions)
}

/// The status of an object with these conditions.
pub(super) fn assess<'a>(object: &'a Value, conditions: &[Condition<'a>], now: Timestamp) -> Assessment<'a> {
    let subject = Subject {
        object,
        conditions,
        now,
    };
    if let Some(assessment) = generic::first(&subject) {
        return assessment;
    }
    let (group, kind) = group_kind(object);
    let row = KINDS
        .iter()
        .find(|(known_group, known_kind, _)| (*known_group, *known_kind) == (group, kind));
    let rules = row.map_or(generic::last as Rules, |(_, _, rules)| *rules);
    rules(&subject)
}

#[cfg(test)]
mod tests;

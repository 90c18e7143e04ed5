//! What was last reported of each release: Events are written for what is new, and gauges count what is.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
};

use helmops_kube::lease::Leadership;
use helmops_model::{event::Event, reason::Reason};
use helmops_process::lock;
use helmops_release::{
    drift::ObjectDrift,
    names::ReleaseKey,
    object::ObjectId,
    report::{ReleaseObjects, TestResult},
};
use helmops_runtime::{error_class::ClassifiedError, events::Events};

use crate::{
    error::AgentError,
    events::{self, Done, Remediation},
    metrics::{DriftCount, DriftMetrics},
    monitor::Corrections,
    upstream::{GuardError, Refusal, RemovalMetrics},
};

/// How many objects of a release have an Event for their drift, as many as its status lists.
const MAX_DRIFT_EVENTS: usize = 10;

/// The last reports, by BundleDeployment.
pub struct Reports {
    last: Mutex<HashMap<String, LastReport>>,
    events: Events,
    drift: DriftMetrics,
    removals: RemovalMetrics,
}

/// What was last reported of a release.
#[derive(Debug, Default)]
struct LastReport {
    /// With what was deployed. A failure of another deployment is another one, also with the same text: what was changed did not help.
    failure: Option<(String, FailureReport)>,
    /// `None` if nothing was reported since the start of the agent.
    suspended: Option<bool>,
    drift: Drift,
    /// Why its removal is refused.
    refusal: Option<Refusal>,
}

/// Why a release could not be deployed or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureReport {
    pub reason: Reason,
    pub text: String,
    /// After so many attempts the retries are used up. Only with the first failure after that.
    pub exhausted_after: Option<u32>,
}

/// The drift of a release.
#[derive(Debug, Default)]
struct Drift {
    /// The objects, and whether they were corrected.
    objects: BTreeMap<ObjectId, bool>,
    is_corrected: bool,
}

/// A change of the drift of an object.
#[derive(Debug, PartialEq, Eq)]
enum DriftChange<'o> {
    Found(&'o ObjectDrift),
    Corrected(ObjectId),
}

impl Reports {
    pub fn new(events: Events, drift: DriftMetrics, removals: RemovalMetrics) -> Self {
        Self {
            last: Mutex::default(),
            events,
            drift,
            removals,
        }
    }

    /// A release was changed; `what` is its chart and revision.
    pub fn done(&self, done: Done, release: &ReleaseKey, what: &str) {
        self.publish(release, events::done(done, release, what));
    }

    /// Objects that the record of a release has stay as they are; `what` says what is not done with which, and why.
    pub fn kept(&self, release: &ReleaseKey, what: &str) {
        self.publish(release, events::kept(release, what));
    }

    /// Others depend on a release that is removed; `what` says which, and what follows. If it `is_warning`, it is uninstalled nevertheless.
    pub fn dependents_remain(&self, release: &ReleaseKey, is_warning: bool, what: &str) {
        self.publish(release, events::dependents_remain(release, is_warning, what));
    }

    /// A release is upgraded, because the values of these objects may have changed.
    pub fn values_changed(&self, release: &ReleaseKey, objects: &str) {
        self.publish(release, events::values_changed(release, objects));
    }

    /// Patches have changed nothing; `what` says which.
    pub fn unmatched(&self, release: &ReleaseKey, what: &str) {
        self.publish(release, events::unmatched(release, what));
    }

    /// Something was done about a failed attempt; `what` says about which.
    pub fn remediated(&self, remediation: Remediation, release: &ReleaseKey, what: &str) {
        self.publish(release, events::remediated(remediation, release, what));
    }

    /// The tests of a revision have run.
    pub fn tested(&self, release: &ReleaseKey, revision: u64, result: &TestResult) {
        if let Some(event) = events::tested(release, revision, result) {
            self.publish(release, event);
        }
    }

    /// A release is suspended, or not; `was` is what its status says.
    pub fn suspended(&self, deployment: &str, release: &ReleaseKey, is: bool, was: bool) {
        let mut last = lock(&self.last);
        let last = last.entry(deployment.to_owned()).or_default();
        if last.suspended.replace(is).unwrap_or(was) != is {
            self.publish(release, events::suspended(release, is));
        }
    }

    /// A release could not be deployed, or removed: then there is no `input`, which is what was deployed. The same failure is reported
    /// once, however often it is retried.
    pub fn failed(
        &self,
        deployment: &str,
        input: &str,
        release: &ReleaseKey,
        failure: Option<FailureReport>,
    ) {
        let Some(failure) = failure else {
            return;
        };
        let exhausted_after = failure.exhausted_after;
        let event = events::failed(release, failure.reason, &failure.text);
        let mut last = lock(&self.last);
        if last
            .entry(deployment.to_owned())
            .or_default()
            .is_new(input, failure)
        {
            self.publish(release, event);
            if let Some(attempts) = exhausted_after {
                self.publish(release, events::exhausted(release, attempts));
            }
        }
    }

    /// Whether the last attempt with this input has failed, as it was reported: not that it could not begin.
    pub fn has_failed(&self, deployment: &str, input: &str) -> bool {
        lock(&self.last)
            .get(deployment)
            .is_some_and(|last| last.has_failed(input))
    }

    /// A release is deployed: the next failure is a new one.
    pub fn deployed(&self, deployment: &str) {
        if let Some(last) = lock(&self.last).get_mut(deployment) {
            last.failure = None;
        }
    }

    /// What a comparison of a release showed, and what was done about it. Without `corrections`, drift is not to be corrected.
    pub fn compared(
        &self,
        deployment: &str,
        release: &ReleaseKey,
        objects: &ReleaseObjects,
        corrections: Option<&Corrections>,
    ) {
        if let Some(Corrections {
            corrected, errors, ..
        }) = corrections
        {
            self.drift.corrected(corrected.len(), errors.len());
        }
        let mut last = lock(&self.last);
        let drift = &mut last.entry(deployment.to_owned()).or_default().drift;
        let before = drift.count();
        let changes = drift.changes(&objects.drift, corrections);
        self.drift.changed(before, drift.count());
        for change in changes.into_iter().take(MAX_DRIFT_EVENTS) {
            let (id, event) = match change {
                DriftChange::Found(drift) => (drift.id.clone(), events::drifted(release, drift)),
                DriftChange::Corrected(id) => {
                    let event = events::corrected(release, &id);
                    (id, event)
                }
            };
            let live = objects.objects.iter().find(|object| object.id == id);
            let regarding = events::of_object(&id, live.map(|object| object.uid.as_str()));
            self.events.publish_for(regarding, vec![event]);
        }
    }

    /// The removal of the releases of a BundleDeployment is refused; `None` if it is not, or the BundleDeployment exists. The Event is one for
    /// all that are refused for the same reason, in the namespace of the agent: each of them has the same text.
    pub fn removal(&self, deployment: &str, agent_namespace: &str, refused: Option<&GuardError>) {
        let refusal = refused.and_then(GuardError::refusal);
        if refused.is_some() && refusal.is_none() {
            // It is not known whether it would be refused.
            return;
        }
        let mut last = lock(&self.last);
        if refusal.is_none() && !last.contains_key(deployment) {
            return;
        }
        let last = last.entry(deployment.to_owned()).or_default();
        let before = std::mem::replace(&mut last.refusal, refusal);
        if self.removals.changed(before, refusal)
            && let Some(error) = refused
        {
            let event = events::removal_refused(&error.to_string());
            self.events
                .publish_for(events::of_namespace(agent_namespace), vec![event]);
        }
    }

    /// Forgets all reports whenever a term of leadership ends: another replica reports from then on, and what this one exposes would be
    /// outdated. Never ends.
    pub async fn follow(&self, leadership: Leadership) {
        while leadership.wait_until_held().await.is_ok() {
            leadership.until_lost().await;
            let all = std::mem::take(&mut *lock(&self.last));
            for last in all.into_values() {
                self.end(&last);
            }
        }
        std::future::pending::<()>().await;
    }

    /// Forgets a BundleDeployment.
    pub fn forget(&self, deployment: &str) {
        if let Some(last) = lock(&self.last).remove(deployment) {
            self.end(&last);
        }
    }

    fn end(&self, last: &LastReport) {
        self.drift.changed(last.drift.count(), DriftCount::default());
        self.removals.changed(last.refusal, None);
    }

    fn publish(&self, release: &ReleaseKey, event: Event) {
        self.events.publish_for(events::of_release(release), vec![event]);
    }
}

impl FailureReport {
    /// The report of an error; `None` if something is only in progress.
    pub fn of(error: &AgentError) -> Option<Self> {
        let reason = error.classify().reason;
        (reason != Reason::Progressing).then(|| Self {
            reason,
            text: error.to_string(),
            exhausted_after: None,
        })
    }
}

impl LastReport {
    /// Remembers a failure, and returns whether it is another one than before.
    fn is_new(&mut self, input: &str, failure: FailureReport) -> bool {
        let failure = Some((input.to_owned(), failure));
        let is_new = self.failure != failure;
        self.failure = failure;
        is_new
    }

    fn has_failed(&self, input: &str) -> bool {
        let failure = self.failure.as_ref().filter(|(failed, _)| failed == input);
        failure.is_some_and(|(_, failure)| failure.reason != Reason::DeploymentBlocked)
    }
}

impl Drift {
    fn count(&self) -> DriftCount {
        DriftCount {
            objects: self.objects.len(),
            is_corrected: self.is_corrected,
        }
    }

    /// Follows a comparison, and returns what has changed since the last one. An object that was corrected still differs in the
    /// comparison that led to its correction.
    fn changes<'o>(
        &mut self,
        drift: &'o [ObjectDrift],
        corrections: Option<&Corrections>,
    ) -> Vec<DriftChange<'o>> {
        let was_corrected = |id: &ObjectId| {
            corrections.is_some_and(|corrections| corrections.corrected.contains(id))
                || self.objects.get(id).is_some_and(|corrected| *corrected)
        };
        let now: BTreeMap<ObjectId, bool> = drift
            .iter()
            .map(|one| (one.id.clone(), was_corrected(&one.id)))
            .collect();
        let found = drift.iter().filter(|one| !self.objects.contains_key(&one.id));
        let mut changes: Vec<_> = found.map(DriftChange::Found).collect();
        let before = std::mem::replace(&mut self.objects, now);
        self.is_corrected = corrections.is_some();
        let corrected = before
            .into_iter()
            .filter(|(id, corrected)| *corrected && !self.objects.contains_key(id));
        changes.extend(corrected.map(|(id, _)| DriftChange::Corrected(id)));
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use helmops_release::drift::Change;
    use helmops_runtime::{events, workers::Interrupted};
    use prometheus::{IntCounter, Registry, TextEncoder};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_replica_that_is_no_leader_any_more_reports_nothing() {
        let registry = Registry::new();
        let (events, _writer) = events::queue(IntCounter::new("dropped", "dropped").unwrap());
        let removals = RemovalMetrics::register(&registry).unwrap();
        let reports = Reports::new(events, DriftMetrics::register(&registry).unwrap(), removals);
        let (sender, leadership) = Leadership::elected();
        let mut following = Box::pin(reports.follow(leadership));
        let has = |number: u8| {
            let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
            text.contains(&format!(
                "helmops_agent_removals_refused{{reason=\"no_namespace\"}} {number}\n"
            ))
        };
        sender.set(Some(Instant::now() + Duration::from_hours(1)));
        assert_eq!(following.as_mut().now_or_never(), None);
        let error = GuardError::NoNamespace {
            namespace: "cluster".to_owned(),
        };
        reports.removal("web", "agent", Some(&error));
        assert!(has(1));
        sender.set(None);
        assert_eq!(following.as_mut().now_or_never(), None);
        assert!(has(0));
    }

    fn id(name: &str) -> ObjectId {
        ObjectId {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }
    }

    fn extra(name: &str) -> ObjectDrift {
        ObjectDrift {
            id: id(name),
            change: Change::Extra,
        }
    }

    #[test]
    fn drift_is_found_once_and_reported_as_corrected_when_it_is_gone() {
        let mut drift = Drift::default();
        let objects = [extra("a"), extra("b")];
        let corrections = Corrections {
            corrected: vec![id("a")],
            errors: vec!["b cannot be corrected".to_owned()],
            next: None,
        };
        let found = drift.changes(&objects, Some(&corrections));
        assert_eq!(
            found,
            [DriftChange::Found(&objects[0]), DriftChange::Found(&objects[1])]
        );
        let count = DriftCount {
            objects: 2,
            is_corrected: true,
        };
        assert_eq!(drift.count(), count);
        assert_eq!(drift.changes(&objects, Some(&Corrections::default())), []);
        assert_eq!(
            drift.changes(&objects[1..], Some(&Corrections::default())),
            [DriftChange::Corrected(id("a"))]
        );
    }

    #[test]
    fn a_failure_is_new_for_each_deployment_reason_and_text() {
        let not_ready = |text: &str| AgentError::AttemptFailed(text.to_owned());
        // Its reason is another one, and its text the same.
        let forbidden = || AgentError::NamespaceForbidden {
            release: "shop/web:1".to_owned(),
            error: "no".to_owned(),
        };
        let mut last = LastReport::default();
        for (deployment_id, error, is_new) in [
            (":a", not_ready("no"), true),
            (":a", not_ready("no"), false),
            // New values lead to the same error.
            (":b", not_ready("no"), true),
            (":b", forbidden(), true),
            (":b", not_ready("another"), true),
            (":b", not_ready("another"), false),
        ] {
            let failure = FailureReport::of(&error).unwrap();
            let found = last.is_new(deployment_id, failure);
            assert_eq!(found, is_new, "{deployment_id} {error}");
        }
        let interrupted = AgentError::Interrupted(Interrupted::Stopping);
        assert_eq!(FailureReport::of(&interrupted), None);
    }

    /// A retry that takes long does not hide why the attempt before has failed; one of something else does.
    #[test]
    fn a_failure_is_that_of_an_attempt_with_the_same_input() {
        let report = |reason| FailureReport {
            reason,
            text: "away".to_owned(),
            exhausted_after: None,
        };
        let mut last = LastReport::default();
        assert!(!last.has_failed(":a"));
        last.is_new(":a", report(Reason::HelmFailed));
        assert_eq!([":a", ":b"].map(|input| last.has_failed(input)), [true, false]);
        // What was missing is there now.
        last.is_new(":a", report(Reason::DeploymentBlocked));
        assert!(!last.has_failed(":a"));
    }

    #[test]
    fn drift_that_ends_without_a_correction_is_not_reported_as_corrected() {
        let mut drift = Drift::default();
        let objects = [extra("a")];
        assert_eq!(drift.changes(&objects, None).len(), 1);
        assert_eq!(drift.changes(&[], None), []);
        assert_eq!(drift.count(), DriftCount::default());
    }
}

//! What the statuses of Schedules and HelmOps report about windows.

use helmops_api::{
    BundleDeployment, Decoded, Schedule,
    schedule::{MAX_MATCHING, ScheduleStatus},
    status::number,
    timestamp::timestamp,
};
use helmops_model::{
    condition::{self, ConditionState, ConditionType},
    deployment_state::DeploymentState,
    reason::Reason,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube_core::Resource as _;

use super::{
    cluster::Selection,
    window::{WindowState, Windows, errors},
};
use crate::targeting::criteria::Member;

/// The new status of a Schedule, and when it changes by itself. `members` are the clusters of its namespace.
#[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
pub fn next_status<'a>(
    schedule: &Schedule,
    members: impl IntoIterator<Item = Member<'a>>,
    now: Timestamp,
) -> (ScheduleStatus, Option<Timestamp>) {
    let selected = Selection::of(schedule);
    let matching = members.into_iter().filter(|member| selected.has(member));
    let mut matching: Vec<_> = matching.map(|member| member.name().to_owned()).collect();
    matching.sort();
    matching.truncate(MAX_MATCHING);
    let windows = Windows::of(&schedule.spec);
    let state = windows
        .as_ref()
        .map_or_else(|_| WindowState::default(), |windows| windows.at(now));
    let errors = errors(&schedule.spec, now);
    let ready = match (errors.is_empty(), windows.is_ok()) {
        (true, _) => ConditionState::True(Reason::Ready),
        (false, true) => ConditionState::False(Reason::InvalidSchedule, errors.to_string()),
        (false, false) => ConditionState::False(
            Reason::InvalidSchedule,
            format!("its clusters are not changed until this is corrected: {errors}"),
        ),
    };
    let mut status = ScheduleStatus {
        active: state.is_active,
        next_start_time: state.next_start.map(timestamp).unwrap_or_default(),
        matching_clusters: matching,
        ..schedule.status.clone()
    };
    let generation = schedule.metadata.generation;
    condition::set(
        &mut status.conditions,
        ConditionType::Ready,
        &ready,
        generation,
        &timestamp(now),
    );
    (status, state.until)
}

/// The clusters of a HelmOp that wait for a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Their number.
    pub clusters: i64,
    /// When the next of these windows begins, RFC 3339; empty if none does, or it is not known.
    pub next: String,
}

impl Waiting {
    /// Counts the clusters whose deployments are held by a Schedule and not as desired. `until` is when the cluster of a deployment can
    /// be changed again, as its status has it.
    pub fn of(
        deployments: &[&Decoded<BundleDeployment>],
        until: impl Fn(&ObjectMeta) -> Option<String>,
    ) -> Self {
        let waiting = deployments
            .iter()
            .filter(|deployment| deployment.valid().is_some_and(waits));
        let waiting: Vec<_> = waiting.collect();
        let times = waiting.iter().filter_map(|deployment| until(deployment.meta()));
        Self {
            clusters: number(waiting.len()),
            next: times.filter(|time| !time.is_empty()).min().unwrap_or_default(),
        }
    }

    /// In words; `None` if no cluster waits.
    pub fn message(&self) -> Option<String> {
        let subject = match self.clusters {
            0 => return None,
            1 => "1 cluster waits for a window of its Schedules".to_owned(),
            more => format!("{more} clusters wait for a window of their Schedules"),
        };
        Some(match &*self.next {
            "" => subject,
            next => format!("{subject}; the next one begins at {next}"),
        })
    }
}

/// Whether a deployment is held by a Schedule, and something is to be done.
fn waits(deployment: &BundleDeployment) -> bool {
    use DeploymentState::{
        ErrApplied, Modified, NotReady, OutOfSync, Pending, Ready, WaitApplied, WaitingForDependency,
    };
    deployment.spec.off_schedule
        && match DeploymentState::of(deployment) {
            WaitApplied | WaitingForDependency | ErrApplied | OutOfSync | Pending => true,
            Ready | NotReady | Modified => false,
        }
}

#[cfg(test)]
mod tests {
    use helmops_api::Cluster;
    use serde_json::{Value, json};

    use super::*;

    fn schedule(spec: &Value) -> Schedule {
        let object =
            json!({ "metadata": { "namespace": "fleet", "name": "night", "generation": 2 }, "spec": spec });
        serde_json::from_value(object).unwrap()
    }

    fn status(schedule: &Schedule, now: &str) -> (ScheduleStatus, Option<String>) {
        let cluster = |name: &str, env: &str| -> Cluster {
            let object =
                json!({ "metadata": { "namespace": "fleet", "name": name, "labels": { "env": env } } });
            serde_json::from_value(object).unwrap()
        };
        let clusters = [cluster("b", "prod"), cluster("c", "test"), cluster("a", "prod")];
        let members = clusters.iter().map(|cluster| Member::new(cluster, []));
        let (status, until) = next_status(schedule, members, now.parse().unwrap());
        (status, until.map(timestamp))
    }

    #[test]
    fn the_status_of_a_schedule_follows_from_the_clock() {
        let targets = json!({ "clusters": [{ "clusterSelector": { "matchLabels": { "env": "prod" } } }] });
        let spec = json!({ "schedule": "0 0 2 * * ?", "duration": "2h", "targets": targets });
        let (before, until) = status(&schedule(&spec), "2026-01-01T01:00:00Z");
        assert_eq!(
            (before.active, &*before.next_start_time),
            (false, "2026-01-01T02:00:00Z")
        );
        assert_eq!(until.as_deref(), Some("2026-01-01T02:00:00Z"));
        assert_eq!(before.matching_clusters, ["a", "b"]);
        let ready = &before.conditions[0];
        assert_eq!(
            [&*ready.r#type, &*ready.status, &*ready.reason],
            ["Ready", "True", "Ready"]
        );
        assert_eq!(ready.observed_generation, Some(2));

        let mut observed = schedule(&spec);
        observed.status = before;
        let (during, until) = status(&observed, "2026-01-01T03:00:00Z");
        assert_eq!(
            (during.active, &*during.next_start_time),
            (true, "2026-01-02T02:00:00Z")
        );
        assert_eq!(until.as_deref(), Some("2026-01-01T04:00:00Z"));
        assert_eq!(during.conditions, observed.status.conditions, "written once");
    }

    #[test]
    fn the_status_of_an_invalid_schedule_says_what_to_correct() {
        let spec = json!({ "schedule": "0 0 2 * * ?", "duration": "2d" });
        let (invalid, until) = status(&schedule(&spec), "2026-01-01T03:00:00Z");
        assert_eq!((invalid.active, until), (false, None));
        let ready = &invalid.conditions[0];
        assert_eq!([&*ready.status, &*ready.reason], ["False", "InvalidSchedule"]);
        assert!(
            ready.message.starts_with(
                "its clusters are not changed until this is corrected: spec.duration: Invalid value: \"2d\""
            ),
            "{}",
            ready.message
        );
        // Overlapping windows are one, so the clusters can be changed.
        let spec = json!({ "schedule": "0 0 2 * * ?", "duration": "30h" });
        let (overlapping, _) = status(&schedule(&spec), "2026-01-01T01:00:00Z");
        assert!(overlapping.active);
        let message = &overlapping.conditions[0].message;
        assert!(
            message.contains("duration is too long and overlaps with the next execution time"),
            "{message}"
        );
    }

    #[test]
    fn clusters_that_wait_are_counted_with_the_next_window() {
        let deployment = |cluster: &str, spec: Value, status: Value| -> Decoded<BundleDeployment> {
            let object = json!({ "metadata": { "namespace": cluster, "name": "web" }, "spec": spec, "status": status });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let spec =
            |off: bool| json!({ "deploymentID": ":b", "stagedDeploymentID": ":b", "offSchedule": off });
        let ready = json!({ "appliedDeploymentID": ":b", "ready": true, "nonModified": true });
        let deployments = [
            deployment("a", spec(true), json!({ "appliedDeploymentID": ":a" })),
            deployment("b", spec(true), ready.clone()),
            deployment("c", spec(false), json!({ "appliedDeploymentID": ":a" })),
            deployment("d", spec(true), json!({})),
            deployment(
                "e",
                spec(true),
                json!({ "appliedDeploymentID": ":b", "ready": false, "nonModified": true }),
            ),
        ];
        let deployments: Vec<_> = deployments.iter().collect();
        let until = |metadata: &ObjectMeta| match metadata.namespace.as_deref() {
            Some("a") => Some("2026-12-02T02:00:00Z".to_owned()),
            Some("b") => Some("2026-01-01T00:00:00Z".to_owned()),
            Some("d") => Some("2026-12-01T02:00:00Z".to_owned()),
            _ => None,
        };
        let message = |count: usize| Waiting::of(deployments.get(..count).unwrap(), until).message();
        assert_eq!(
            message(5).as_deref(),
            Some(
                "2 clusters wait for a window of their Schedules; the next one begins at 2026-12-01T02:00:00Z"
            )
        );
        assert_eq!(
            message(3).as_deref(),
            Some(
                "1 cluster waits for a window of its Schedules; the next one begins at 2026-12-02T02:00:00Z"
            )
        );
        assert_eq!(message(0), None);
        let unknown = Waiting::of(&deployments, |_| None).message();
        assert_eq!(
            unknown.as_deref(),
            Some("2 clusters wait for a window of their Schedules")
        );
    }
}

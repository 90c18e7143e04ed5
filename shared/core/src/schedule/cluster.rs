//! Whether the Schedules of a namespace allow a cluster to be changed.

use std::collections::HashMap;

use helmops_api::{
    ClusterGroup, Decoded, Schedule, cluster::ClusterStatus, schedule::ClusterWindow, timestamp::timestamp,
};
use k8s_openapi::jiff::Timestamp;
use kube_core::Resource;

use super::known::{Decision, KnownWindows, ReadWindows};
use crate::targeting::criteria::{Criteria, Member};

/// Names of Schedules in the status of a cluster.
const MAX_NAMES: usize = 16;

/// The Schedules of namespaces, each with its Clusters and groups. `None` if it is not certain which of them select a Cluster.
#[derive(Debug, Default)]
pub struct ScheduleIndex<'a>(HashMap<&'a str, Option<Schedules<'a>>>);

/// The Schedules of a namespace, with their windows: `None` if these are invalid.
#[derive(Debug, Default)]
struct Schedules<'a>(Vec<(Selection<'a>, Option<ReadWindows>)>);

/// The clusters that a Schedule selects.
#[derive(Debug)]
pub struct Selection<'a> {
    /// The name of the Schedule.
    name: &'a str,
    targets: Vec<Criteria<'a>>,
}

/// What the Schedules that select a cluster decide at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterWindows {
    /// Their names. Without any, the cluster can be changed at any time.
    pub schedules: Vec<String>,
    /// Whether the cluster can be changed.
    pub is_open: bool,
    /// When that changes; `None` if it never does, or not in the next 200 starts and ends of windows.
    pub until: Option<Timestamp>,
    /// When to decide again; `None` if that changes nothing any more.
    pub again: Option<Timestamp>,
}

impl<'a> ScheduleIndex<'a> {
    /// All Schedules and groups of some namespaces, including those that do not decode or have no room in memory.
    pub fn new(
        schedules: impl IntoIterator<Item = &'a Decoded<Schedule>>,
        groups: impl IntoIterator<Item = &'a Decoded<ClusterGroup>>,
        known: &KnownWindows,
    ) -> Self {
        let mut all = HashMap::<_, Option<Vec<&Schedule>>>::new();
        for schedule in schedules {
            let of_namespace = all
                .entry(namespace_of(schedule))
                .or_insert_with(|| Some(Vec::new()));
            match (schedule.valid(), of_namespace.as_mut()) {
                (Some(schedule), Some(valid)) => valid.push(schedule),
                (Some(_), None) => {}
                (None, _) => *of_namespace = None,
            }
        }
        for group in groups.into_iter().filter(|group| group.valid().is_none()) {
            if let Some(of_namespace) = all.get_mut(namespace_of(group)) {
                *of_namespace = None;
            }
        }
        let read = |valid: Option<Vec<_>>| valid.map(|valid| Schedules::new(valid, known));
        Self(
            all.into_iter()
                .map(|(namespace, valid)| (namespace, read(valid)))
                .collect(),
        )
    }

    /// What the Schedules of its namespace decide about a cluster. `None` if one of them, or a group, is not readable: then it is not
    /// certain which of them select the cluster, and what was decided before stays.
    pub fn of_cluster(
        &self,
        member: &Member<'_>,
        now: Timestamp,
        known: &KnownWindows,
    ) -> Option<ClusterWindows> {
        let Some(schedules) = self.0.get(member.namespace()) else {
            return Some(Schedules::default().of_cluster(member, now, known));
        };
        Some(schedules.as_ref()?.of_cluster(member, now, known))
    }
}

fn namespace_of<K: Resource>(object: &K) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

impl<'a> Schedules<'a> {
    /// Reads Schedules. One that is being deleted selects no cluster any more.
    fn new(schedules: impl IntoIterator<Item = &'a Schedule>, known: &KnownWindows) -> Self {
        let existing = schedules
            .into_iter()
            .filter(|schedule| schedule.metadata.deletion_timestamp.is_none());
        let mut schedules: Vec<_> = existing
            .map(|schedule| (Selection::of(schedule), known.read(&schedule.spec)))
            .collect();
        schedules.sort_by_key(|(selection, _)| selection.name);
        Self(schedules)
    }

    /// What they decide about a cluster of their namespace.
    ///
    /// A cluster can be changed in a window of any Schedule that allows, and never in one of a Schedule that denies; where no Schedule
    /// allows, always but for the latter. A Schedule whose windows are invalid selects its clusters, and they are not changed.
    pub fn of_cluster(&self, member: &Member<'_>, now: Timestamp, known: &KnownWindows) -> ClusterWindows {
        let selecting = self.0.iter().filter(|(selection, _)| selection.has(member));
        let selecting: Vec<_> = selecting.collect();
        let windows: Option<Vec<_>> = selecting.iter().map(|(_, windows)| windows.as_ref()).collect();
        let decision = windows.map_or_else(Decision::default, |windows| known.decide(windows, now));
        let Decision {
            is_open,
            until,
            again,
        } = decision;
        ClusterWindows {
            schedules: selecting.iter().map(|(one, _)| one.name.to_owned()).collect(),
            is_open,
            until,
            again,
        }
    }
}

impl<'a> Selection<'a> {
    /// An entry with an invalid selector selects nothing.
    pub fn of(schedule: &'a Schedule) -> Self {
        let targets = schedule.spec.targets.clusters.iter();
        Self {
            name: schedule.metadata.name.as_deref().unwrap_or_default(),
            targets: targets
                .filter_map(|target| Criteria::new("spec.targets.clusters", &target.criteria).ok())
                .collect(),
        }
    }

    /// Whether it has a cluster.
    pub fn has(&self, member: &Member<'_>) -> bool {
        let mut targets = self.targets.iter();
        targets.any(|target| member.any(|cluster, group| target.matches(cluster, group)))
    }
}

impl ClusterWindows {
    /// Whether Schedules select the cluster and do not allow deployments now: nothing is changed there.
    pub fn is_out_of_schedule(&self) -> bool {
        !self.schedules.is_empty() && !self.is_open
    }

    /// Sets what the status of a cluster reports.
    pub fn fill(&self, status: &mut ClusterStatus) {
        status.scheduled = !self.schedules.is_empty();
        status.active_schedule = status.scheduled && self.is_open;
        status.window = status.scheduled.then(|| ClusterWindow {
            schedules: self.schedules.iter().take(MAX_NAMES).cloned().collect(),
            until: self.until.map(timestamp).unwrap_or_default(),
        });
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::Cluster;
    use serde_json::{Value, json};

    use super::*;

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn schedule(name: &str, spec: &Value) -> Schedule {
        let mut spec = spec.clone();
        if spec.get("targets").is_none() {
            spec["targets"] = json!({ "clusters": [{ "clusterSelector": {} }] });
        }
        let object = json!({ "metadata": { "namespace": "fleet", "name": name }, "spec": spec });
        serde_json::from_value(object).unwrap()
    }

    /// What they decide about a cluster with the label `env: prod`.
    fn decide(schedules: &[Schedule], time: &str) -> ClusterWindows {
        let cluster =
            json!({ "metadata": { "namespace": "fleet", "name": "c1", "labels": { "env": "prod" } } });
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let known = KnownWindows::default();
        let schedules = Schedules::new(schedules, &known);
        schedules.of_cluster(&Member::new(&cluster, []), at(time), &known)
    }

    fn night() -> Schedule {
        schedule("night", &json!({ "schedule": "0 0 2 * * ?", "duration": "2h" }))
    }

    #[test]
    fn a_cluster_without_schedules_is_not_scheduled() {
        let other = json!({ "schedule": "0 0 2 * * ?", "duration": "2h", "targets": { "clusters": [
            { "clusterSelector": { "matchLabels": { "env": "test" } } }, { "clusterName": "c2" }, {},
        ] } });
        let mut deleted = night();
        deleted.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let windows = decide(&[schedule("other", &other), deleted], "2026-01-01T12:00:00Z");
        assert_eq!(
            windows,
            ClusterWindows {
                is_open: true,
                ..ClusterWindows::default()
            }
        );
        let mut status = ClusterStatus {
            scheduled: true,
            window: Some(ClusterWindow::default()),
            ..ClusterStatus::default()
        };
        windows.fill(&mut status);
        assert_eq!(status, ClusterStatus::default());
    }

    #[test]
    fn the_windows_of_all_schedules_count() {
        let noon = schedule("noon", &json!({ "schedule": "0 0 12 * * ?", "duration": "1h" }));
        // It follows the window of the night without a gap.
        let morning = schedule(
            "morning",
            &json!({ "schedule": "0 0 4 * * ?", "duration": "30m" }),
        );
        let all = [night(), noon, morning];
        for (time, is_open, until) in [
            ("2026-01-01T01:59:59Z", false, "2026-01-01T02:00:00Z"),
            ("2026-01-01T02:00:00Z", true, "2026-01-01T04:30:00Z"),
            ("2026-01-01T04:29:59Z", true, "2026-01-01T04:30:00Z"),
            ("2026-01-01T04:30:00Z", false, "2026-01-01T12:00:00Z"),
            ("2026-01-01T12:59:59Z", true, "2026-01-01T13:00:00Z"),
            ("2026-01-01T13:00:00Z", false, "2026-01-02T02:00:00Z"),
        ] {
            let windows = decide(&all, time);
            assert_eq!(
                (windows.is_open, windows.until),
                (is_open, Some(at(until))),
                "{time}"
            );
            assert_eq!(windows.schedules, ["morning", "night", "noon"]);
            let mut status = ClusterStatus::default();
            windows.fill(&mut status);
            assert_eq!((status.scheduled, status.active_schedule), (true, is_open));
            assert_eq!(status.window.unwrap().until, until);
        }
    }

    #[test]
    fn a_window_that_denies_wins() {
        let freeze = schedule(
            "freeze",
            &json!({ "kind": "Deny", "schedule": "0 0 0 20 12 ?", "duration": "336h" }),
        );
        for (time, is_open, until) in [
            ("2026-12-19T03:00:00Z", true, "2026-12-19T04:00:00Z"),
            ("2026-12-19T05:00:00Z", false, "2027-01-03T02:00:00Z"),
            ("2026-12-25T03:00:00Z", false, "2027-01-03T02:00:00Z"),
            ("2027-01-03T03:00:00Z", true, "2027-01-03T04:00:00Z"),
        ] {
            let windows = decide(&[night(), freeze.clone()], time);
            assert_eq!(
                (windows.is_open, windows.until),
                (is_open, Some(at(until))),
                "{time}"
            );
        }
        // Alone, it forbids only its windows.
        for (time, is_open, until) in [
            ("2026-12-19T05:00:00Z", true, "2026-12-20T00:00:00Z"),
            ("2026-12-25T03:00:00Z", false, "2027-01-03T00:00:00Z"),
        ] {
            let windows = decide(std::slice::from_ref(&freeze), time);
            assert_eq!(
                (windows.is_open, windows.until),
                (is_open, Some(at(until))),
                "{time}"
            );
        }
    }

    #[test]
    fn a_cluster_of_an_invalid_schedule_is_not_changed() {
        for spec in [
            json!({}),
            json!({ "schedule": "0 0 2 * * ?", "duration": "2d" }),
            json!({ "schedule": "0 0 2 * * ?", "duration": "2h", "location": "Europe/Berlino" }),
            json!({ "schedule": "0 0 2 * * ?", "duration": "2h", "kind": "Permit" }),
        ] {
            let windows = decide(&[night(), schedule("bad", &spec)], "2026-01-01T03:00:00Z");
            assert!(!windows.is_open, "{spec}");
            assert_eq!(windows.until, None, "{spec}");
        }
    }

    #[test]
    fn a_schedule_without_another_window_keeps_its_clusters_closed() {
        let last = schedule(
            "last",
            &json!({ "schedule": "0 0 2 1 1 ? 2026", "duration": "2h" }),
        );
        let during = decide(std::slice::from_ref(&last), "2026-01-01T03:00:00Z");
        assert_eq!(
            (during.is_open, during.until),
            (true, Some(at("2026-01-01T04:00:00Z")))
        );
        let after = decide(&[last], "2026-01-01T04:00:00Z");
        assert_eq!((after.is_open, after.until, after.again), (false, None, None));
    }

    /// Two Schedules that exclude each other for years.
    #[test]
    fn the_search_for_the_next_change_is_bounded() {
        let minutes = schedule("minutes", &json!({ "schedule": "0 * * * * ?", "duration": "1s" }));
        let never = schedule(
            "never",
            &json!({ "kind": "Deny", "schedule": "0 0 0 1 1 ?", "duration": "8700h" }),
        );
        let windows = decide(&[minutes, never], "2026-01-01T00:00:30Z");
        assert_eq!((windows.is_open, windows.until), (false, None));
        // 200 starts and ends later: nothing changes before.
        assert_eq!(windows.again, Some(at("2026-01-01T01:41:00Z")));
    }
}

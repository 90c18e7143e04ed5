//! What the clusters wait for, in groups: most clusters wait for the same.

use std::collections::BTreeMap;

use helmops_api::{BundleDeployment, Cluster};
use helmops_model::deployment_state::DeploymentState;
use serde::Serialize;

use super::{
    parts::Tone,
    rollout::{Phase, Rollout},
};
use crate::state::clusters::ClusterReport;

/// How many groups are shown.
const MAX_GROUPS: usize = 12;
/// How many clusters of a group are named.
const MAX_NAMES: usize = 20;

/// Clusters that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// What they wait for.
    pub cause: String,
    /// What the first of them reports.
    pub detail: String,
    /// How good that is.
    pub tone: Tone,
    /// The number of clusters.
    pub count: usize,
    /// The first of them.
    pub clusters: Vec<String>,
}

/// What is known of one cluster.
#[derive(Clone, Copy, Debug)]
pub struct OnCluster<'a> {
    /// Its release.
    pub report: &'a ClusterReport,
    /// The BundleDeployment, if there is one.
    pub deployment: Option<&'a BundleDeployment>,
    /// The cluster, if it can be read.
    pub cluster: Option<&'a Cluster>,
    /// Whether its agent has not reported for too long.
    pub is_silent: bool,
}

/// What the clusters wait for, those with most clusters first.
#[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
pub fn waits<'a>(
    clusters: impl IntoIterator<Item = OnCluster<'a>>,
    rollout: &Rollout,
    is_suspended: bool,
) -> Vec<Wait> {
    let mut groups: BTreeMap<String, Wait> = BTreeMap::new();
    for on in clusters {
        let Some((cause, tone)) = cause(on, rollout, is_suspended) else {
            continue;
        };
        let wait = groups.entry(cause.clone()).or_insert_with(|| Wait {
            cause,
            detail: on.report.message.clone(),
            tone,
            count: 0,
            clusters: Vec::new(),
        });
        wait.count += 1;
        if wait.clusters.len() < MAX_NAMES {
            wait.clusters.push(on.report.cluster.clone());
        }
    }
    let mut waits: Vec<_> = groups.into_values().collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.count));
    waits.truncate(MAX_GROUPS);
    waits
}

/// What the agent of a Fleet before 0.16.2 reports in place of the state, and the agent of helmops if no bundle matches.
const NOT_READY_IN_OLDER_FLEET: &str = "dependent bundle(s) are not ready";

/// What a cluster waits for; `None` if it does not.
fn cause(on: OnCluster<'_>, rollout: &Rollout, is_suspended: bool) -> Option<(String, Tone)> {
    let report = on.report;
    if report.state == DeploymentState::Ready.as_str() && !report.suspended {
        return None;
    }
    let text = |cause: &str, tone| Some((cause.to_owned(), tone));
    if is_suspended || report.suspended {
        return text("kubectl helmop resume: it is suspended", Tone::Off);
    }
    if on.is_silent {
        return text(
            "the agent of the cluster, which has not reported for too long",
            Tone::Bad,
        );
    }
    if is_held(&report.state) {
        return Some((held(on, rollout), Tone::Pending));
    }
    let spec = on.deployment.map(|deployment| &deployment.spec);
    if spec.is_some_and(|spec| spec.off_schedule) {
        return Some((window(on.cluster), Tone::Off));
    }
    if spec.is_some_and(|spec| spec.waiting_for_values) {
        return text(
            "its values, which the controller has not delivered yet",
            Tone::Pending,
        );
    }
    if report.state == DeploymentState::WaitingForDependency.as_str()
        || report.message.contains(NOT_READY_IN_OLDER_FLEET)
    {
        return Some((
            format!("others on the cluster: {}", report.message),
            Tone::Pending,
        ));
    }
    if !report.next_attempt.is_empty() {
        return text("the next attempt, after failed ones", Tone::Bad);
    }
    match &*report.state {
        "WaitApplied" => text("the agent of the cluster, which deploys it next", Tone::Pending),
        "ErrApplied" => text("a correction: the deployment failed", Tone::Bad),
        "Modified" => text("a correction: objects were changed on the cluster", Tone::Bad),
        _ => text("its objects to become ready", Tone::Pending),
    }
}

/// The window that a cluster waits for, as far as its status has it.
fn window(cluster: Option<&Cluster>) -> String {
    let Some(window) = cluster.and_then(|cluster| cluster.status.awaited_window()) else {
        let begins = cluster.is_some_and(|cluster| cluster.status.active_schedule);
        let text = if begins {
            "the controller, which reports the window that has just started to the agent of the cluster"
        } else {
            "the Schedule of the cluster, which allows no deployment now"
        };
        return text.to_owned();
    };
    let names = window.schedules.join(", ");
    match &*window.until {
        "" => format!("a window of Schedule {names}: none begins any more, or it is invalid"),
        until => format!("a window of Schedule {names}: the next one begins at {until}"),
    }
}

/// Whether the roll-out has not reached a cluster.
fn is_held(state: &str) -> bool {
    [DeploymentState::Pending, DeploymentState::OutOfSync]
        .iter()
        .any(|held| held.as_str() == state)
}

/// Why the roll-out has not reached a cluster.
fn held(on: OnCluster<'_>, rollout: &Rollout) -> String {
    if rollout.paused {
        return "the roll-out, which is paused (spec.paused of the HelmOp)".to_owned();
    }
    if on.cluster.is_some_and(|cluster| cluster.spec.paused) {
        return "the cluster, which is paused (spec.paused of the Cluster)".to_owned();
    }
    if on
        .cluster
        .is_some_and(|cluster| cluster.status.is_out_of_schedule())
    {
        return window(on.cluster);
    }
    if !rollout.waits.is_empty() {
        return rollout.waits.clone();
    }
    if let Some(partition) = rollout.blocking() {
        return format!("partition {partition:?}, whose clusters have to become available first");
    }
    let active = rollout
        .partitions
        .iter()
        .find(|partition| partition.phase == Phase::Active);
    let limits = [
        active.map(|partition| (partition.unavailable, partition.max_unavailable)),
        rollout.unavailable.zip(rollout.max_unavailable),
    ];
    if let Some((unavailable, max)) = limits
        .into_iter()
        .flatten()
        .find(|(unavailable, max)| unavailable >= max)
    {
        return format!(
            "other clusters: {unavailable} are unavailable, and at most {max} may be (maxUnavailable)"
        );
    }
    if on.deployment.is_none()
        && let Some(max) = rollout.max_new.filter(|max| rollout.newly_created >= *max)
    {
        return format!(
            "the next round: at most {max} clusters get it for the first time in a round (maxNew)"
        );
    }
    "the next round of the roll-out".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::ui::view::rollout::Partition;

    fn report(state: &str, message: &str) -> ClusterReport {
        ClusterReport {
            cluster: "edge/c1".to_owned(),
            state: state.to_owned(),
            message: message.to_owned(),
            ..ClusterReport::default()
        }
    }

    fn of(report: &ClusterReport) -> OnCluster<'_> {
        OnCluster {
            report,
            deployment: None,
            cluster: None,
            is_silent: false,
        }
    }

    fn partition(name: &str, phase: Phase, unavailable: i64, waits_for: &str) -> Partition {
        Partition {
            name: name.to_owned(),
            count: 4,
            max_unavailable: 1,
            unavailable,
            parts: Vec::new(),
            phase,
            waits_for: waits_for.to_owned(),
        }
    }

    #[test]
    fn a_cluster_that_the_roll_out_has_not_reached_waits_for_the_first_limit() {
        let report = report("OutOfSync", "");
        let blocked = [
            partition("canary", Phase::Active, 2, ""),
            partition("rest", Phase::Waiting, 0, "canary"),
        ];
        let full = [partition("All", Phase::Active, 1, "")];
        let free = [partition("All", Phase::Active, 0, "")];
        for (rollout, expected) in [
            (
                Rollout {
                    paused: true,
                    ..Rollout::default()
                },
                "spec.paused of the HelmOp",
            ),
            (
                Rollout {
                    partitions: blocked.to_vec(),
                    ..Rollout::default()
                },
                "partition \"canary\"",
            ),
            (
                Rollout {
                    partitions: full.to_vec(),
                    ..Rollout::default()
                },
                "1 are unavailable, and at most 1 may be",
            ),
            (
                Rollout {
                    partitions: free.to_vec(),
                    unavailable: Some(2),
                    max_unavailable: Some(2),
                    ..Rollout::default()
                },
                "2 are unavailable, and at most 2 may be",
            ),
            (
                Rollout {
                    max_new: Some(50),
                    newly_created: 50,
                    ..Rollout::default()
                },
                "at most 50 clusters",
            ),
            (Rollout::default(), "the next round of the roll-out"),
        ] {
            let (cause, _) = cause(of(&report), &rollout, false).unwrap();
            assert!(cause.contains(expected), "{cause}");
        }
        let paused: Cluster =
            serde_json::from_value(json!({ "metadata": {}, "spec": { "paused": true } })).unwrap();
        let on = OnCluster {
            cluster: Some(&paused),
            ..of(&report)
        };
        assert!(
            cause(on, &Rollout::default(), false)
                .unwrap()
                .0
                .contains("spec.paused of the Cluster")
        );
    }

    #[test]
    fn a_window_is_named_with_its_schedule_and_its_start() {
        let off: BundleDeployment =
            serde_json::from_value(json!({ "metadata": {}, "spec": { "offSchedule": true } })).unwrap();
        let waiting = report("WaitApplied", "");
        let held = report("OutOfSync", "");
        let of_status = |status: Value| -> Cluster {
            serde_json::from_str(&json!({ "metadata": {}, "status": status }).to_string()).unwrap()
        };
        for (window, expected) in [
            (
                Value::Null,
                "the Schedule of the cluster, which allows no deployment now",
            ),
            (
                json!({ "schedules": ["night", "noon"], "until": "2026-12-01T02:00:00Z" }),
                "a window of Schedule night, noon: the next one begins at 2026-12-01T02:00:00Z",
            ),
            (
                json!({ "schedules": ["last"] }),
                "a window of Schedule last: none begins any more, or it is invalid",
            ),
        ] {
            let cluster = of_status(json!({ "scheduled": true, "window": window }));
            for (report, deployment) in [(&waiting, Some(&off)), (&held, None)] {
                let on = OnCluster {
                    deployment,
                    cluster: Some(&cluster),
                    ..of(report)
                };
                let (cause, _) = cause(on, &Rollout::default(), false).unwrap();
                assert_eq!(cause, expected, "{}", report.state);
            }
        }
        // The window has just started: the time in the status is its end.
        let window = json!({ "schedules": ["night"], "until": "2026-12-01T04:00:00Z" });
        let cluster = of_status(json!({ "scheduled": true, "activeSchedule": true, "window": window }));
        let on = OnCluster {
            deployment: Some(&off),
            cluster: Some(&cluster),
            ..of(&waiting)
        };
        let (cause, _) = cause(on, &Rollout::default(), false).unwrap();
        assert!(cause.contains("the window that has just started"), "{cause}");
    }

    #[test]
    fn what_a_cluster_waits_for_is_the_nearest_cause() {
        let unmet = "dependent bundle(s) are not ready: [crds]";
        let retrying = ClusterReport {
            next_attempt: "2026-03-01T12:04:00Z".to_owned(),
            ..report("ErrApplied", "m")
        };
        let object = |spec: Value| -> BundleDeployment {
            serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
        };
        let (off, without_values) = (
            object(json!({ "offSchedule": true })),
            object(json!({ "waitingForValues": true })),
        );
        for (report, deployment, is_silent, is_suspended, expected) in [
            (report("Ready", ""), None, false, false, None),
            (report("Ready", ""), None, true, true, None),
            (report("NotReady", ""), None, false, true, Some("it is suspended")),
            (
                report("WaitApplied", ""),
                None,
                true,
                false,
                Some("has not reported"),
            ),
            (
                report("WaitApplied", ""),
                None,
                false,
                false,
                Some("deploys it next"),
            ),
            (
                report("WaitApplied", ""),
                Some(&off),
                false,
                false,
                Some("Schedule"),
            ),
            (
                report("WaitApplied", ""),
                Some(&without_values),
                false,
                false,
                Some("values"),
            ),
            (report("ErrApplied", unmet), None, false, false, Some("[crds]")),
            (
                report("WaitingForDependency", "crds is not ready"),
                None,
                false,
                false,
                Some("others on the cluster: crds is not ready"),
            ),
            (
                report("ErrApplied", "x"),
                None,
                false,
                false,
                Some("the deployment failed"),
            ),
            (retrying, None, false, false, Some("next attempt")),
            (
                report("Modified", ""),
                None,
                false,
                false,
                Some("changed on the cluster"),
            ),
            (
                report("NotReady", ""),
                None,
                false,
                false,
                Some("objects to become ready"),
            ),
        ] {
            let on = OnCluster {
                deployment,
                is_silent,
                ..of(&report)
            };
            let found = cause(on, &Rollout::default(), is_suspended).map(|(cause, _)| cause);
            let is_expected = match (&found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_expected, "{report:?}: {found:?}");
        }
    }

    #[test]
    fn clusters_that_wait_for_the_same_are_one_group_and_groups_are_limited() {
        let reports: Vec<_> = (0..500)
            .map(|number| match number {
                0..100 => report(
                    "ErrApplied",
                    &format!("dependent bundle(s) are not ready: [{number}]"),
                ),
                _ => report("OutOfSync", ""),
            })
            .collect();
        let waits = waits(reports.iter().map(of), &Rollout::default(), false);
        assert_eq!(waits.len(), MAX_GROUPS);
        assert_eq!((waits[0].count, waits[0].clusters.len()), (400, MAX_NAMES));
    }
}

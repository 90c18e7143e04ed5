//! The list of clusters.

use std::time::Duration;

use helmops_api::{Cluster, Condition, Decoded};
use helmops_core::{agents::AGENT_TIMEOUT, status::is_silent};
use helmops_model::reason::Reason;
use jiff::Timestamp;
use serde::Serialize;

use super::parts::{Part, Tone, parts};
use crate::{
    cluster::duration::duration,
    clusters::list::{ClusterRow, INVALID},
    ui::tables::Contents,
};

/// What the page shows.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClustersView {
    /// Whether all clusters are known.
    pub is_known: bool,
    /// What is missing, and why.
    pub notes: Vec<String>,
    /// The clusters, by namespace and name.
    pub clusters: Vec<ClusterView>,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// As in `kubectl helmop cluster list`.
    #[serde(flatten)]
    pub row: ClusterRow,
    /// `Ready`, the reason why it is not, `AgentSilent`, `NeverSeen`, `Paused`, `OutOfSchedule` or `Invalid`.
    pub state: String,
    /// How good its state is.
    pub tone: Tone,
    /// Its deployments by state.
    pub parts: Vec<Part>,
}

impl ClustersView {
    /// The view at a time.
    pub fn of(clusters: &Contents<Cluster>, now: Timestamp) -> Self {
        Self {
            is_known: clusters.is_known,
            notes: clusters.note.iter().cloned().collect(),
            clusters: clusters
                .objects()
                .map(|cluster| ClusterView::of(cluster, now))
                .collect(),
        }
    }
}

/// The row of a cluster. Its agent is silent too if the controller says so, which may have another limit.
pub fn row(cluster: &Cluster, now: Timestamp) -> ClusterRow {
    // A constant that is tested to be a duration.
    let limit = duration(AGENT_TIMEOUT).unwrap_or_default();
    let row = ClusterRow::of(cluster, limit, now);
    ClusterRow {
        is_silent: row.is_silent || is_silent(&cluster.status),
        ..row
    }
}

impl ClusterView {
    fn of(cluster: &Decoded<Cluster>, now: Timestamp) -> Self {
        match cluster {
            Decoded::Valid(cluster) => Self::valid(cluster, now),
            Decoded::Invalid { .. } => Self {
                // No agent is silent that is not known.
                row: ClusterRow::of_listed(cluster, Duration::MAX, now),
                state: INVALID.to_owned(),
                tone: Tone::Bad,
                parts: Vec::new(),
            },
        }
    }

    fn valid(cluster: &Cluster, now: Timestamp) -> Self {
        let (row, status) = (row(cluster, now), &cluster.status);
        let is_ready = Condition::is_true(&status.conditions, "Ready");
        let (state, tone) = if row.is_silent {
            (Reason::AgentSilent.as_str(), Tone::Bad)
        } else if cluster.spec.paused {
            ("Paused", Tone::Off)
        } else if status.is_out_of_schedule() {
            ("OutOfSchedule", Tone::Off)
        } else if is_ready {
            ("Ready", Tone::Good)
        } else if !row.is_joined() {
            ("NeverSeen", Tone::Pending)
        } else if row.status.is_empty() {
            ("NotReady", Tone::Pending)
        } else {
            (&*row.status, Tone::Pending)
        };
        Self {
            state: state.to_owned(),
            tone,
            parts: parts(status.summary.as_ref()),
            row,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::state::fixture::{NOW, now};

    fn view(spec: &Value, status: &Value) -> ClusterView {
        let object = json!({ "metadata": { "namespace": "edge", "name": "c1", "labels": { "env": "prod" } }, "spec": spec, "status": status });
        let cluster: Decoded<Cluster> = serde_json::from_value(object).unwrap();
        ClusterView::of(&cluster, now())
    }

    #[test]
    fn the_state_of_a_cluster_is_the_first_thing_to_know() {
        let ready = |status: &str, reason: &str| json!([{ "type": "Ready", "status": status, "reason": reason, "message": "m" }]);
        let seen = |time: &str, conditions: &Value| json!({ "agent": { "lastSeen": time }, "conditions": conditions });
        let long_ago = "2026-03-01T11:00:00Z";
        for (spec, status, state, tone, is_silent) in [
            (
                json!({}),
                seen(NOW, &ready("True", "Ready")),
                "Ready",
                Tone::Good,
                false,
            ),
            (
                json!({}),
                seen(NOW, &ready("False", "NotReady")),
                "NotReady",
                Tone::Pending,
                false,
            ),
            (
                json!({}),
                seen(long_ago, &ready("True", "Ready")),
                "AgentSilent",
                Tone::Bad,
                true,
            ),
            // The controller has a shorter limit.
            (
                json!({}),
                seen(NOW, &ready("Unknown", "AgentSilent")),
                "AgentSilent",
                Tone::Bad,
                true,
            ),
            (json!({}), json!({}), "NeverSeen", Tone::Pending, false),
            (
                json!({ "paused": true }),
                seen(NOW, &ready("True", "Ready")),
                "Paused",
                Tone::Off,
                false,
            ),
            (
                json!({}),
                json!({ "scheduled": true, "agent": { "lastSeen": NOW } }),
                "OutOfSchedule",
                Tone::Off,
                false,
            ),
        ] {
            let view = view(&spec, &status);
            assert_eq!(
                (&*view.state, view.tone, view.row.is_silent),
                (state, tone, is_silent),
                "{spec} {status}"
            );
        }
    }

    #[test]
    fn a_cluster_that_does_not_decode_is_shown_with_the_error() {
        let object = json!({ "metadata": { "namespace": "edge", "name": "c1" }, "status": { "readyHelmOps": "many" } });
        let cluster: Decoded<Cluster> = serde_json::from_value(object).unwrap();
        let view = ClusterView::of(&cluster, now());
        assert_eq!((&*view.row.name, &*view.state), ("c1", "Invalid"));
        assert!(view.row.message.contains("readyHelmOps"), "{}", view.row.message);
    }
}

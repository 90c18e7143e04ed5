//! The list of clusters.

use std::time::Duration;

use helmops_api::{Cluster, Decoded};
use helmops_core::{
    agents::{Contact, Patience},
    reason::Reason,
    status::{is_silent, last_seen},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::parts::{Part, Tone, parts};
use crate::ui::tables::Contents;

/// `--agent-timeout` of the controller, by default.
const AGENT_TIMEOUT: Duration = Duration::from_mins(45);

/// What the page shows.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClustersView {
    /// Whether all clusters are known.
    pub is_known: bool,
    /// What is missing, and why.
    pub notes: Vec<String>,
    /// The clusters, by namespace and name.
    pub clusters: Vec<ClusterRow>,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// Its namespace: the workspace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels, as `key=value`.
    pub labels: Vec<String>,
    /// `Ready`, the reason why it is not, `AgentSilent`, `Paused` or `OutOfSchedule`.
    pub state: String,
    /// How good its state is.
    pub tone: Tone,
    /// Why it is not ready.
    pub message: String,
    /// When its agent last reported; empty if it never has.
    pub last_seen: String,
    /// Whether its agent has not reported for too long.
    pub is_silent: bool,
    /// HelmOps that are ready on it.
    pub ready_helmops: i64,
    /// HelmOps that target it.
    pub desired_helmops: i64,
    /// Its deployments by state.
    pub parts: Vec<Part>,
    /// When it was created.
    pub created: String,
}

impl ClustersView {
    /// The view at a time.
    pub fn of(clusters: &Contents<Cluster>, now: Timestamp) -> Self {
        Self {
            is_known: clusters.is_known,
            notes: clusters.note.iter().cloned().collect(),
            clusters: clusters
                .objects()
                .map(|cluster| ClusterRow::of(cluster, now))
                .collect(),
        }
    }
}

/// Whether the agent of a cluster has not reported for too long. This process only reads: reports could arrive at any time.
pub fn silent(cluster: &Cluster, now: Timestamp) -> bool {
    let patience = Patience {
        limit: AGENT_TIMEOUT,
        since: Timestamp::MIN,
    };
    let status = &cluster.status;
    let was_silent = is_silent(status);
    // The controller may have another limit.
    was_silent
        || matches!(
            Contact::of(last_seen(status), was_silent, patience, now),
            Contact::Silent(_)
        )
}

impl ClusterRow {
    fn of(cluster: &Decoded<Cluster>, now: Timestamp) -> Self {
        let created = cluster.creation_timestamp().map(|time| time.0.to_string());
        let row = Self {
            namespace: cluster.namespace().unwrap_or_default(),
            name: cluster.name_any(),
            labels: cluster
                .labels()
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
            state: "Invalid".to_owned(),
            tone: Tone::Bad,
            message: String::new(),
            last_seen: String::new(),
            is_silent: false,
            ready_helmops: 0,
            desired_helmops: 0,
            parts: Vec::new(),
            created: created.unwrap_or_default(),
        };
        match cluster {
            Decoded::Valid(cluster) => row.with_status(cluster, now),
            Decoded::Invalid { error, .. } => Self {
                message: error.clone(),
                ..row
            },
        }
    }

    fn with_status(self, cluster: &Cluster, now: Timestamp) -> Self {
        let status = &cluster.status;
        let is_silent = silent(cluster, now);
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.r#type == "Ready");
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        let reason = ready.map(|ready| &*ready.reason).unwrap_or_default();
        let (state, tone) = if is_silent {
            (Reason::AgentSilent.as_str(), Tone::Bad)
        } else if cluster.spec.paused {
            ("Paused", Tone::Off)
        } else if status.is_out_of_schedule() {
            ("OutOfSchedule", Tone::Off)
        } else if is_ready {
            ("Ready", Tone::Good)
        } else if last_seen(status).is_empty() {
            ("NeverSeen", Tone::Pending)
        } else {
            (if reason.is_empty() { "NotReady" } else { reason }, Tone::Pending)
        };
        Self {
            state: state.to_owned(),
            tone,
            message: ready
                .filter(|_| !is_ready)
                .map(|ready| ready.message.clone())
                .unwrap_or_default(),
            last_seen: last_seen(status).to_owned(),
            is_silent,
            ready_helmops: status.ready_helm_ops.unwrap_or_default(),
            desired_helmops: status.desired_ready_helm_ops.unwrap_or_default(),
            parts: parts(status.summary.as_ref()),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::state::fixture::{NOW, now};

    fn row(spec: &Value, status: &Value) -> ClusterRow {
        let object = json!({ "metadata": { "namespace": "edge", "name": "c1", "labels": { "env": "prod" } }, "spec": spec, "status": status });
        let cluster: Decoded<Cluster> = serde_json::from_value(object).unwrap();
        ClusterRow::of(&cluster, now())
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
            let row = row(&spec, &status);
            assert_eq!(
                (&*row.state, row.tone, row.is_silent),
                (state, tone, is_silent),
                "{spec} {status}"
            );
        }
    }

    #[test]
    fn a_cluster_that_does_not_decode_is_shown_with_the_error() {
        let object = json!({ "metadata": { "namespace": "edge", "name": "c1" }, "status": { "readyHelmOps": "many" } });
        let cluster: Decoded<Cluster> = serde_json::from_value(object).unwrap();
        let row = ClusterRow::of(&cluster, now());
        assert_eq!((&*row.name, &*row.state), ("c1", "Invalid"));
        assert!(row.message.contains("readyHelmOps"), "{}", row.message);
    }
}

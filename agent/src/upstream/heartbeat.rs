//! The heartbeat: when this cluster was seen last.

use std::time::Duration;

use helmops_api::{Cluster, NamespacedName, timestamp::timestamp};
use helmops_kube::lease::Leadership;
use helmops_process::{FailureLog, build_info::VERSION, exit::with_causes};
use helmops_runtime::client::{ApiError, bounded};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// The first heartbeat after a start.
const FIRST: Duration = Duration::from_secs(5);
/// After a heartbeat that was rejected.
const RETRY: Duration = Duration::from_secs(30);
/// After a heartbeat without a response: after the return of the API server, its users want to see that the cluster is there.
const RETRY_AFTER_OUTAGE: Duration = Duration::from_secs(5);

/// Writes `status.agent` of the Cluster at an interval while this replica is the leader, until `stop`. The agent reads nothing of the
/// Cluster.
pub async fn run(
    upstream: Client,
    cluster: NamespacedName,
    agent_namespace: String,
    leadership: Leadership,
    interval: Duration,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let api = Api::<Cluster>::namespaced(upstream, &cluster.namespace);
    let mut failures = FailureLog::default();
    let mut wait = FIRST;
    while stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        // Only the leader may write. After the end of the election, only `stop` is to come.
        match stop.run_until_cancelled(leadership.wait_until_held()).await {
            Some(Ok(())) => {}
            Some(Err(_)) => return stop.cancelled().await,
            None => return,
        }
        let patch = Patch::Merge(beat(&agent_namespace, Timestamp::now()));
        let written = bounded(api.patch_status(&cluster.name, &PatchParams::default(), &patch)).await;
        wait = match &written {
            Ok(_) => interval,
            Err(error) if error.is_outage() => RETRY_AFTER_OUTAGE,
            Err(_) => RETRY,
        };
        match &written {
            Ok(_) => {
                metrics.heartbeat();
                if let Some(lasted) = failures.succeeded() {
                    tracing::info!(seconds = lasted.as_secs(), %cluster, "the heartbeat is written again");
                }
            }
            // Another replica has become the leader meanwhile.
            Err(ApiError::NotLeading(_)) => {}
            Err(error) => {
                let is_outage = error.is_outage();
                let error = with_causes(error);
                if failures.failed(if is_outage { "outage" } else { &error }) {
                    tracing::warn!(error, %cluster, "the heartbeat cannot be written; retrying");
                }
            }
        }
    }
}

/// What the agent writes: a merge patch of its own fields, so that no read is needed, and fields of a newer version stay. It needs no version,
/// because nothing else writes these fields. Fleet's CRD lacks `version`; the API server drops it then.
fn beat(agent_namespace: &str, now: Timestamp) -> Value {
    let agent = json!({ "lastSeen": timestamp(now), "namespace": agent_namespace, "version": VERSION });
    json!({ "status": { "agent": agent } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_changes_its_own_fields_only() {
        let now = Timestamp::from_second(1).unwrap();
        for status in [
            json!(null),
            json!({ "namespace": "cluster-a", "agent": { "lastSeen": "never", "newer": 1 } }),
        ] {
            let mut cluster = json!({ "metadata": {}, "status": status });
            json_patch::merge(&mut cluster, &beat("cattle-fleet-system", now));
            let after = &cluster["status"];
            assert_eq!(after["agent"]["lastSeen"], "1970-01-01T00:00:01Z");
            assert_eq!(after["agent"]["namespace"], "cattle-fleet-system");
            assert_eq!(after["agent"]["version"], VERSION);
            assert_eq!(after["agent"].get("newer"), status["agent"].get("newer"));
            assert_eq!(after.get("namespace"), status.get("namespace"));
        }
    }
}

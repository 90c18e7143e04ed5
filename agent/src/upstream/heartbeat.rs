//! The heartbeat: when this cluster was seen last.

use std::time::Duration;

use helmops_api::{Cluster, NamespacedName, timestamp::timestamp};
use helmops_kube::lease::Leadership;
use helmops_process::{OnChange, build_info::VERSION, exit::with_causes};
use helmops_runtime::client::{ApiError, bounded};
use json_patch::{AddOperation, Patch as JsonPatch, PatchOperation, jsonptr::PointerBuf};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// The first heartbeat after a start.
const FIRST: Duration = Duration::from_secs(5);
/// After a heartbeat that failed.
const RETRY: Duration = Duration::from_secs(30);

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
    let mut logged = OnChange::default();
    let mut wait = FIRST;
    while stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        // Only the leader may write. After the end of the election, only `stop` is to come.
        match stop.run_until_cancelled(leadership.wait_until_held()).await {
            Some(Ok(())) => {}
            Some(Err(_)) => return stop.cancelled().await,
            None => return,
        }
        let patch = Patch::Json::<()>(beat(&agent_namespace, Timestamp::now()));
        let written = bounded(api.patch_status(&cluster.name, &PatchParams::default(), &patch)).await;
        let error = match &written {
            Ok(_) => {
                metrics.heartbeat();
                None
            }
            // Another replica has become the leader meanwhile.
            Err(ApiError::NotLeading(_)) => None,
            Err(error) => Some(with_causes(error)),
        };
        wait = if written.is_ok() { interval } else { RETRY };
        if logged.record(error.clone())
            && let Some(error) = error
        {
            tracing::warn!(error, %cluster, "the heartbeat cannot be written; retrying");
        }
    }
}

/// As Fleet's agent writes it: the whole object, so that no read is needed. Fleet's CRD lacks the version; the API server drops it
/// then.
fn beat(agent_namespace: &str, now: Timestamp) -> JsonPatch {
    let value = json!({ "lastSeen": timestamp(now), "namespace": agent_namespace, "version": VERSION });
    let path = PointerBuf::from_tokens(["status", "agent"]);
    JsonPatch(vec![PatchOperation::Add(AddOperation { path, value })])
}

//! Writes the status.

use std::time::Duration;

use helmops_api::BundleDeployment;
use helmops_release::report::{self, DeployOutcome, Inputs, Observation, Progress};
use helmops_runtime::{pending_writes::PendingWrites, writes::FieldManager};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use crate::{
    context::Key,
    error::{AgentError, until},
    monitor::FIELD_MANAGER,
};

/// The field manager of the status: that of Fleet's agent.
const MANAGER: FieldManager = FieldManager(FIELD_MANAGER);

/// Writes the status, if it changes. The BundleDeployment is not reconciled again before the cache shows what was written.
///
/// # Errors
/// If the API server does not accept it.
pub async fn write(
    upstream: &Client,
    pending_writes: &PendingWrites<Key>,
    deployment: &BundleDeployment,
    outcome: &DeployOutcome,
    observation: &Observation,
    progress: &Progress<'_>,
) -> Result<(), AgentError> {
    let is_copied = matches!(outcome, DeployOutcome::Deployed { .. });
    let inputs = Inputs {
        previous: &deployment.status,
        spec: &deployment.spec,
        outcome,
        is_copied,
        observation,
        progress,
    };
    let status = report::next(inputs, Timestamp::now());
    MANAGER
        .write_status(upstream, pending_writes, deployment, &deployment.status, &status)
        .await?;
    Ok(())
}

/// When the health of an object changes by itself, as time passes.
pub fn recheck(observation: &Observation) -> Option<Duration> {
    let Observation::Objects(release) = observation else {
        return None;
    };
    let times = release.objects.iter().filter_map(|object| object.health.recheck);
    Some(until(times.min()?))
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use helmops_process::lock;
    use helmops_release::gate::Held;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// Responds with version 2 of BundleDeployment `web`, and keeps the patches.
    fn server(patches: &Arc<Mutex<Vec<Value>>>) -> Client {
        let patches = Arc::clone(patches);
        let service = service_fn(move |request: Request<Body>| {
            let patches = Arc::clone(&patches);
            async move {
                let patch = request.into_body().collect_bytes().await.unwrap();
                lock(&patches).push(serde_json::from_slice(&patch).unwrap());
                let written = deployment("2").to_string();
                Ok::<_, Infallible>(Response::new(Body::from(written.into_bytes())))
            }
        });
        helmops_kube::client_of(service, "cluster-a")
    }

    fn deployment(version: &str) -> Value {
        let metadata = json!({ "namespace": "cluster-a", "name": "web", "resourceVersion": version });
        json!({ "metadata": metadata, "spec": {}, "status": { "ready": true } })
    }

    /// Otherwise a status that changes back before the watch delivers it would stay.
    #[tokio::test]
    async fn a_status_is_based_on_a_version_and_pending_until_the_watch_delivers_it() {
        let (patches, pending_writes) = (Arc::default(), PendingWrites::default());
        let deployment = serde_json::from_value(deployment("1")).unwrap();
        let outcome = DeployOutcome::Held(Held::Suspended);
        let (observation, progress) = (Observation::None, Progress::default());
        let upstream = server(&patches);
        write(
            &upstream,
            &pending_writes,
            &deployment,
            &outcome,
            &observation,
            &progress,
        )
        .await
        .unwrap();
        let patches = lock(&patches);
        assert_eq!(patches.len(), 1);
        assert_eq!(
            patches[0]["metadata"],
            json!({ "resourceVersion": "1" }),
            "{}",
            patches[0]
        );
        assert!(pending_writes.is_stale(&Key::new("web").within("cluster-a"), &deployment.metadata));
    }
}

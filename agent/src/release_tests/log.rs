//! The end of the log of a failed test.

use helmops_kube::path_segment;
use helmops_release::{
    health::{Evidence, PodCause, Severity, pod_cause},
    record::FailedTest,
};
use helmops_runtime::client::{ApiError, bounded};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::pods::log;

/// Pods of a Job that are looked at.
const MAX_PODS: u32 = 50;

/// The end of the log of the pod of a test: of the test itself, or the newest failed pod of a Job. If it has none, why the pod did not
/// start. `None` if there is nothing, or it cannot be read.
pub async fn excerpt(client: &Client, test: &FailedTest) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &path_segment(&test.namespace));
    let read = read(&pods, test).await;
    read.inspect_err(|error| {
        tracing::info!(namespace = test.namespace, name = test.name, %error, "cannot read the log of a failed test");
    })
    .ok()?
}

async fn read(pods: &Api<Pod>, test: &FailedTest) -> Result<Option<String>, ApiError> {
    let pod = match &*test.kind {
        "Pod" => bounded(pods.get_opt(&path_segment(&test.name))).await?,
        "Job" => {
            let of_job = ListParams::default()
                .labels(&format!("job-name={}", test.name))
                .limit(MAX_PODS);
            newest(bounded(pods.list(&of_job)).await?.items)
        }
        _ => None,
    };
    let Some(pod) = pod else {
        return Ok(None);
    };
    let cause = serde_json::to_value(&pod)
        .ok()
        .as_ref()
        .and_then(|pod| pod_cause(pod, Timestamp::now()));
    let failed = cause.as_ref().and_then(|cause| match &cause.evidence {
        Evidence::Log { container, .. } => Some(&**container),
        Evidence::Status | Evidence::Events(_) => None,
    });
    let container = failed.or_else(|| first_container(&pod));
    let log = log::read(pods, &pod.name_any(), container, false).await;
    let shown = log
        .as_ref()
        .map(|log| log::end(log, log::LONG))
        .unwrap_or_default();
    if !shown.is_empty() {
        return Ok(Some(shown));
    }
    match cause {
        Some(PodCause {
            text,
            detail,
            severity,
            ..
        }) if severity > Severity::Starting => {
            let detail = detail
                .map(|detail| format!(": {}", detail.text))
                .unwrap_or_default();
            Ok(Some(text + &detail))
        }
        _ => log.map(|_| None),
    }
}

fn first_container(pod: &Pod) -> Option<&str> {
    let mut containers = pod.spec.as_ref()?.containers.iter();
    containers.next().map(|container| &*container.name)
}

/// The newest pod that failed, or the newest one.
fn newest(pods: Vec<Pod>) -> Option<Pod> {
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    pods.into_iter().max_by_key(|pod| {
        let is_failed = phase(pod).as_deref() == Some("Failed");
        (is_failed, pod.metadata.creation_timestamp.clone())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, created: &str, phase: &str, containers: &Value) -> Pod {
        let pod = json!({
            "metadata": { "name": name, "creationTimestamp": created },
            "status": { "phase": phase, "containerStatuses": containers },
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn the_newest_failed_pod_of_a_job_is_shown() {
        let pods = |phases: &[&str]| {
            (1_i32..)
                .zip(phases)
                .map(|(day, phase)| {
                    pod(
                        &format!("p{day}"),
                        &format!("2026-01-0{day}T00:00:00Z"),
                        phase,
                        &json!([]),
                    )
                })
                .collect::<Vec<_>>()
        };
        for (phases, expected) in [
            (&["Failed", "Failed", "Running"][..], Some("p2")),
            (&["Running", "Pending"], Some("p2")),
            (&[], None),
        ] {
            let found = newest(pods(phases)).map(|pod| pod.name_any());
            assert_eq!(found.as_deref(), expected, "{phases:?}");
        }
    }
}

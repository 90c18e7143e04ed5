//! The end of the log of a failed test.
//!
//! It goes into messages and events, which more people can read than logs, and a log can contain everything. So it is short.

use bounded_text::printable;
use helmops_core::chart::url::redacted_urls;
use helmops_kube::path_segment;
use helmops_release::record::FailedTest;
use helmops_runtime::client::{ApiError, bounded};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, LogParams},
};

/// Lines of a log that are shown.
const MAX_LINES: usize = 20;
/// Bytes of a log that are shown.
const MAX_BYTES: usize = 2 << 10;
/// Bytes of these lines that are read. The API server counts them from the first of the lines.
const MAX_READ: i64 = 64 << 10;
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
    let container = container(&pod);
    let params = LogParams {
        container: container.map(|container| container.name.clone()),
        tail_lines: i64::try_from(MAX_LINES).ok(),
        limit_bytes: Some(MAX_READ),
        ..LogParams::default()
    };
    let log = bounded(pods.logs(&pod.name_any(), &params)).await;
    let shown = log.as_ref().map(|log| end(log)).unwrap_or_default();
    if !shown.is_empty() {
        return Ok(Some(shown));
    }
    match container.and_then(reason) {
        Some(reason) => Ok(Some(end(&reason))),
        None => log.map(|_| None),
    }
}

/// The newest pod that failed, or the newest one.
fn newest(pods: Vec<Pod>) -> Option<Pod> {
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    pods.into_iter().max_by_key(|pod| {
        let is_failed = phase(pod).as_deref() == Some("Failed");
        (is_failed, pod.metadata.creation_timestamp.clone())
    })
}

/// The container that failed, or does not start; otherwise the first one.
fn container(pod: &Pod) -> Option<&ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = || {
        let statuses = [&status.init_container_statuses, &status.container_statuses];
        statuses.into_iter().flatten().flatten()
    };
    let failed = all().find(|container| {
        let state = container.state.as_ref();
        state
            .and_then(|state| state.terminated.as_ref())
            .is_some_and(|ended| ended.exit_code != 0)
    });
    let waiting = || {
        all().find(|container| {
            container
                .state
                .as_ref()
                .is_some_and(|state| state.waiting.is_some())
        })
    };
    failed
        .or_else(waiting)
        .or_else(|| status.container_statuses.iter().flatten().next())
}

/// Why a container does not run.
fn reason(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let (reason, message) = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => (&waiting.reason, &waiting.message),
        (None, Some(ended)) => (&ended.reason, &ended.message),
        (None, None) => return None,
    };
    let texts: Vec<_> = [reason, message]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .map(String::as_str)
        .collect();
    (!texts.is_empty()).then(|| format!("container {}: {}", container.name, texts.join(": ")))
}

/// The end of a text, without control characters and credentials of URLs.
fn end(text: &str) -> String {
    let printable = printable(text);
    let printable = redacted_urls(&printable);
    let lines: Vec<_> = printable.trim_end().lines().map(str::trim_end).collect();
    let lines = lines
        .get(lines.len().saturating_sub(MAX_LINES)..)
        .unwrap_or_default();
    let shown = lines.join("\n");
    let start = shown.ceil_char_boundary(shown.len().saturating_sub(MAX_BYTES));
    shown
        .get(start..)
        .unwrap_or_default()
        .trim_start_matches('\n')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_log_is_cut_from_its_start() {
        let lines: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
        let shown = end(&lines.join("\n"));
        assert_eq!(shown.lines().count(), MAX_LINES);
        assert!(
            shown.starts_with("line 80\n") && shown.ends_with("line 99"),
            "{shown}"
        );
        let shown = end(&format!("start{}end", "é".repeat(MAX_BYTES)));
        assert!(shown.len() <= MAX_BYTES && shown.ends_with("éend"), "{shown}");
    }

    #[test]
    fn a_log_has_no_control_characters() {
        let table = [
            ("\u{1b}[31mred\u{1b}[0m\ttab\r\n\u{7}bell\u{0}", "red\ttab\nbell"),
            ("\n\n  indented\n\n", "  indented"),
            ("", ""),
        ];
        for (log, expected) in table {
            assert_eq!(end(log), expected, "{log:?}");
        }
    }

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

    #[test]
    fn the_container_that_failed_is_shown() {
        let status = |name: &str, state: Value| json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        let ended = |code: i32| json!({ "terminated": { "exitCode": code, "reason": "Error" } });
        let waiting = json!({ "waiting": { "reason": "ErrImagePull", "message": "no such image" } });
        let table = [
            (
                json!([status("a", ended(0)), status("b", ended(2))]),
                Some("b"),
                Some("container b: Error"),
            ),
            (
                json!([status("a", ended(0)), status("b", waiting)]),
                Some("b"),
                Some("container b: ErrImagePull: no such image"),
            ),
            (json!([status("a", json!({ "running": {} }))]), Some("a"), None),
            (json!([]), None, None),
        ];
        for (statuses, expected, why) in table {
            let pod = pod("p", "2026-01-01T00:00:00Z", "Failed", &statuses);
            let found = container(&pod);
            assert_eq!(found.map(|container| &*container.name), expected, "{statuses}");
            assert_eq!(found.and_then(reason).as_deref(), why, "{statuses}");
        }
    }
}

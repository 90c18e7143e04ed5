//! The metrics of the leader, through the API server's proxy: how long the queue is, and when a reconciliation last succeeded.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::timeout;

use super::finding::{Finding, Group};
use crate::{cluster::api_error, terminal::age};

/// The port of the metrics, as the manifests name it.
const PORT: u16 = 8081;
/// An API server that cannot reach a pod waits for longer than a person does.
const PATIENCE: Duration = Duration::from_secs(5);
/// More are a sign that the controller does not keep up.
const MANY: f64 = 1000.0;

/// Reads the metrics of a pod.
pub async fn check(client: &Client, namespace: &str, pod: &str, now: Timestamp) -> Finding {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{PORT}/proxy/metrics");
    let Ok(request) = http::Request::get(path).body(Vec::new()) else {
        return Finding::skipped(Group::Metrics, format!("{pod} is no name of a pod"));
    };
    let unreachable = |why: &str| {
        let text = format!("those of pod {pod} are not reachable through the API server: {why}");
        Finding::skipped(Group::Metrics, text)
    };
    match timeout(PATIENCE, client.request_text(request)).await {
        Ok(Ok(text)) => judge(pod, &text, now),
        Ok(Err(error)) => unreachable(&api_error::text(&error)),
        Err(_) => unreachable("no response in time"),
    }
}

fn judge(pod: &str, text: &str, now: Timestamp) -> Finding {
    let Some(depth) = sample(text, "helmops_workqueue_depth") else {
        return Finding::skipped(
            Group::Metrics,
            format!("pod {pod} has no metric helmops_workqueue_depth"),
        );
    };
    let last = sample(text, "helmops_last_success_timestamp_seconds").unwrap_or_default();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "seconds since 1970, and a part of a second is of no interest"
    )]
    let last = Timestamp::from_second(last as i64)
        .ok()
        .filter(|last| last.as_second() > 0);
    let success = match last {
        Some(last) => format!("the last reconciliation succeeded {} ago", age::age(last, now)),
        None => "no reconciliation has succeeded yet".to_owned(),
    };
    let message = format!("{depth} objects in the workqueue of pod {pod}, {success}");
    if depth >= MANY {
        Finding::warning(
            Group::Metrics,
            message,
            "docs/sizing.md says what slows the controller down",
        )
    } else {
        Finding::ok(Group::Metrics, message)
    }
}

/// The value of a metric without labels, in the text format of Prometheus.
fn sample(text: &str, name: &str) -> Option<f64> {
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    values.next()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Level;

    #[test]
    fn the_queue_and_the_last_success_are_reported() {
        let text = |depth: u32, last: &str| {
            format!(
                "# HELP helmops_workqueue_depth a\nhelmops_workqueue_depth_other 7\nhelmops_workqueue_depth {depth}\nhelmops_last_success_timestamp_seconds {last}\n"
            )
        };
        let now = Timestamp::from_second(1_700_000_120).unwrap();
        for (text, level, expected) in [
            (
                text(3, "1700000000"),
                Level::Ok,
                "3 objects in the workqueue of pod a, the last reconciliation succeeded 2m ago",
            ),
            (text(0, "0"), Level::Ok, "no reconciliation has succeeded yet"),
            (text(5000, "1.7e9"), Level::Warning, "5000 objects"),
            ("up 1\n".to_owned(), Level::Skipped, "no metric"),
        ] {
            let finding = judge("a", &text, now);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(expected), "{finding:?}");
        }
    }
}

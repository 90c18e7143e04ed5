//! The metrics of the processes: checked with `promtool check metrics`, and queried by every panel of the dashboard.

use std::collections::BTreeMap;

use anyhow::ensure;
use helmops_bed::helmops::manifests;
use helmops_bed::probe;
use helmops_bed::prometheus::{Prometheus, promtool};
use helmops_bed::wait::eventually;
use serde_json::Value;

use super::monitored::Monitored;
use crate::harness::SOON;

/// What the dashboard has of the notifier and the receiver.
const NOTIFICATIONS: [&str; 6] = [
    "helmops_alert_messages_total",
    "helmops_alert_undelivered",
    "helmops_receiver_requests_total",
    "helmops_receiver_request_duration_seconds_bucket",
    "helmops_notifier_pushes_total",
    "helmops_notifier_requested_polls_total",
];

#[tokio::test]
async fn metrics_pass_promtool_and_every_dashboard_panel_has_data() {
    let monitored = Monitored::start().await.unwrap();
    let client = probe::client(None).unwrap();
    for process in [
        &monitored.controller,
        &monitored.webhook.running,
        &monitored.agent,
        &monitored.notifier,
        &monitored.receiver.running,
    ] {
        let url = format!("{}/metrics", process.admin);
        let text = probe::get(&client, &url).await.unwrap();
        assert_eq!(check(&monitored, &text).await, "", "of {text}");
    }
    let invalid = "# TYPE requests counter\nrequests 1\n";
    assert!(
        check(&monitored, invalid).await.contains("requests"),
        "promtool checks"
    );
    every_panel_has_data(&monitored).await;
}

/// The output of promtool for metrics.
async fn check(monitored: &Monitored, text: &str) -> String {
    let folder = std::env::temp_dir();
    let checked = promtool(&monitored.monitoring, &folder, &["check", "metrics"], text).await;
    checked.unwrap().1
}

async fn every_panel_has_data(monitored: &Monitored) {
    let address = |admin: &str| admin.trim_start_matches("http://").to_owned();
    let targets = BTreeMap::from([
        ("helmops-controller", address(&monitored.controller.admin)),
        ("helmops-webhook", address(&monitored.webhook.running.admin)),
        ("helmops-agent", address(&monitored.agent.admin)),
        ("helmops-notifier", address(&monitored.notifier.admin)),
        ("helmops-receiver", address(&monitored.receiver.running.admin)),
    ]);
    let prometheus = Prometheus::start(&monitored.bed, &monitored.monitoring, &targets)
        .await
        .unwrap();
    let queries = queries();
    assert!(queries.len() > 15, "{queries:?}");
    for metric in NOTIFICATIONS {
        assert!(
            queries.iter().any(|query| query.contains(metric)),
            "no panel has {metric}"
        );
    }
    for query in queries {
        eventually(&query, SOON, async || {
            // A rate needs more than one scrape, and events between them.
            monitored.produce_events().await?;
            ensure!(!prometheus.query(&query).await?.is_empty(), "the result is empty");
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// The queries of the dashboard, with the variables that Grafana substitutes.
fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(manifests().join("monitoring/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "5m"))
        .collect()
}

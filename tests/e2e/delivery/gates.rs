//! Gates of partitions.

use std::time::Instant;

use anyhow::{Context, ensure};
use axum::http::StatusCode;
use helmops_bed::chart_server::{ChartServer, FixedResponse};
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::condition;
use crate::harness::standalone::{Fixture, Repository};

/// The shortest interval of an endpoint, in seconds.
const INTERVAL: u64 = 10;

async fn until_waits_for(fixture: &Fixture, what: &str) -> Value {
    let bundle = fixture
        .until("bundle/web", |bundle| {
            let rollout = &bundle["status"]["rollout"];
            ensure!(rollout["waitsFor"] == what, "it is {rollout}");
            Ok(())
        })
        .await;
    bundle["status"]["rollout"].clone()
}

/// The agent of the first cluster reports whether objects were changed on it.
async fn report_modified(fixture: &Fixture, is_modified: bool) {
    fixture
        .agent_reports(0, "web", &json!({ "nonModified": !is_modified }))
        .await;
}

#[tokio::test]
async fn a_partition_begins_after_a_soak_then_its_gate_and_then_an_approval() {
    let fixture = Fixture::new("gate", 2).await;
    let repository = Repository::new(&fixture).await;
    let gate = json!({ "expression": "previous.all(p, p.modified == 0) && version.startsWith('1.')" });
    let partitions = json!([
        { "name": "first", "clusterName": "c0", "soak": "2s" },
        { "name": "last", "clusterName": "c1", "gate": gate, "approval": "Manual" },
    ]);
    let strategy = json!({ "rolloutStrategy": { "partitions": partitions } });
    repository.helmop(&fixture, &strategy).await;
    let rollout = until_waits_for(&fixture, "Soak").await;
    assert_eq!(rollout["partition"], "last");
    let id = fixture.deployment(0, "web").await["spec"]["deploymentID"].clone();
    let deployed = json!({ "appliedDeploymentID": id, "ready": true, "nonModified": false });
    fixture.agent_reports(0, "web", &deployed).await;
    let rollout = until_waits_for(&fixture, "Gate").await;
    let bundle = fixture.until("bundle/web", |_| Ok(())).await;
    let time = |partition: usize, field: &str| -> Timestamp {
        let time = bundle["status"]["partitions"][partition][field].as_str();
        time.unwrap().parse().unwrap()
    };
    let soaked = time(1, "gateSince").duration_since(time(0, "completedAt"));
    assert!(soaked.as_secs() >= 2, "{bundle}");
    let closed = "partition \"last\" waits for its gate: previous.all(p, p.modified == 0) && version.startsWith('1.') is not true";
    assert_eq!(rollout["message"], closed);
    assert!(rollout["since"].is_null(), "{rollout}");
    fixture
        .until("helmop/web", |helmop| {
            let ready = condition(helmop, "Ready").context("no condition")?;
            let message = ready["message"].as_str().unwrap_or_default();
            ensure!(
                ready["reason"] == "Progressing" && message.contains(closed),
                "it is {ready}"
            );
            Ok(())
        })
        .await;
    let shown = fixture.plugin(&["rollout", "status", "web"]).await;
    assert!(
        shown.contains(closed) && shown.contains("waits for gate"),
        "{shown}"
    );
    let refused = fixture.plugin(&["approve", "web"]).await;
    assert!(
        refused.contains(
            "waits for its gate, which an approval does not open; to go on without it, remove `gate`"
        ),
        "{refused}"
    );

    report_modified(&fixture, false).await;
    until_waits_for(&fixture, "Approval").await;
    fixture.until_ready_is("helmop/web", "AwaitingApproval").await;
    assert_eq!(fixture.clusters_of("web").await, [0]);
    let approved = fixture.plugin(&["approve", "web"]).await;
    assert!(
        approved.contains("is approved up to partition \"last\""),
        "{approved}"
    );
    fixture.agent_deploys(1, "web").await;
    fixture.until_ready_is("helmop/web", "Ready").await;
    let passed = async || {
        let bundle = fixture.until("bundle/web", |_| Ok(())).await;
        bundle["status"]["partitions"][1]["gatePassedAt"].clone()
    };
    assert!(passed().await.is_string());

    // Another version has to pass it again, and an approval does not help.
    repository.add("2.0.0").await;
    fixture.until_version(0, "2.0.0").await;
    fixture.agent_deploys(0, "web").await;
    until_waits_for(&fixture, "Gate").await;
    assert!(passed().await.is_null());
    let approved = fixture.plugin(&["approve", "web", "--all"]).await;
    assert!(approved.contains("is approved for all partitions"), "{approved}");
    repository.until_polled_again().await;
    until_waits_for(&fixture, "Gate").await;
    assert_eq!(fixture.versions().await, ["2.0.0", "1.0.0"]);
    // Without the gate, the approval is sufficient.
    let mut without = strategy.clone();
    without["rolloutStrategy"]["partitions"][1]["gate"] = Value::Null;
    repository.helmop(&fixture, &without).await;
    fixture.until_version(1, "2.0.0").await;
}

#[tokio::test]
async fn a_gate_that_cannot_be_evaluated_is_reported_until_it_is_corrected() {
    let fixture = Fixture::new("gate", 2).await;
    let partitions = |expression: &str| {
        json!([
            { "name": "first", "clusterName": "c0" },
            { "name": "last", "clusterName": "c1", "gate": { "expression": expression } },
        ])
    };
    let of = |expression: &str| json!({ "rolloutStrategy": { "partitions": partitions(expression) } });
    fixture
        .bundle("web", &of("partition.clusters / partition.ready > 1"))
        .await;
    fixture.agent_deploys(0, "web").await;
    let message = fixture.until_ready_is("bundle/web", "GateFailed").await;
    assert!(
        message.contains("cannot be evaluated: partition.clusters / partition.ready > 1: Division by zero"),
        "{message}"
    );
    // The webhook denies such expressions; here is none.
    fixture.bundle("web", &of("partition.redy > 1")).await;
    let message = fixture.until_ready_is("bundle/web", "InvalidRollout").await;
    assert!(message.contains("unknown field \"redy\""), "{message}");
    // The time alone opens it.
    fixture.bundle("web", &of("now >= partition.since")).await;
    fixture.agent_deploys(1, "web").await;
    fixture.until_ready_is("bundle/web", "Ready").await;
}

#[tokio::test]
async fn an_endpoint_opens_a_gate() {
    let fixture = Fixture::new("gate", 2).await;
    let folder = TempDir::new().unwrap();
    let endpoint = ChartServer::https(folder.path()).await.unwrap();
    let respond = |body: &str| {
        let response = FixedResponse {
            status: StatusCode::OK,
            content_type: "application/json",
            body: body.to_owned(),
        };
        endpoint.set_response("/gate", response);
    };
    let gate = json!({ "url": format!("{}/gate", endpoint.url()), "secretName": "gate", "interval": format!("{INTERVAL}s") });
    let partitions = json!([
        { "name": "first", "clusterName": "c0" },
        { "name": "last", "clusterName": "c1", "gate": gate },
    ]);
    let of = |version: &str| json!({ "helm": { "version": version }, "rolloutStrategy": { "partitions": partitions } });
    fixture.bundle("web", &of("1.0.0")).await;
    fixture.agent_deploys(0, "web").await;
    let message = fixture.until_ready_is("bundle/web", "GateFailed").await;
    let expected = "cannot be evaluated: 127.0.0.1: Secret gate does not exist in namespace";
    assert!(message.contains(expected), "{message}");
    assert_eq!(endpoint.requests("/gate"), 0);

    fixture
        .secret("gate", &json!({ "cacerts": endpoint.ca().unwrap() }))
        .await;
    respond(r#"{"open": false, "message": "the error rate is 2%"}"#);
    let expected = "partition \"last\" waits for its gate: 127.0.0.1 responds: the error rate is 2%";
    fixture
        .until("bundle/web", |bundle| {
            let message = &bundle["status"]["rollout"]["message"];
            ensure!(message == expected, "it is {message}");
            Ok(())
        })
        .await;
    // It is requested in the interval, whatever changes meanwhile.
    let (before, start) = (endpoint.requests("/gate"), Instant::now());
    for is_modified in [true, false] {
        report_modified(&fixture, is_modified).await;
        fixture
            .until("bundle/web", |bundle| {
                let modified = bundle["status"]["summary"]["modified"]
                    .as_i64()
                    .unwrap_or_default();
                ensure!((modified == 1) == is_modified, "{modified} are modified");
                Ok(())
            })
            .await;
    }
    let due = start.elapsed().as_secs() / INTERVAL + 1;
    assert!(
        endpoint.requests("/gate") <= before + due,
        "of {due} that are due"
    );
    assert_eq!(fixture.clusters_of("web").await, [0]);

    respond(r#"{"open": true}"#);
    fixture.agent_deploys(1, "web").await;
    fixture.until_ready_is("bundle/web", "Ready").await;
}

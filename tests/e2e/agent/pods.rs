//! The cause of a workload that is not ready, on a control plane with a simulated node: in the status of its release.

use anyhow::ensure;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::TestBed;
use serde_json::{Value, json};

use crate::harness::agent::{CONFIG, Fixture, Permissions, start_bed_with};

async fn bed_with_node() -> InUse<TestBed> {
    static BED: Shared<TestBed> = Shared::new();
    BED.get(async || start_bed_with(true).await).await.unwrap()
}

/// A workload whose pods have these annotations.
fn workload(kind: &str, annotations: &Value) -> String {
    let mut spec = json!({
        "selector": { "matchLabels": { "app": "{{ .Release.Name }}" } },
        "template": {
            "metadata": { "labels": { "app": "{{ .Release.Name }}" }, "annotations": annotations },
            "spec": { "containers": [{ "name": "main", "image": "web:2" }] },
        },
    });
    let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    if kind == "DaemonSet" {
        spec["template"]["spec"]["serviceAccountName"] = json!("missing");
    }
    if kind == "Job" {
        spec.as_object_mut().unwrap().remove("selector");
        spec["template"]["spec"]["restartPolicy"] = json!("Never");
        spec["backoffLimit"] = json!(0);
    }
    json!({ "apiVersion": group, "kind": kind, "metadata": { "name": "{{ .Release.Name }}" }, "spec": spec })
        .to_string()
}

async fn fixture(prefix: &str) -> Fixture {
    let bed = bed_with_node().await;
    Fixture::on(bed, prefix, Permissions::ClusterAdmin).await.unwrap()
}

/// Waits until the status of a release has all these parts of the cause of its only object.
async fn until_cause(fixture: &Fixture, name: &str, parts: &[&str]) -> String {
    let shown = |found: &Value| found["status"]["nonReadyStatus"][0]["summary"]["message"].to_string();
    let found = fixture
        .until(name, |found| {
            let cause = shown(found);
            let missing = parts.iter().find(|part| !cause.contains(**part));
            ensure!(missing.is_none(), "{missing:?} is not in {cause}");
            Ok(())
        })
        .await;
    shown(&found)
}

#[tokio::test]
async fn a_workload_that_is_not_ready_shows_what_its_pods_show() {
    let fixture = fixture("pods-causes").await;
    let _agent = fixture.start().await;
    let log = "starting\npanic: no database at postgres://app:secret@db/app\n\u{1b}[31mgoodbye\n";
    let crash = json!({ "helmops.test/exit": "3", "helmops.test/log": log });
    for (version, kind, annotations) in [
        ("2.0.0", "Deployment", crash.clone()),
        (
            "3.0.0",
            "StatefulSet",
            json!({ "helmops.test/waiting": "ErrImagePull" }),
        ),
        ("4.0.0", "DaemonSet", json!({})),
        ("5.0.0", "Job", crash),
        ("6.0.0", "Deployment", json!({ "helmops.test/ready": "false" })),
    ] {
        let workload = workload(kind, &annotations);
        fixture.charts.web(version, &[("workload", &workload)]).await;
        let name = format!("web{}", &version[..1]);
        fixture.deploy(&name, version, &json!({})).await;
    }
    let crash = [
        ": container main crashes: exit code 3",
        "(since 2",
        "its log ends with",
        "starting | panic: no database at",
    ];
    let cause = until_cause(&fixture, "web2", &crash).await;
    assert!(
        cause.contains("goodbye") && !cause.contains("secret") && !cause.contains("u001b"),
        "{cause}"
    );
    until_cause(
        &fixture,
        "web3",
        &["-0: container main does not start: ErrImagePull: because"],
    )
    .await;
    let missing = ["it has no Pod: FailedCreate: ", "serviceaccount", "missing"];
    until_cause(&fixture, "web4", &missing).await;
    until_cause(
        &fixture,
        "web5",
        &[": container main failed: exit code 3", "goodbye"],
    )
    .await;

    // What a kubelet writes about a probe.
    until_cause(&fixture, "web6", &[": container main runs, but is not ready"]).await;
    let selector = format!("app={}", fixture.name("web6"));
    let pod = fixture
        .kubectl(&[
            "get",
            "pods",
            "-l",
            &selector,
            "-o",
            "jsonpath={.items[0].metadata.name} {.items[0].metadata.uid}",
        ])
        .await;
    let (pod, uid) = pod.split_once(' ').unwrap();
    let involved = json!({ "kind": "Pod", "namespace": fixture.apps.name(), "name": pod, "uid": uid });
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": pod, "namespace": fixture.apps.name() }, "involvedObject": involved,
        "type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed: HTTP probe failed with statuscode: 500",
    });
    fixture
        .bed
        .kubectl()
        .apply(&event.to_string())
        .await
        .unwrap()
        .ok()
        .unwrap();
    until_cause(
        &fixture,
        "web6",
        &["is not ready: Readiness probe failed: HTTP probe failed with statuscode: 500 (since "],
    )
    .await;
}

/// Also after the rollback, for those who look later.
#[tokio::test]
async fn the_history_has_the_cause_of_a_revision_that_was_rolled_back() {
    let fixture = fixture("pods-history").await;
    let _agent = fixture.start().await;
    let workload = workload(
        "Deployment",
        &json!({ "helmops.test/exit": "1", "helmops.test/log": "no database" }),
    );
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("workload", &workload)])
        .await;
    let lifecycle = json!({ "lifecycle": {
        "wait": { "timeout": "10s" }, "upgrade": { "retries": 0, "remediation": "rollback" },
    } });
    fixture.deploy("web", "1.0.0", &lifecycle).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "2.0.0", &lifecycle).await;
    fixture
        .until("web", |found| {
            let history = found["status"]["lifecycle"]["history"].to_string();
            let parts = [
                "container main crashes: exit code 1",
                "no database",
                "(after 10 s)",
            ];
            let missing = parts.iter().find(|part| !history.contains(**part));
            ensure!(missing.is_none(), "{missing:?} is not in {history}");
            let newest = &found["status"]["lifecycle"]["history"][0];
            ensure!(newest["outcome"] == "deployed", "the newest one is {newest}");
            Ok(())
        })
        .await;
}

#[tokio::test]
async fn without_logs_only_the_state_of_a_container_is_shown() {
    let fixture = fixture("pods-logs").await;
    let _agent = fixture
        .start_with("agent", &["--show-pod-logs=false"])
        .await
        .unwrap();
    let workload = workload(
        "Deployment",
        &json!({ "helmops.test/exit": "1", "helmops.test/log": "no database" }),
    );
    fixture.charts.web("2.0.0", &[("workload", &workload)]).await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    let cause = until_cause(&fixture, "web", &["container main crashes: exit code 1"]).await;
    assert!(!cause.contains("log"), "{cause}");
}

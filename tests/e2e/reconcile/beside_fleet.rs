//! Takeover of objects that Fleet's own controller wrote.

use anyhow::ensure;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::namespace::TestNamespace;
use serde_json::{Value, json};

use crate::harness::beside_fleet::{suite, until_accepted};
use crate::harness::{condition, until, until_version};

const FINALIZER: &str = "fleet.cattle.io/helmop-finalizer";

async fn fixture() -> (TestNamespace, ChartServer) {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "fleet").await.unwrap();
    let server = ChartServer::http(suite.charts.folder()).await.unwrap();
    (namespace, server)
}

async fn apply(namespace: &TestNamespace, object: &Value) -> Value {
    let kubectl = namespace.kubectl();
    kubectl.apply(&object.to_string()).await.unwrap().ok().unwrap();
    let kind = object["kind"].as_str().unwrap();
    let name = object["metadata"]["name"].as_str().unwrap();
    kubectl.get(&format!("{kind}/{name}")).await.unwrap().unwrap()
}

/// A Bundle as Fleet's controller writes it.
fn bundle(server: &ChartServer, version: &str) -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "Bundle",
        "metadata": {
            "name": "web",
            "labels": { "fleet.cattle.io/fleet-helm-name": "web" },
            "finalizers": ["fleet.cattle.io/bundle-finalizer"],
        },
        "spec": {
            "helm": { "repo": server.url(), "chart": "alpine", "version": version },
            "targets": [{ "name": "default", "clusterGroup": "default" }],
            "helmOpOptions": {},
            "targetCustomizationMode": "FirstMatch",
        },
    })
}

fn helmop(server: &ChartServer, version: &str, interval: &str) -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": { "name": "web", "finalizers": [FINALIZER] },
        "spec": {
            "helm": { "repo": server.url(), "chart": "alpine", "version": version },
            "pollingInterval": interval,
        },
    })
}

/// Removes the finalizer of Fleet's bundle controller, which would keep the test's objects forever.
async fn remove_finalizers(namespace: &TestNamespace) {
    let patch = [
        "patch",
        "bundle/web",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    namespace.kubectl().run(&patch).await.unwrap().ok().unwrap();
}

#[tokio::test]
async fn a_bundle_with_a_satisfying_version_is_adopted_unchanged() {
    let (namespace, server) = fixture().await;
    let before = apply(&namespace, &bundle(&server, "0.1.0")).await;
    apply(&namespace, &helmop(&server, "0.x", "0s")).await;
    let helmop = until_accepted(&namespace, "web").await;
    let after = until_version(&namespace, "web", "0.1.0").await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(
        after["metadata"]["generation"], before["metadata"]["generation"],
        "nothing is deployed again"
    );
    assert_eq!(after["metadata"]["finalizers"], before["metadata"]["finalizers"]);
    assert_eq!(
        after["metadata"]["ownerReferences"][0]["uid"],
        helmop["metadata"]["uid"]
    );
    assert_eq!(helmop["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(helmop["status"]["version"], "0.1.0");
    assert_eq!(server.requests("/index.yaml"), 0, "and no version is resolved");
    remove_finalizers(&namespace).await;
}

#[tokio::test]
async fn a_bundle_with_a_range_gets_a_resolved_version() {
    let (namespace, server) = fixture().await;
    apply(&namespace, &bundle(&server, "0.x")).await;
    apply(&namespace, &helmop(&server, "0.x", "12h")).await;
    until_version(&namespace, "web", "0.2.0").await;
    remove_finalizers(&namespace).await;
}

#[tokio::test]
async fn conditions_and_last_poll_time_are_adopted() {
    let (namespace, server) = fixture().await;
    apply(&namespace, &bundle(&server, "0.1.0")).await;
    // As if it were stored with its status: Fleet's conditions, and a recent poll.
    let conditions = json!([
        { "type": "Accepted", "status": "True" },
        { "type": "Polled", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z" },
        { "type": "Reconciling", "status": "False" },
        { "type": "Stalled", "status": "False" },
        { "type": "Other", "status": "True" },
    ]);
    apply(&namespace, &helmop(&server, "0.x", "0s")).await;
    until_accepted(&namespace, "web").await;
    let status = json!({ "status": { "conditions": conditions, "version": "0.1.0" } }).to_string();
    let patch = [
        "patch",
        "helmop/web",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    namespace.kubectl().run(&patch).await.unwrap().ok().unwrap();
    apply(&namespace, &helmop(&server, "0.x.x", "12h")).await;
    let helmop = until(&namespace, "helmop/web", |helmop| {
        let reason = condition(helmop, "Polled").map(|polled| polled["reason"].clone());
        ensure!(reason == Some(json!("Polled")), "it is {reason:?}");
        Ok(())
    })
    .await;
    assert_eq!(
        condition(&helmop, "Other").unwrap()["status"],
        "True",
        "conditions of other controllers stay"
    );
    assert_eq!(condition(&helmop, "Stalled"), None);
    remove_finalizers(&namespace).await;
}

/// Fleet's controller takes the Bundle back and writes the range into it, as it always does. Then ours takes over again.
#[tokio::test]
async fn a_second_takeover_restores_the_resolved_version() {
    let (namespace, server) = fixture().await;
    apply(&namespace, &helmop(&server, "0.1.0", "0s")).await;
    until_version(&namespace, "web", "0.1.0").await;
    let range = json!({ "spec": { "helm": { "version": "0.1.x" } } }).to_string();
    let patch = ["patch", "bundle/web", "--type=merge", "-p", &range];
    namespace.kubectl().run(&patch).await.unwrap().ok().unwrap();
    let bundle = until_version(&namespace, "web", "0.1.0").await;
    assert_eq!(
        bundle["metadata"]["labels"]["fleet.cattle.io/fleet-helm-name"],
        "web"
    );
}

//! What Fleet's own controller has left.

use anyhow::ensure;
use helmops_tests::chart_server::ChartServer;
use helmops_tests::namespace::TestNamespace;
use serde_json::{Value, json};

use crate::suite::{condition, suite, until, until_accepted, until_version};

const FINALIZER: &str = "fleet.cattle.io/helmop-finalizer";

async fn setting() -> (TestNamespace, ChartServer) {
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

/// Ends the test's objects, which a finalizer of Fleet's bundle controller would hold for ever.
async fn release(namespace: &TestNamespace) {
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
async fn a_bundle_with_a_version_that_will_do_stays_as_it_is() {
    let (namespace, server) = setting().await;
    let before = apply(&namespace, &bundle(&server, "0.1.0")).await;
    apply(&namespace, &helmop(&server, "0.x", "0s")).await;
    let helmop = until_accepted(&namespace, "web").await;
    let after = until_version(&namespace, "web", "0.1.0").await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(
        after["metadata"]["generation"], before["metadata"]["generation"],
        "nothing is deployed anew"
    );
    assert_eq!(after["metadata"]["finalizers"], before["metadata"]["finalizers"]);
    assert_eq!(
        after["metadata"]["ownerReferences"][0]["uid"],
        helmop["metadata"]["uid"]
    );
    assert_eq!(helmop["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(helmop["status"]["version"], "0.1.0");
    assert_eq!(server.requests("/index.yaml"), 0, "and nothing is looked up");
    release(&namespace).await;
}

#[tokio::test]
async fn a_bundle_with_a_range_gets_a_version() {
    let (namespace, server) = setting().await;
    apply(&namespace, &bundle(&server, "0.x")).await;
    apply(&namespace, &helmop(&server, "0.x", "12h")).await;
    until_version(&namespace, "web", "0.2.0").await;
    release(&namespace).await;
}

#[tokio::test]
async fn conditions_and_the_time_of_the_last_look_are_taken_up() {
    let (namespace, server) = setting().await;
    apply(&namespace, &bundle(&server, "0.1.0")).await;
    // As if it were stored with its status: Fleet's conditions, and a look that was a moment ago.
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
        "those of others stay"
    );
    assert_eq!(condition(&helmop, "Stalled"), None);
    release(&namespace).await;
}

/// Fleet's controller takes the Bundle back, writes the range into it as it does, and ours takes over once more.
#[tokio::test]
async fn back_to_fleet_and_over_again() {
    let (namespace, server) = setting().await;
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

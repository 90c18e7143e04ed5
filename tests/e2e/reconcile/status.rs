//! Reports on deployments and changes: status, metrics, events and log.

use std::time::Duration;

use anyhow::{Context, ensure};
use helmops_bed::metrics::Metrics;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::SOON;
use crate::harness::own::Fixture;

impl Fixture {
    /// Writes the status of Bundle `web` in its current generation, as a bundle controller would.
    async fn write_bundle_summary(&self, summary: Value) {
        let bundle = self.kubectl.get("bundle/web").await.unwrap().unwrap();
        let generation = &bundle["metadata"]["generation"];
        self.patch_status(
            "bundle/web",
            &json!({ "observedGeneration": generation, "summary": summary }),
        )
        .await;
    }

    /// Waits until the status of HelmOp `web` has these numbers of clusters.
    async fn until_ready_clusters_are(&self, ready: u64, desired: u64) {
        // The controller checks twice a minute for a CRD that is installed later.
        eventually("the status", Duration::from_mins(1), async || {
            let helmop = self.kubectl.get("helmop/web").await?.context("there is none")?;
            let status = &helmop["status"];
            ensure!(
                status["readyClusters"] == ready && status["desiredReadyClusters"] == desired,
                "it is {status}"
            );
            let display = &status["display"]["readyBundleDeployments"];
            ensure!(*display == format!("{ready}/{desired}"), "it is {display}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// The CRD of a kind that the controller only reads; every bundle controller installs its own.
fn bundledeployments_crd() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "bundledeployments.fleet.cattle.io" },
        "spec": {
            "group": "fleet.cattle.io",
            "scope": "Namespaced",
            "names": { "kind": "BundleDeployment", "plural": "bundledeployments", "singular": "bundledeployment" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    })
}

fn deployment_of_web() -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "BundleDeployment",
        "metadata": { "name": "web", "labels": {
            "fleet.cattle.io/fleet-helm-name": "web", "fleet.cattle.io/bundle-namespace": "default",
            "fleet.cattle.io/cluster": "c1", "fleet.cattle.io/cluster-namespace": "default",
        } },
        "spec": { "deploymentID": "s:1", "stagedDeploymentID": "s:1" },
    })
}

/// The test acts as bundle controller and agent, and the status of the HelmOp follows.
#[tokio::test]
async fn readiness_follows_the_deployments() {
    let fixture = Fixture::start(None).await.unwrap();
    fixture
        .apply("web", &json!({ "targets": [{ "clusterSelector": {} }] }))
        .await;
    fixture.until_version("web", "0.2.0").await;
    // The CRD is installed after the start of the controller.
    fixture.apply_object(&bundledeployments_crd()).await;
    let crd = "crd/bundledeployments.fleet.cattle.io";
    fixture.run(&["wait", "--for=condition=Established", crd]).await;
    fixture.apply_object(&deployment_of_web()).await;
    fixture
        .write_bundle_summary(json!({ "ready": 0, "desiredReady": 1 }))
        .await;
    fixture.until_ready_clusters_are(0, 1).await;

    let deployed = json!({ "appliedDeploymentID": "s:1", "ready": true, "nonModified": true });
    fixture.patch_status("bundledeployment/web", &deployed).await;
    fixture
        .write_bundle_summary(json!({ "ready": 1, "desiredReady": 1 }))
        .await;
    assert_eq!(fixture.until("web", "Ready", "Ready").await, "");
    fixture.until_ready_clusters_are(1, 1).await;
    let metrics = Metrics::scrape(&format!("{}/metrics", fixture.controller.admin))
        .await
        .unwrap();
    let labels = [("name", "web"), ("namespace", "default"), ("version", "0.2.0")];
    assert_eq!(metrics.sum("fleet_helmop_ready_clusters", &labels), Some(1.0));

    fixture.run(&["delete", "bundledeployment/web"]).await;
    fixture.until_ready_clusters_are(0, 0).await;
}

/// `kubectl describe` shows each change once.
#[tokio::test]
async fn each_change_is_reported_in_one_event() {
    let fixture = Fixture::start(None).await.unwrap();
    let helm = |version: &str| json!({ "helm": { "repo": fixture.server.url(), "chart": "alpine", "version": version } });
    let until_event = async |reason: &str| {
        eventually(reason, SOON, async || {
            let list = ["get", "events.events.k8s.io", "--output=json"];
            let list: Value = serde_json::from_str(&fixture.kubectl.run(&list).await?.ok()?)?;
            let events = list["items"].as_array().context("no list")?;
            let matching: Vec<_> = events.iter().filter(|event| event["reason"] == reason).collect();
            ensure!(matching.len() == 1, "{} of them", matching.len());
            Ok(matching[0].clone())
        })
        .await
        .unwrap()
    };
    fixture.apply("web", &helm("7.x")).await;
    let refused = until_event("NoMatchingVersion").await;
    assert_eq!(
        (&refused["type"], &refused["regarding"]["name"]),
        (&json!("Warning"), &json!("web"))
    );
    assert!(
        refused["note"].as_str().unwrap().contains("its versions are"),
        "{refused}"
    );
    fixture.apply("web", &helm("0.1.0")).await;
    until_event("Accepted").await;
    fixture.until_version("web", "0.1.0").await;
    fixture.apply("web", &helm("0.x")).await;
    let newer = until_event("GotNewChartVersion").await;
    assert_eq!(newer["note"], "0.2.0 (before: 0.1.0)");
    assert_eq!(newer["reportingController"], "helmops-controller");
}

/// Rancher labels the objects that its users create.
#[tokio::test]
async fn log_lines_of_a_helmop_name_its_user() {
    let fixture = Fixture::start(None).await.unwrap();
    let mut labelled: Value = serde_json::from_str(&fixture.helmop("labelled", &json!({}))).unwrap();
    labelled["metadata"]["labels"] = json!({ "fleet.cattle.io/created-by-user-id": "u-4711" });
    fixture.apply_object(&labelled).await;
    fixture.apply("unlabelled", &json!({})).await;
    fixture.until_version("labelled", "0.2.0").await;
    fixture.until_version("unlabelled", "0.2.0").await;
    for (name, has_user) in [("labelled", true), ("unlabelled", false)] {
        let name = format!("helmop=\"default/{name}\"");
        // A line is written after its Bundle.
        eventually("a line of the log", SOON, async || {
            let log = fixture.controller.process.log();
            let lines: Vec<&str> = log.lines().filter(|line| line.contains(&name)).collect();
            ensure!(!lines.is_empty(), "nothing of {name} in {log}");
            let is_right = |line: &&str| line.contains("userID=\"u-4711\"") == has_user;
            ensure!(lines.iter().all(is_right), "{log}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

//! What is told of deployments, and of what happened.

use std::time::Duration;

use anyhow::{Context, ensure};
use helmops_tests::metrics::Metrics;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

use crate::bed::{Alone, SOON};

impl Alone {
    /// Says what a bundle controller would of Bundle `web` as it is now.
    async fn bundle_says(&self, summary: Value) {
        let bundle = self.kubectl.get("bundle/web").await.unwrap().unwrap();
        let generation = &bundle["metadata"]["generation"];
        self.patch_status(
            "bundle/web",
            &json!({ "observedGeneration": generation, "summary": summary }),
        )
        .await;
    }

    /// Waits until HelmOp `web` tells of so many clusters.
    async fn until_web_counts(&self, ready: u64, desired: u64) {
        // A kind that is installed later is looked for twice a minute.
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

/// The definition of a kind that the controller only reads; any bundle controller brings its own.
fn deployments_definition() -> Value {
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

/// What a bundle controller and an agent do, by hand: the status of the HelmOp follows.
#[tokio::test]
async fn readiness_is_what_the_deployments_say() {
    let alone = Alone::start(None).await.unwrap();
    alone
        .apply("web", &json!({ "targets": [{ "clusterSelector": {} }] }))
        .await;
    alone.until_version("web", "0.2.0").await;
    // Installed only now: the controller was there before.
    alone.apply_object(&deployments_definition()).await;
    let crd = "crd/bundledeployments.fleet.cattle.io";
    alone.run(&["wait", "--for=condition=Established", crd]).await;
    alone.apply_object(&deployment_of_web()).await;
    alone.bundle_says(json!({ "ready": 0, "desiredReady": 1 })).await;
    alone.until_web_counts(0, 1).await;

    let deployed = json!({ "appliedDeploymentID": "s:1", "ready": true, "nonModified": true });
    alone.patch_status("bundledeployment/web", &deployed).await;
    alone.bundle_says(json!({ "ready": 1, "desiredReady": 1 })).await;
    assert_eq!(alone.until("web", "Ready", "Ready").await, "");
    alone.until_web_counts(1, 1).await;
    let metrics = Metrics::scrape(&format!("{}/metrics", alone.controller.admin))
        .await
        .unwrap();
    let labels = [("name", "web"), ("namespace", "default"), ("version", "0.2.0")];
    assert_eq!(metrics.sum("fleet_helmop_ready_clusters", &labels), Some(1.0));

    alone.run(&["delete", "bundledeployment/web"]).await;
    alone.until_web_counts(0, 0).await;
}

/// What happened can be read with `kubectl describe`, once.
#[tokio::test]
async fn events_tell_what_happened() {
    let alone = Alone::start(None).await.unwrap();
    let helm = |version: &str| json!({ "helm": { "repo": alone.server.url(), "chart": "alpine", "version": version } });
    let until_event = async |reason: &str| {
        eventually(reason, SOON, async || {
            let list = ["get", "events.events.k8s.io", "--output=json"];
            let list: Value = serde_json::from_str(&alone.kubectl.run(&list).await?.ok()?)?;
            let events = list["items"].as_array().context("no list")?;
            let told: Vec<_> = events.iter().filter(|event| event["reason"] == reason).collect();
            ensure!(told.len() == 1, "{} of them", told.len());
            Ok(told[0].clone())
        })
        .await
        .unwrap()
    };
    alone.apply("web", &helm("7.x")).await;
    let refused = until_event("NoMatchingVersion").await;
    assert_eq!(
        (&refused["type"], &refused["regarding"]["name"]),
        (&json!("Warning"), &json!("web"))
    );
    assert!(
        refused["note"].as_str().unwrap().contains("its versions are"),
        "{refused}"
    );
    alone.apply("web", &helm("0.1.0")).await;
    until_event("Accepted").await;
    alone.until_version("web", "0.1.0").await;
    alone.apply("web", &helm("0.x")).await;
    let newer = until_event("GotNewChartVersion").await;
    assert_eq!(newer["note"], "0.2.0 (before: 0.1.0)");
    assert_eq!(newer["reportingController"], "helmops-controller");
}

/// Rancher labels what its users make.
#[tokio::test]
async fn the_log_tells_whose_a_helmop_is() {
    let alone = Alone::start(None).await.unwrap();
    let mut labelled: Value = serde_json::from_str(&alone.helmop("hers", &json!({}))).unwrap();
    labelled["metadata"]["labels"] = json!({ "fleet.cattle.io/created-by-user-id": "u-4711" });
    alone.apply_object(&labelled).await;
    alone.apply("nobodys", &json!({})).await;
    alone.until_version("hers", "0.2.0").await;
    alone.until_version("nobodys", "0.2.0").await;
    let log = alone.controller.process.log();
    let of = |name: &str| {
        let name = format!("helmop=\"default/{name}\"");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&name)).collect();
        assert!(!lines.is_empty(), "nothing of {name} in {log}");
        lines
    };
    assert!(
        of("hers").iter().all(|line| line.contains("userID=\"u-4711\"")),
        "{log}"
    );
    assert!(of("nobodys").iter().all(|line| !line.contains("userID")), "{log}");
}

//! In which order and at which pace clusters get what is new.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::bed::Setting;

impl Setting {
    /// The versions that agents are asked to deploy, by cluster.
    async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for cluster in 0..self.clusters.len() {
            let deployment = self.on(cluster, "bundledeployment/web").await.unwrap();
            let version = deployment.map(|found| found["spec"]["options"]["helm"]["version"].clone());
            versions.push(
                version
                    .and_then(|version| version.as_str().map(str::to_owned))
                    .unwrap_or_default(),
            );
        }
        versions
    }

    async fn until_version(&self, cluster: usize, version: &str) {
        self.until_on(cluster, "bundledeployment/web", |found| {
            let asked = &found["spec"]["options"]["helm"]["version"];
            ensure!(asked == version, "it is {asked}");
            Ok(())
        })
        .await;
    }

    /// Everything deployed in version 1.0.0.
    async fn deployed(&self, over: &Value) {
        let mut first = json!({ "helm": { "version": "1.0.0" } });
        json_patch::merge(&mut first, over);
        self.bundle("web", &first).await;
        for cluster in 0..self.clusters.len() {
            self.agent_deploys(cluster, "web").await;
        }
        self.until_ready_is("bundle/web", "Ready").await;
    }
}

#[tokio::test]
async fn no_more_are_unavailable_than_may_be() {
    let setting = Setting::new("rollout", 3).await;
    let strategy = json!({ "rolloutStrategy": { "maxUnavailable": 1 } });
    setting.deployed(&strategy).await;
    let mut second = strategy.clone();
    second["helm"] = json!({ "version": "2.0.0" });
    setting.bundle("web", &second).await;
    for cluster in 0..3 {
        setting.until_version(cluster, "2.0.0").await;
        // Later ones know what comes, and wait.
        for later in cluster + 1..3 {
            let staged = setting
                .until_on(later, "bundledeployment/web", |found| {
                    let staged = &found["spec"]["stagedOptions"]["helm"]["version"];
                    ensure!(staged == "2.0.0", "it is {staged}");
                    Ok(())
                })
                .await;
            assert_eq!(staged["spec"]["options"]["helm"]["version"], "1.0.0");
        }
        let told = setting.until_ready_is("bundle/web", "NotReady").await;
        assert!(told.contains("WaitApplied(1)"), "{told}");
        setting.agent_deploys(cluster, "web").await;
    }
    setting.until_ready_is("bundle/web", "Ready").await;
}

#[tokio::test]
async fn partitions_go_one_after_the_other() {
    let setting = Setting::new("rollout", 4).await;
    let even = json!({ "name": "even", "clusterSelector": { "matchLabels": { "parity": "even" } } });
    let odd = json!({ "name": "odd", "clusterSelector": { "matchLabels": { "parity": "odd" } } });
    let strategy = json!({ "rolloutStrategy": { "partitions": [even, odd], "maxUnavailable": "50%" } });
    setting.deployed(&strategy).await;
    let mut second = strategy.clone();
    second["helm"] = json!({ "version": "2.0.0" });
    setting.bundle("web", &second).await;
    setting.until_version(0, "2.0.0").await;
    let bundle = setting
        .until("bundle/web", |bundle| {
            let partition = &bundle["status"]["partitions"][0];
            ensure!(partition["unavailable"] == 2, "it is {partition}");
            Ok(())
        })
        .await;
    assert_eq!(bundle["status"]["partitions"][0]["name"], "even");
    assert_eq!(bundle["status"]["partitions"][1]["summary"]["ready"], 2);
    assert_eq!(setting.versions().await, ["2.0.0", "1.0.0", "1.0.0", "1.0.0"]);
    setting.agent_deploys(0, "web").await;
    setting.until_version(2, "2.0.0").await;
    setting.agent_deploys(2, "web").await;
    setting.until_version(1, "2.0.0").await;
}

#[tokio::test]
async fn what_is_paused_learns_what_comes_and_waits() {
    let setting = Setting::new("rollout", 2).await;
    setting.deployed(&json!({})).await;
    setting
        .bundle("web", &json!({ "paused": true, "helm": { "version": "2.0.0" } }))
        .await;
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    assert!(told.starts_with("OutOfSync(2)"), "{told}");
    assert_eq!(setting.versions().await, ["1.0.0", "1.0.0"]);
    setting
        .patch("cluster/c1", &json!({"spec":{"paused":true}}))
        .await;
    setting
        .until_on(1, "bundledeployment/web", |found| {
            ensure!(found["spec"]["paused"] == true, "not paused");
            Ok(())
        })
        .await;
    setting
        .bundle("web", &json!({ "paused": false, "helm": { "version": "2.0.0" } }))
        .await;
    setting.until_version(0, "2.0.0").await;
    assert_eq!(
        setting.versions().await,
        ["2.0.0", "1.0.0"],
        "the cluster itself is paused"
    );
}

#[tokio::test]
async fn a_strategy_that_is_none_leaves_everything_as_it_is() {
    let setting = Setting::new("rollout", 1).await;
    setting.deployed(&json!({})).await;
    setting
        .bundle(
            "web",
            &json!({ "rolloutStrategy": { "maxUnavailable": "some" }, "helm": { "version": "2.0.0" } }),
        )
        .await;
    let told = setting.until_ready_is("bundle/web", "InvalidRollout").await;
    assert!(told.contains("some"), "{told}");
    assert_eq!(setting.versions().await, ["1.0.0"]);
}

#[tokio::test]
async fn clusters_that_no_partition_has_are_told_of() {
    let setting = Setting::new("rollout", 2).await;
    let strategy = json!({ "partitions": [{ "name": "first", "clusterName": "c0" }] });
    setting
        .bundle("web", &json!({ "rolloutStrategy": strategy }))
        .await;
    setting.agent_deploys(0, "web").await;
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    assert!(
        told.contains("/c1: no partition of spec.rolloutStrategy has this cluster"),
        "{told}"
    );
    assert_eq!(setting.places("web").await, [0]);
}

/// A cluster that cannot be served takes nobody's turn.
#[tokio::test]
async fn who_cannot_be_served_holds_up_nobody() {
    let setting = Setting::new("rollout", 3).await;
    let strategy = json!({ "rolloutStrategy": { "maxUnavailable": 1 } });
    setting.deployed(&strategy).await;
    let missing = json!([{ "kind": "Secret", "name": "missing" }]);
    let targets = json!([
        { "clusterName": "c0", "downstreamResources": missing },
        { "clusterGroup": "all" },
    ]);
    let mut second = strategy.clone();
    second["helm"] = json!({ "version": "2.0.0" });
    second["targets"] = targets;
    setting.bundle("web", &second).await;
    for cluster in 1..3 {
        setting.until_version(cluster, "2.0.0").await;
        setting.agent_deploys(cluster, "web").await;
    }
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    assert!(told.contains("/missing does not exist"), "{told}");
    assert_eq!(setting.versions().await, ["1.0.0", "2.0.0", "2.0.0"]);
}

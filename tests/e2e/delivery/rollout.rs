//! Rollouts: the order in which clusters get a new version, and how many at a time.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::harness::standalone::Fixture;

impl Fixture {
    /// Deploys version 1.0.0 to all clusters.
    async fn deploy_first_version(&self, over: &Value) {
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
async fn max_unavailable_limits_concurrent_updates() {
    let fixture = Fixture::new("rollout", 3).await;
    let strategy = json!({ "rolloutStrategy": { "maxUnavailable": 1 } });
    fixture.deploy_first_version(&strategy).await;
    let mut second = strategy.clone();
    second["helm"] = json!({ "version": "2.0.0" });
    fixture.bundle("web", &second).await;
    for cluster in 0..3 {
        fixture.until_version(cluster, "2.0.0").await;
        // For later clusters the new version is staged, and they wait.
        for later in cluster + 1..3 {
            let staged = fixture
                .until_on(later, "bundledeployment/web", |found| {
                    let staged = &found["spec"]["stagedOptions"]["helm"]["version"];
                    ensure!(staged == "2.0.0", "it is {staged}");
                    Ok(())
                })
                .await;
            assert_eq!(staged["spec"]["options"]["helm"]["version"], "1.0.0");
        }
        let message = fixture.until_ready_is("bundle/web", "NotReady").await;
        assert!(message.contains("WaitApplied(1)"), "{message}");
        fixture.agent_deploys(cluster, "web").await;
    }
    fixture.until_ready_is("bundle/web", "Ready").await;
}

#[tokio::test]
async fn partitions_are_updated_one_after_the_other() {
    let fixture = Fixture::new("rollout", 4).await;
    let even = json!({ "name": "even", "clusterSelector": { "matchLabels": { "parity": "even" } } });
    let odd = json!({ "name": "odd", "clusterSelector": { "matchLabels": { "parity": "odd" } } });
    let strategy = json!({ "rolloutStrategy": { "partitions": [even, odd], "maxUnavailable": "50%" } });
    fixture.deploy_first_version(&strategy).await;
    let mut second = strategy.clone();
    second["helm"] = json!({ "version": "2.0.0" });
    fixture.bundle("web", &second).await;
    fixture.until_version(0, "2.0.0").await;
    let bundle = fixture
        .until("bundle/web", |bundle| {
            let partition = &bundle["status"]["partitions"][0];
            ensure!(partition["unavailable"] == 2, "it is {partition}");
            Ok(())
        })
        .await;
    assert_eq!(bundle["status"]["partitions"][0]["name"], "even");
    assert_eq!(bundle["status"]["partitions"][1]["summary"]["ready"], 2);
    assert_eq!(fixture.versions().await, ["2.0.0", "1.0.0", "1.0.0", "1.0.0"]);
    fixture.agent_deploys(0, "web").await;
    fixture.until_version(2, "2.0.0").await;
    fixture.agent_deploys(2, "web").await;
    fixture.until_version(1, "2.0.0").await;
}

#[tokio::test]
async fn a_paused_bundle_stages_the_new_version_and_waits() {
    let fixture = Fixture::new("rollout", 2).await;
    fixture.deploy_first_version(&json!({})).await;
    fixture
        .bundle("web", &json!({ "paused": true, "helm": { "version": "2.0.0" } }))
        .await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(message.starts_with("OutOfSync(2)"), "{message}");
    assert_eq!(fixture.versions().await, ["1.0.0", "1.0.0"]);
    fixture
        .patch("cluster/c1", &json!({"spec":{"paused":true}}))
        .await;
    fixture
        .until_on(1, "bundledeployment/web", |found| {
            ensure!(found["spec"]["paused"] == true, "not paused");
            Ok(())
        })
        .await;
    fixture
        .bundle("web", &json!({ "paused": false, "helm": { "version": "2.0.0" } }))
        .await;
    fixture.until_version(0, "2.0.0").await;
    assert_eq!(
        fixture.versions().await,
        ["2.0.0", "1.0.0"],
        "the cluster itself is paused"
    );
}

#[tokio::test]
async fn an_invalid_strategy_changes_nothing() {
    let fixture = Fixture::new("rollout", 1).await;
    fixture.deploy_first_version(&json!({})).await;
    fixture
        .bundle(
            "web",
            &json!({ "rolloutStrategy": { "maxUnavailable": "some" }, "helm": { "version": "2.0.0" } }),
        )
        .await;
    let message = fixture.until_ready_is("bundle/web", "InvalidRollout").await;
    assert!(message.contains("some"), "{message}");
    assert_eq!(fixture.versions().await, ["1.0.0"]);
}

#[tokio::test]
async fn clusters_in_no_partition_are_reported() {
    let fixture = Fixture::new("rollout", 2).await;
    let strategy = json!({ "partitions": [{ "name": "first", "clusterName": "c0" }] });
    fixture
        .bundle("web", &json!({ "rolloutStrategy": strategy }))
        .await;
    fixture.agent_deploys(0, "web").await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(
        message.contains("/c1: no partition of spec.rolloutStrategy has this cluster"),
        "{message}"
    );
    assert_eq!(fixture.clusters_of("web").await, [0]);
}

/// A cluster that nothing can be delivered to does not count towards `maxUnavailable`.
#[tokio::test]
async fn a_cluster_with_a_missing_secret_delays_no_other() {
    let fixture = Fixture::new("rollout", 3).await;
    let strategy = json!({ "rolloutStrategy": { "maxUnavailable": 1 } });
    fixture.deploy_first_version(&strategy).await;
    let missing = json!([{ "kind": "Secret", "name": "missing" }]);
    let targets = json!([
        { "clusterName": "c0", "downstreamResources": missing },
        { "clusterGroup": "all" },
    ]);
    let mut second = strategy.clone();
    second["helm"] = json!({ "version": "2.0.0" });
    second["targets"] = targets;
    fixture.bundle("web", &second).await;
    for cluster in 1..3 {
        fixture.until_version(cluster, "2.0.0").await;
        fixture.agent_deploys(cluster, "web").await;
    }
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(message.contains("/missing does not exist"), "{message}");
    assert_eq!(fixture.versions().await, ["1.0.0", "2.0.0", "2.0.0"]);
}

/// The controller goes on by itself when the time is over.
#[tokio::test]
async fn a_partition_soaks_before_the_next_one_begins() {
    let fixture = Fixture::new("rollout", 2).await;
    let partition = |name: &str| json!({ "name": name, "clusterName": name });
    let strategy =
        json!({ "rolloutStrategy": { "soak": "4s", "partitions": [partition("c0"), partition("c1")] } });
    let mut first = strategy.clone();
    first["helm"] = json!({ "version": "1.0.0" });
    fixture.bundle("web", &first).await;
    fixture.agent_deploys(0, "web").await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(message.contains("Pending(1)"), "{message}");
    let bundle = fixture
        .until("bundle/web", |bundle| {
            let rollout = &bundle["status"]["rollout"];
            ensure!(rollout["until"].is_string(), "it is {rollout}");
            Ok(())
        })
        .await;
    let until = bundle["status"]["rollout"]["until"].as_str().unwrap();
    let expected = format!("partition \"c1\" waits until {until} (soak of \"c0\")");
    assert_eq!(bundle["status"]["rollout"]["message"], expected);
    assert!(
        bundle["status"]["partitions"][0]["completedAt"].is_string(),
        "{bundle}"
    );
    fixture.agent_deploys(1, "web").await;
    let bundle = fixture
        .until("bundle/web", |bundle| {
            let rollout = &bundle["status"]["rollout"];
            ensure!(rollout["waitsFor"].is_null(), "it is {rollout}");
            Ok(())
        })
        .await;
    let created = fixture.on(1, "bundledeployment/web").await.unwrap().unwrap();
    let created = created["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(*created >= *until, "{created}: {bundle}");
    fixture.until_ready_is("bundle/web", "Ready").await;
}

#[tokio::test]
async fn a_partition_begins_after_its_approval() {
    let fixture = Fixture::new("rollout", 2).await;
    let partition =
        |name: &str, approval: &str| json!({ "name": name, "clusterName": name, "approval": approval });
    let strategy =
        json!({ "rolloutStrategy": { "partitions": [partition("c0", ""), partition("c1", "Manual")] } });
    let mut first = strategy.clone();
    first["helm"] = json!({ "version": "1.0.0" });
    fixture.bundle("web", &first).await;
    let approve = async || {
        let bundle = fixture
            .until("bundle/web", |bundle| {
                let rollout = &bundle["status"]["rollout"];
                ensure!(rollout["waitsFor"] == "Approval", "it is {rollout}");
                Ok(())
            })
            .await;
        let message = fixture.until_ready_is("bundle/web", "AwaitingApproval").await;
        // The command that it names is the one to run.
        let (_, command) = message
            .split_once("waits for approval: kubectl annotate ")
            .unwrap();
        let annotation = command.split('\'').nth(1).unwrap();
        fixture
            .kubectl(&["annotate", "bundle", "web", "--overwrite", annotation])
            .await;
        bundle["status"]["rollout"]["id"].as_str().unwrap().to_owned()
    };
    fixture.agent_deploys(0, "web").await;
    let id = approve().await;
    fixture.agent_deploys(1, "web").await;
    fixture.until_ready_is("bundle/web", "Ready").await;
    // The approval does not count for another version.
    let mut second = strategy.clone();
    second["helm"] = json!({ "version": "2.0.0" });
    fixture.bundle("web", &second).await;
    fixture.until_version(0, "2.0.0").await;
    fixture.agent_deploys(0, "web").await;
    fixture.until_ready_is("bundle/web", "AwaitingApproval").await;
    assert_eq!(fixture.versions().await, ["2.0.0", "1.0.0"]);
    assert_ne!(approve().await, id);
    fixture.until_version(1, "2.0.0").await;
}

#[tokio::test]
async fn a_rollout_that_fails_is_halted_until_something_else_is_rolled_out() {
    let fixture = Fixture::new("rollout", 2).await;
    let strategy = json!({ "rolloutStrategy": { "maxUnavailable": 1, "onFailure": {} } });
    fixture.deploy_first_version(&strategy).await;
    let mut second = strategy.clone();
    second["helm"] = json!({ "version": "2.0.0" });
    fixture.bundle("web", &second).await;
    fixture.until_version(0, "2.0.0").await;
    fixture.agent_fails(0, "web").await;
    let message = fixture.until_ready_is("bundle/web", "RolloutHalted").await;
    assert!(
        message.starts_with("the rollout is halted: it has failed on 1 cluster, of at most 0"),
        "{message}"
    );
    // What it says goes on, when the failure is accepted.
    let annotation = message.split('\'').nth(1).unwrap().to_owned();
    fixture
        .kubectl(&["annotate", "bundle", "web", "--overwrite", &annotation])
        .await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(message.contains("ErrApplied(1)"), "{message}");
    let mut third = strategy.clone();
    third["helm"] = json!({ "version": "3.0.0" });
    fixture.bundle("web", &third).await;
    for cluster in 0..2 {
        fixture.until_version(cluster, "3.0.0").await;
        fixture
            .agent_reports(cluster, "web", &json!({ "conditions": null }))
            .await;
        fixture.agent_deploys(cluster, "web").await;
    }
    fixture.until_ready_is("bundle/web", "Ready").await;
}

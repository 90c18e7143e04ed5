//! A rollout that fails on too many clusters goes back to the last one that was completed.

use anyhow::ensure;
use serde_json::json;

use crate::harness::standalone::{Fixture, Repository};

const FAILED: &str = "helmops.fleet.cattle.io/failed-rollouts";

/// The version of the last rollout that was completed.
async fn until_completed(fixture: &Fixture, version: &str) {
    fixture
        .until("bundle/web", |bundle| {
            let completed = bundle["status"]["completed"]["spec"].as_str().unwrap_or_default();
            let has_version = completed.contains(&format!("\"version\":\"{version}\""));
            ensure!(has_version, "completed is {completed}");
            Ok(())
        })
        .await;
}

/// The agent of a cluster deploys what it is to go back to, or to try again.
async fn agent_recovers(fixture: &Fixture, cluster: usize) {
    let none = json!({ "conditions": null, "failedDeploymentID": null });
    fixture.agent_reports(cluster, "web", &none).await;
    fixture.agent_deploys(cluster, "web").await;
}

#[tokio::test]
async fn a_version_that_fails_on_the_first_partition_is_taken_back_and_not_tried_again_until_a_user_wants_it()
{
    let fixture = Fixture::new("rollback", 2).await;
    let repository = Repository::new(&fixture).await;
    let partition = |name: &str| json!({ "name": name, "clusterName": name });
    let strategy = json!({
        "soak": "1s", "onFailure": { "action": "Rollback" }, "partitions": [partition("c0"), partition("c1")],
    });
    repository
        .helmop(&fixture, &json!({ "rolloutStrategy": strategy }))
        .await;
    for cluster in 0..2 {
        fixture.until_version(cluster, "1.0.0").await;
        fixture.agent_deploys(cluster, "web").await;
    }
    until_completed(&fixture, "1.0.0").await;

    repository.add("2.0.0").await;
    fixture.until_version(0, "2.0.0").await;
    fixture.agent_fails(0, "web").await;
    fixture.until_version(0, "1.0.0").await;
    agent_recovers(&fixture, 0).await;
    let message = fixture.until_ready_is("helmop/web", "RolloutRolledBack").await;
    assert!(
        message.contains("(version 2.0.0) has failed on 1 cluster and is not tried again"),
        "{message}"
    );
    repository.until_polled_again().await;
    assert_eq!(fixture.versions().await, ["1.0.0", "1.0.0"]);
    let helmop = fixture
        .until("helmop/web", |helmop| {
            let version = &helmop["status"]["version"];
            ensure!(version == "1.0.0", "it is {version}");
            Ok(())
        })
        .await;
    let rollout = &helmop["status"]["rollout"];
    assert_eq!(rollout["waitsFor"], "Rollback");
    let bundle = fixture.until("bundle/web", |_| Ok(())).await;
    let failed = bundle["metadata"]["annotations"][FAILED].as_str().unwrap();
    assert!(failed.contains(rollout["id"].as_str().unwrap()), "{failed}");
    until_completed(&fixture, "1.0.0").await;

    let resumed = fixture.plugin(&["rollout", "resume", "web"]).await;
    assert_eq!(resumed, "helmop web: rollout resumed\n");
    for cluster in 0..2 {
        fixture.until_version(cluster, "2.0.0").await;
        agent_recovers(&fixture, cluster).await;
    }
    fixture.until_ready_is("helmop/web", "Ready").await;
    until_completed(&fixture, "2.0.0").await;
    fixture
        .until("bundle/web", |bundle| {
            let failed = &bundle["metadata"]["annotations"][FAILED];
            ensure!(failed.is_null(), "it is {failed}");
            Ok(())
        })
        .await;
}

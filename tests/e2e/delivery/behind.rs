//! Watches that are behind others: together the caches show a state that never was.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use helmops_bed::api_proxy::ApiProxy;
use helmops_bed::helmops::{self, Part};
use helmops_bed::wait::eventually;
use serde_json::json;
use tokio::time::sleep;

use crate::harness::SOON;
use crate::harness::standalone::{Fixture, Suite};

/// Some rounds of a Bundle: each repeats what the caches show.
const ROUNDS: Duration = Duration::from_secs(10);

/// At each moment the cluster is a target: first the group is widened, then the label changes that it selects. A watch of groups that was
/// interrupted reports the first change after the second.
#[tokio::test]
async fn a_cluster_keeps_its_deployment_while_the_watch_of_groups_is_behind() {
    let bed = helmops::control_plane_with(&[Part::Standalone], false)
        .await
        .unwrap();
    let proxy = ApiProxy::start(&bed).await.unwrap();
    let cluster = proxy.cluster(&bed).unwrap();
    let command = |program: &Path| bed.command(program);
    let controller = helmops::start_standalone_controller(&cluster, "controller", &command)
        .await
        .unwrap();
    let fixture = Fixture::in_suite(Suite::of(bed.clone(), controller).into(), "behind", 2).await;
    let group = |values: &[&str]| {
        let required = json!({ "key": "env", "operator": "In", "values": values });
        json!({ "kind": "ClusterGroup", "metadata": { "name": "prod" }, "spec": { "selector": { "matchExpressions": [required] } } })
    };
    fixture.apply(&group(&["prod"])).await;
    for name in ["cluster/c0", "cluster/c1"] {
        fixture.kubectl(&["label", name, "env=prod"]).await;
    }
    fixture
        .bundle("web", &json!({ "targets": [{ "clusterGroup": "prod" }] }))
        .await;
    let before = fixture.deployment(0, "web").await;
    fixture.deployment(1, "web").await;

    proxy.hold(Some("clustergroups"));
    fixture.apply(&group(&["prod", "production"])).await;
    fixture
        .kubectl(&["label", "--overwrite", "cluster/c0", "env=production"])
        .await;
    sleep(ROUNDS).await;
    let held = fixture.on(0, "bundledeployment/web").await.unwrap();
    let uid = |object: &serde_json::Value| object["metadata"]["uid"].clone();
    assert_eq!(held.as_ref().map(uid), Some(uid(&before)), "it was deleted");

    proxy.hold(None);
    // The cluster that leaves the group loses its deployment, and the log says why.
    fixture
        .kubectl(&["label", "--overwrite", "cluster/c1", "env=dev"])
        .await;
    fixture.until_none_on(1, "bundledeployment/web").await;
    let kept = fixture.deployment(0, "web").await;
    assert_eq!(uid(&kept), uid(&before), "it was deleted");
    let deleted = format!("bundledeployment={}/web", fixture.clusters[1]);
    eventually("the log line of the deletion", SOON, async || {
        let log = fixture.suite.controller.process.log();
        let line = log
            .lines()
            .find(|line| line.contains(&deleted) && line.contains("uninstalls"));
        ensure!(
            line.is_some_and(|line| line.contains("INFO") && line.contains("env=dev")),
            "{line:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

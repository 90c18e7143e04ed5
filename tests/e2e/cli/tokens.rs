//! `kubectl helmop token` and `cluster register`: the administrators of both clusters know nothing of the other one but one command.

use anyhow::{Context, ensure};
use serde_json::json;

use super::clusters::{deploy, until_deployed};
use super::two_clusters::{TwoClusters, WORKSPACE};
use crate::harness::{run, until, until_none};

#[tokio::test]
async fn a_cluster_registers_itself_with_one_command_and_gets_its_charts() {
    let clusters = TwoClusters::registering().await;
    deploy(&clusters).await;
    let refused = clusters.fails("token create --ttl 0s", 2).await;
    assert!(refused.contains("--no-expiry"), "{refused}");
    let created = clusters.helmop("token create join-edge --ttl 1h").await;
    assert!(
        created.stderr.contains("is an address of this machine"),
        "{}",
        created.stderr
    );
    let command = created.ok().unwrap();
    let command = command
        .trim()
        .strip_prefix("kubectl helmop ")
        .context("no command")
        .unwrap();
    assert_eq!(command.lines().count(), 1, "{command}");

    let register = format!("{command} --context edge --labels env=prod --timeout 0s");
    let printed = clusters.succeeds(&register).await;
    assert!(
        printed.contains("✔ 11 objects applied, 11 of them changed"),
        "{printed}"
    );
    let agent = clusters.run_agent("agent-0").await;
    until(&clusters.system(), "secret/fleet-agent", |_| Ok(())).await;
    until_none(&clusters.system(), "secret/fleet-agent-bootstrap").await;
    until_deployed(&clusters).await;

    let names = run(&clusters.workspace(), &["get", "clusters", "--output=name"]).await;
    let cluster = names.trim().to_owned();
    let found = until(&clusters.workspace(), &cluster, |found| {
        ensure!(
            found["status"]["agent"]["lastSeen"].is_string(),
            "it has not reported"
        );
        Ok(())
    })
    .await;
    assert_eq!(found["metadata"]["labels"]["env"], "prod");
    let uid = clusters
        .workload
        .kubectl()
        .get("namespace/kube-system")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found["spec"]["clientID"], uid["metadata"]["uid"]);
    let listed = clusters.succeeds("token list").await;
    assert!(listed.contains("join-edge") && listed.contains("yes"), "{listed}");

    // The end of the token is not that of the cluster.
    clusters.succeeds("token delete join-edge").await;
    until_none(&clusters.workspace(), "secret/join-edge").await;
    let value = json!({ "spec": { "helm": { "values": { "replicas": 2 } } } }).to_string();
    run(
        &clusters.workspace(),
        &["patch", "helmop", "web", "--type=merge", "--patch", &value],
    )
    .await;
    let shop = clusters.workload.kubectl().in_namespace("shop");
    until(&shop, "secret/sh.helm.release.v1.web.v2", |_| Ok(())).await;
    let missing = clusters.fails("token delete join-edge", 2).await;
    assert!(
        missing.contains(&format!("token list --namespace {WORKSPACE}")),
        "{missing}"
    );

    // The same command again changes nothing: the access of the agent works.
    let again = clusters.succeeds(&register).await;
    assert!(again.contains("has access as Cluster"), "{again}");
    drop(agent);
}

//! Clusters whose agent reports no more.

use anyhow::{Context, ensure};
use helmops_bed::api::Api;
use helmops_bed::helmops::{self, Part};
use helmops_bed::test_bed::TestBed;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::own::start_controller;
use crate::harness::{SOON, condition, run, until};

const FLAGS: [(&str, &str); 3] = [
    ("HELMOPS_CONTROLLERS", "helmop,bundle"),
    ("HELMOPS_AGENT_TIMEOUT", "6s"),
    ("HELMOPS_AGENT_ACCOUNTS", "false"),
];

/// Acts as the agent of a cluster.
async fn report(bed: &TestBed, cluster: &str) {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({ "status": { "agent": { "lastSeen": now, "namespace": "cattle-fleet-system" } } });
    let patch = vec![(cluster.to_owned(), status)];
    Api::new(bed)
        .unwrap()
        .patch_status("default", "clusters", patch)
        .await
        .unwrap();
}

async fn until_ready_is(bed: &TestBed, cluster: &str, status: &str, reason: &str) -> Value {
    until(&bed.kubectl(), &format!("cluster/{cluster}"), |found| {
        let ready = condition(found, "Ready").context("no condition")?;
        ensure!(
            ready["status"] == status && ready["reason"] == reason,
            "it is {ready}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_cluster_is_unknown_while_its_agent_is_silent() {
    let bed = helmops::control_plane_with(&[Part::Standalone], false)
        .await
        .unwrap();
    let kubectl = bed.kubectl();
    let mut controller = start_controller(&bed, "controller", &FLAGS).await.unwrap();
    for name in ["edge", "new"] {
        let cluster = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
        });
        kubectl.apply(&cluster.to_string()).await.unwrap().ok().unwrap();
        until_ready_is(&bed, name, "True", "Ready").await;
    }
    report(&bed, "edge").await;
    let silent = until_ready_is(&bed, "edge", "Unknown", "AgentSilent").await;
    let last = silent["status"]["agent"]["lastSeen"].as_str().unwrap();
    let message = condition(&silent, "Ready").unwrap()["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("last reported at {last};")),
        "{message}"
    );

    let printed = run(&kubectl, &["get", "clusters"]).await;
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["NAME", "BUNDLES-READY", "STATUS", "LAST-SEEN", "AGE"]);
    assert_eq!(rows[1][..3], ["edge", "0/0", "AgentSilent"]);
    assert!(rows[1][3].ends_with('s'), "a time since: {printed}");
    // It has never reported. An agent may not be needed yet.
    assert_eq!(rows[2][..3], ["new", "0/0", "Ready"]);

    // Neither a restart nor the passing of time writes the status again.
    controller.process.terminate(SOON).await.unwrap();
    let _controller = start_controller(&bed, "restarted", &FLAGS).await.unwrap();
    report(&bed, "new").await;
    until_ready_is(&bed, "new", "Unknown", "AgentSilent").await;
    let again = until_ready_is(&bed, "edge", "Unknown", "AgentSilent").await;
    assert_eq!(
        again["metadata"]["resourceVersion"],
        silent["metadata"]["resourceVersion"]
    );

    report(&bed, "edge").await;
    let edge = until_ready_is(&bed, "edge", "True", "Ready").await;
    let namespace = edge["status"]["namespace"].as_str().unwrap();
    let account = kubectl
        .in_namespace(namespace)
        .get("serviceaccount/helmops-agent")
        .await;
    assert_eq!(account.unwrap(), None, "they are disabled");
}

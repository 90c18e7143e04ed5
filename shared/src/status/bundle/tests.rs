use serde_json::{Value, json};

use super::*;
use crate::{
    api::Cluster,
    targeting::{Member, plan, targets, template::Budget},
};

fn of<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_str(&object.to_string()).unwrap()
}

fn web(targets: &Value) -> Bundle {
    of(&json!({
        "metadata": { "name": "web", "namespace": "fleet", "generation": 3 },
        "spec": { "helm": { "chart": "web" }, "targets": targets },
        "status": { "conditions": [{ "type": "Other", "status": "True" }], "ociReference": "kept" },
    }))
}

fn cluster(name: &str) -> Cluster {
    of(&json!({
        "metadata": { "name": name, "namespace": "fleet", "labels": { "name": name } },
        "status": { "namespace": format!("cluster-{name}") },
    }))
}

fn deployment(name: &str, status: &Value) -> BundleDeployment {
    of(&json!({
        "metadata": { "name": "web", "namespace": format!("cluster-{name}") },
        "spec": { "deploymentID": ":a", "stagedDeploymentID": ":a" },
        "status": status,
    }))
}

/// The status, with what becomes of each cluster: a deployment, and a problem.
fn status(bundle: &Bundle, clusters: &[(Cluster, Option<BundleDeployment>, Option<&str>)]) -> BundleStatus {
    let members = clusters.iter().map(|(cluster, ..)| Member::new(cluster, []));
    let found = targets(bundle, members, &[], false, &Budget::without_clock()).unwrap();
    let rollout = plan(&bundle.spec, &found).unwrap();
    let places: Vec<_> = found
        .iter()
        .map(|target| {
            let (_, deployment, problem) = clusters
                .iter()
                .find(|(cluster, ..)| cluster.metadata.name.as_deref() == Some(target.member.name()))
                .unwrap();
            TargetStatus {
                target,
                deployment: deployment.as_ref(),
                problem: *problem,
            }
        })
        .collect();
    super::bundle(bundle, RolloutRound::Done(&rollout, &places), "now")
}

fn ready_of(status: &BundleStatus) -> [&str; 3] {
    let ready = status
        .conditions
        .iter()
        .find(|one| one.r#type == "Ready")
        .unwrap();
    [&ready.status, &ready.reason, &ready.message]
}

fn done() -> Value {
    json!({ "appliedDeploymentID": ":a", "ready": true, "nonModified": true })
}

#[test]
fn every_cluster_counts_in_its_state() {
    let bundle = web(&json!([{ "clusterSelector": {} }]));
    let all = |problem| {
        [
            (cluster("a"), Some(deployment("a", &done())), None),
            (cluster("b"), Some(deployment("b", &json!({}))), None),
            (cluster("c"), None, None),
            (cluster("d"), Some(deployment("d", &done())), problem),
        ]
    };
    let told = status(&bundle, &all(Some("Secret fleet/access is missing")));
    let summary = told.summary.as_ref().unwrap();
    assert_eq!(
        [
            summary.ready,
            summary.desired_ready,
            Some(summary.wait_applied),
            Some(summary.pending),
            Some(summary.err_applied)
        ],
        [Some(1), Some(4), Some(1), Some(1), Some(1)]
    );
    assert_eq!(
        ready_of(&told),
        [
            "False",
            "NotReady",
            "ErrApplied(1) [Cluster fleet/d: Secret fleet/access is missing]; Pending(1) [Cluster fleet/c]; \
             WaitApplied(1) [Cluster fleet/b]"
        ]
    );
    let display = told.display.as_ref().unwrap();
    assert_eq!([&*display.ready_clusters, &*display.state], ["1/4", "ErrApplied"]);
    let all_together = &told.partitions[0];
    assert_eq!((&*all_together.name, all_together.count), ("All", 4));
    assert_eq!(all_together.summary.as_ref().unwrap().pending, 1);
    assert_eq!(
        (told.observed_generation, &*told.oci_reference),
        (Some(3), "kept")
    );
    assert_eq!(told.conditions.len(), 2, "conditions of others stay");
}

#[test]
fn ready_is_where_something_is_deployed() {
    let bundle = web(&json!([{ "clusterName": "a" }]));
    let ready = status(&bundle, &[(cluster("a"), Some(deployment("a", &done())), None)]);
    assert_eq!(ready_of(&ready), ["True", "Ready", ""]);
    assert_eq!(ready.display.unwrap().state, "");
    let nowhere = status(&bundle, &[(cluster("b"), None, None)]);
    assert_eq!(ready_of(&nowhere)[..2], ["False", "NoClusters"]);
}

#[test]
fn a_refusal_leaves_what_clusters_have() {
    let mut bundle = web(&json!([{ "clusterName": "a" }]));
    bundle.status = Some(Box::new(status(
        &bundle,
        &[(cluster("a"), Some(deployment("a", &done())), None)],
    )));
    let told = super::bundle(
        &bundle,
        RolloutRound::Refused(Reason::InvalidSelector, "no selector"),
        "later",
    );
    assert_eq!(ready_of(&told), ["False", "InvalidSelector", "no selector"]);
    assert_eq!(told.summary, bundle.status.unwrap().summary);
}

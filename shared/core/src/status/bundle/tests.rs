use gotmpl::Budget;
use helmops_api::Cluster;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::targeting::{GateStates, Member, plan, targets};

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

/// The status for clusters, each with its deployment and its problem.
fn status(bundle: &Bundle, clusters: &[(Cluster, Option<BundleDeployment>, Option<&str>)]) -> BundleStatus {
    let members = clusters.iter().map(|(cluster, ..)| Member::new(cluster, []));
    let found = targets(bundle, members, &[], false, &Budget::default()).unwrap();
    let rollout = plan(bundle, &found, &GateStates::default(), Timestamp::UNIX_EPOCH).unwrap();
    let statuses: Vec<_> = found
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
    super::bundle(bundle, RolloutRound::Done(&rollout, &statuses), "now")
}

fn ready_of(status: &BundleStatus) -> [&str; 3] {
    let ready = status
        .conditions
        .iter()
        .find(|one| one.r#type == "Ready")
        .unwrap();
    [&ready.status, &ready.reason, &ready.message]
}

fn deployed() -> Value {
    json!({ "appliedDeploymentID": ":a", "ready": true, "nonModified": true })
}

#[test]
fn every_cluster_is_counted_by_its_state() {
    let bundle = web(&json!([{ "clusterSelector": {} }]));
    let all = |problem| {
        [
            (cluster("a"), Some(deployment("a", &deployed())), None),
            (cluster("b"), Some(deployment("b", &json!({}))), None),
            (cluster("c"), None, None),
            (cluster("d"), Some(deployment("d", &deployed())), problem),
        ]
    };
    let status = status(&bundle, &all(Some("Secret fleet/access is missing")));
    let summary = status.summary.as_ref().unwrap();
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
        ready_of(&status),
        [
            "False",
            "NotReady",
            "ErrApplied(1) [Cluster fleet/d: Secret fleet/access is missing]; Pending(1) [Cluster fleet/c]; \
             WaitApplied(1) [Cluster fleet/b]"
        ]
    );
    let display = status.display.as_ref().unwrap();
    assert_eq!([&*display.ready_clusters, &*display.state], ["1/4", "ErrApplied"]);
    let partition = &status.partitions[0];
    assert_eq!((&*partition.name, partition.count), ("All", 4));
    assert_eq!(partition.summary.as_ref().unwrap().pending, 1);
    assert_eq!(
        (status.observed_generation, &*status.oci_reference),
        (Some(3), "kept")
    );
    assert_eq!(status.conditions.len(), 2, "conditions of other controllers stay");
}

#[test]
fn a_bundle_is_ready_only_if_a_cluster_is_targeted() {
    let bundle = web(&json!([{ "clusterName": "a" }]));
    let ready = status(
        &bundle,
        &[(cluster("a"), Some(deployment("a", &deployed())), None)],
    );
    assert_eq!(ready_of(&ready), ["True", "Ready", ""]);
    assert_eq!(ready.display.unwrap().state, "");
    let nowhere = status(&bundle, &[(cluster("b"), None, None)]);
    assert_eq!(ready_of(&nowhere)[..2], ["False", "NoClusters"]);
    let held = web(&json!([{ "clusterName": "a", "doNotDeploy": true }]));
    let held = status(&held, &[(cluster("a"), None, None)]);
    let message = "no cluster is targeted: all targets in spec.targets have doNotDeploy";
    assert_eq!(ready_of(&held), ["False", "NoClusters", message]);
}

#[test]
fn a_refused_round_keeps_the_state_of_the_clusters() {
    let mut bundle = web(&json!([{ "clusterName": "a" }]));
    bundle.status = Some(Box::new(status(
        &bundle,
        &[(cluster("a"), Some(deployment("a", &deployed())), None)],
    )));
    let refused = super::bundle(
        &bundle,
        RolloutRound::Refused(Reason::InvalidSelector, "no selector"),
        "later",
    );
    assert_eq!(ready_of(&refused), ["False", "InvalidSelector", "no selector"]);
    assert_eq!(refused.summary, bundle.status.unwrap().summary);
}

#[test]
fn the_life_cycle_is_counted_while_the_bundle_has_one() {
    let mut web = web(&json!([{ "clusterSelector": {} }]));
    web.spec.options.lifecycle = Some(Box::default());
    let released = deployment(
        "a",
        &json!({ "conditions": [{ "type": "Released", "status": "True" }] }),
    );
    let clusters = [(cluster("a"), Some(released), None), (cluster("b"), None, None)];
    let counted = status(&web, &clusters);
    assert_eq!(
        counted.lifecycle.as_ref().map(|summary| summary.released),
        Some(1)
    );

    web.status = Some(counted.into());
    web.spec.options.lifecycle = None;
    assert_eq!(status(&web, &clusters).lifecycle, None);
}

//! The accounts of agents: ServiceAccounts, Roles, RoleBindings and ClusterRoleBindings.

use anyhow::{Context, Result, ensure};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::wait::eventually;
use helmops_model::names;
use serde_json::{Value, json};

use crate::harness::standalone::Fixture;
use crate::harness::{SOON, run, until, until_none};

const ACCOUNT: &str = "serviceaccount/helmops-agent";
const BINDING: &str = "rolebinding/helmops-agent";

/// kubectl for the namespace of a cluster.
fn on(fixture: &Fixture, cluster: usize) -> Kubectl {
    fixture
        .suite
        .bed
        .kubectl()
        .in_namespace(&fixture.clusters[cluster])
}

/// The name of the Role of a cluster beside its Cluster.
fn role(fixture: &Fixture, cluster: usize) -> String {
    names::agent_role(fixture.namespace.name(), &format!("c{cluster}"))
}

/// The five objects of an account, as soon as they exist.
async fn account(fixture: &Fixture, cluster: usize) -> Vec<Value> {
    let (on, role) = (on(fixture, cluster), role(fixture, cluster));
    vec![
        until(&on, ACCOUNT, |_| Ok(())).await,
        until(&on, BINDING, |_| Ok(())).await,
        fixture.until(&format!("role/{role}"), |_| Ok(())).await,
        fixture.until(&format!("rolebinding/{role}"), |_| Ok(())).await,
        fixture
            .until(&format!("clusterrolebinding/{role}"), |_| Ok(()))
            .await,
    ]
}

fn versions(objects: &[Value]) -> Vec<&Value> {
    let versions = objects
        .iter()
        .map(|object| &object["metadata"]["resourceVersion"]);
    versions.collect()
}

#[tokio::test]
async fn each_cluster_has_an_account_that_is_restored() {
    let fixture = Fixture::new("accounts", 2).await;
    let before = [account(&fixture, 0).await, account(&fixture, 1).await];
    let (on, role) = (on(&fixture, 0), format!("role/{}", role(&fixture, 0)));
    run(&on, &["delete", BINDING]).await;
    run(
        &on,
        &[
            "label",
            ACCOUNT,
            "helmops.fleet.cattle.io/agent-account=false",
            "--overwrite",
        ],
    )
    .await;
    // The permissions of another cluster.
    let foreign = json!([{ "op": "replace", "path": "/rules/0/resourceNames/0", "value": "c1" }]);
    fixture
        .kubectl(&["patch", &role, "--type=json", "-p", &foreign.to_string()])
        .await;
    let status_binding = role.replace("role/", "rolebinding/");
    let foreign =
        json!({ "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "default" }] });
    let contents = role.replace("role/", "clusterrolebinding/");
    fixture.patch(&status_binding, &foreign).await;
    fixture.patch(&contents, &foreign).await;
    fixture
        .until(&status_binding, |found| {
            ensure!(
                found["subjects"] == before[0][3]["subjects"],
                "it is {}",
                found["subjects"]
            );
            Ok(())
        })
        .await;
    until(&on, BINDING, |_| Ok(())).await;
    fixture
        .until(&contents, |found| {
            ensure!(
                found["subjects"] == before[0][4]["subjects"],
                "it is {}",
                found["subjects"]
            );
            Ok(())
        })
        .await;
    until(&on, ACCOUNT, |found| {
        let label = &found["metadata"]["labels"]["helmops.fleet.cattle.io/agent-account"];
        ensure!(label == "true", "it is {label}");
        Ok(())
    })
    .await;
    let restored = fixture
        .until(&role, |found| {
            ensure!(
                found["rules"] == before[0][2]["rules"],
                "it is {}",
                found["rules"]
            );
            Ok(())
        })
        .await;
    assert_eq!(restored["metadata"]["uid"], before[0][2]["metadata"]["uid"]);
    // Both clusters were reconciled meanwhile, also because of the Bundle.
    fixture.bundle("web", &json!({})).await;
    for cluster in 0..2 {
        fixture.agent_deploys(cluster, "web").await;
        let counted = |found: &Value| -> Result<()> {
            let ready = &found["status"]["display"]["readyBundles"];
            ensure!(ready == "1/1", "it is {ready}");
            Ok(())
        };
        fixture.until(&format!("cluster/c{cluster}"), counted).await;
    }
    let after = account(&fixture, 1).await;
    assert_eq!(
        versions(&before[1]),
        versions(&after),
        "nothing is written without a difference"
    );
}

#[tokio::test]
async fn the_account_goes_with_its_cluster_and_no_other_does() {
    let fixture = Fixture::new("accounts", 2).await;
    account(&fixture, 0).await;
    let other = account(&fixture, 1).await;
    let on = on(&fixture, 0);
    // Fleet's controllers create it in the same namespace.
    run(&on, &["create", "serviceaccount", "request-abc"]).await;
    let role = role(&fixture, 0);
    fixture.kubectl(&["delete", "cluster", "c0"]).await;
    until_none(&on, ACCOUNT).await;
    until_none(&on, BINDING).await;
    for kind in ["role", "rolebinding", "clusterrolebinding"] {
        until_none(&fixture.namespace, &format!("{kind}/{role}")).await;
    }
    assert!(on.get("serviceaccount/request-abc").await.unwrap().is_some());
    assert_eq!(versions(&other), versions(&account(&fixture, 1).await));
}

/// A cluster that gets the namespace of another one does not get its agent.
#[tokio::test]
async fn the_account_of_another_cluster_is_replaced() {
    let fixture = Fixture::new("accounts", 1).await;
    let before = account(&fixture, 0).await;
    let on = on(&fixture, 0);
    run(
        &on,
        &["annotate", ACCOUNT, "--overwrite", "fleet.cattle.io/cluster=gone"],
    )
    .await;
    let replaced = eventually("a new ServiceAccount", SOON, async || {
        let found = on.get(ACCOUNT).await?.context("there is none")?;
        ensure!(
            found["metadata"]["uid"] != before[0]["metadata"]["uid"],
            "it is the old one"
        );
        Ok(found)
    })
    .await
    .unwrap();
    assert_eq!(
        replaced["metadata"]["annotations"]["fleet.cattle.io/cluster"],
        "c0"
    );
}

/// Such as the objects of a version that named them differently. No owner goes, so the garbage collector does not delete them.
#[tokio::test]
async fn objects_of_an_account_that_are_not_desired_are_deleted() {
    let fixture = Fixture::new("accounts", 1).await;
    let before = account(&fixture, 0).await;
    let role = role(&fixture, 0);
    for kind in ["role", "rolebinding"] {
        let mut surplus = fixture.until(&format!("{kind}/{role}"), |_| Ok(())).await;
        let metadata = &surplus["metadata"];
        surplus["metadata"] = json!({
            "name": "surplus", "labels": metadata["labels"], "annotations": metadata["annotations"],
        });
        fixture.apply(&surplus).await;
        until_none(&fixture.namespace, &format!("{kind}/surplus")).await;
    }
    assert_eq!(versions(&before), versions(&account(&fixture, 0).await));
}

/// The namespace of a cluster is created again, with a new account.
#[tokio::test]
async fn a_deleted_namespace_gets_its_account_again() {
    let fixture = Fixture::new("accounts", 1).await;
    let before = account(&fixture, 0).await;
    // kubectl returns when the namespace is gone: how long that takes is up to kube-controller-manager, not to helmops.
    let kubectl = fixture.suite.bed.kubectl();
    run(&kubectl, &["delete", "namespace", &fixture.clusters[0]]).await;
    eventually("a new ServiceAccount", SOON, async || {
        let found = on(&fixture, 0).get(ACCOUNT).await?.context("there is none")?;
        ensure!(
            found["metadata"]["uid"] != before[0]["metadata"]["uid"],
            "it is the old one"
        );
        Ok(())
    })
    .await
    .unwrap();
    account(&fixture, 0).await;
}

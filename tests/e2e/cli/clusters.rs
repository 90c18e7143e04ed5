//! `kubectl helmop cluster`: join, list and leave.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use helmops_bed::{helmops, test_bed::TestBed};
use serde_json::{Value, json};

use super::two_clusters::{Agent, SYSTEM, TwoClusters, WORKSPACE};
use crate::harness::standalone::decoded;
use crate::harness::{helmop, run, until, until_none};

const JOIN: &str = "cluster join edge-1 --to-context edge --labels env=prod";

/// A HelmOp for clusters with a label, whose release is `web` in namespace `shop`.
pub(super) async fn deploy(clusters: &TwoClusters) {
    let spec = json!({
        "namespace": "shop", "helm": { "repo": clusters.charts.url(), "chart": "web", "version": "0.x", "releaseName": "web" },
        "targets": [{ "clusterSelector": { "matchLabels": { "env": "prod" } } }],
    });
    clusters
        .workspace()
        .apply(&helmop("web", &spec))
        .await
        .unwrap()
        .ok()
        .unwrap();
}

pub(super) async fn until_deployed(clusters: &TwoClusters) {
    let shop = clusters.workload.kubectl().in_namespace("shop");
    until(&shop, "deployment/web", |found| {
        ensure!(found["status"]["readyReplicas"] == 1, "{}", found["status"]);
        Ok(())
    })
    .await;
}

/// Runs the command, and the agent as soon as it is installed.
async fn join(clusters: &TwoClusters, name: &str) -> (String, Agent) {
    let (printed, agent) = tokio::join!(clusters.succeeds(JOIN), clusters.run_agent(name));
    (printed, agent)
}

#[tokio::test]
async fn a_chart_runs_on_a_joined_cluster_within_a_minute() {
    let clusters = TwoClusters::start().await;
    deploy(&clusters).await;
    let begin = Instant::now();
    let (printed, agent) = join(&clusters, "agent-0").await;
    until_deployed(&clusters).await;
    let elapsed = begin.elapsed();
    eprintln!("cluster join, and the chart runs: {elapsed:?}");
    assert!(elapsed < Duration::from_mins(1), "it took {elapsed:?}");
    for line in [
        "✔ you have all permissions that are needed on both clusters",
        "✔ Cluster fleet-default/edge-1 created",
        "✔ 8 objects of the agent applied, 8 of them changed",
        "✔ Deployment cattle-fleet-system/helmops-agent created",
        "✔ the agent reported ",
        "Cluster fleet-default/edge-1 has joined.",
    ] {
        assert!(printed.contains(line), "{line:?} is not in:\n{printed}");
    }

    until(&clusters.workspace(), "cluster/edge-1", |found| {
        let ready = &found["status"]["readyHelmOps"];
        ensure!(ready == 1, "it is {ready}");
        Ok(())
    })
    .await;
    let listed = clusters.succeeds("cluster list -o json").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let row = &listed[0];
    assert_eq!(
        (&row["name"], &row["isSilent"]),
        (&json!("edge-1"), &json!(false))
    );
    assert_eq!(row["agentVersion"], "0.1.0", "{row}");
    assert_eq!(row["helmOps"], json!({ "ready": 1, "total": 1 }));
    let table = clusters.succeeds("cluster list -A").await;
    assert!(table.contains("env=prod") && table.contains("1/1"), "{table}");

    // The same command continues, here with nothing to do but a new token.
    let again = clusters.succeeds(&format!("{JOIN},zone=eu")).await;
    assert!(
        again.contains("8 objects of the agent applied, 0 of them changed"),
        "{again}"
    );
    assert!(
        again.contains("Deployment cattle-fleet-system/helmops-agent unchanged"),
        "{again}"
    );
    let cluster = clusters.workspace().get("cluster/edge-1").await.unwrap().unwrap();
    assert_eq!(
        cluster["metadata"]["labels"],
        json!({ "env": "prod", "zone": "eu" })
    );
    leaves_without_its_releases(&clusters, agent).await;
}

/// By default nothing that is deployed is changed, and the cluster can join again.
async fn leaves_without_its_releases(clusters: &TwoClusters, agent: Agent) {
    let shop = clusters.workload.kubectl().in_namespace("shop");
    let before = shop.get("deployment/web").await.unwrap().unwrap();
    let refused = clusters.fails("cluster leave edge-1 --to-context edge", 2).await;
    assert!(refused.contains("confirm with --yes"), "{refused}");
    refuses_a_context_without_the_agent(clusters).await;
    let leave = clusters.succeeds("cluster leave edge-1 --to-context edge --yes");
    let (printed, ()) = tokio::join!(leave, clusters.end_with_its_pod(agent));
    assert!(
        printed.contains("Its releases stay on the workload cluster"),
        "{printed}"
    );
    assert_eq!(clusters.workspace().get("cluster/edge-1").await.unwrap(), None);
    let namespace = before["metadata"]["namespace"]
        .as_str()
        .context("no namespace")
        .unwrap();
    assert_eq!(namespace, "shop");
    let objects = run(
        &clusters.system(),
        &[
            "get",
            "all,serviceaccounts,secrets,configmaps,roles,leases",
            "--output=name",
        ],
    )
    .await;
    assert!(
        !objects.contains("helmops-agent") && !objects.contains("fleet-agent"),
        "{objects}"
    );
    until_none(
        &clusters.management.kubectl().in_namespace(&deployments_of_edge()),
        "serviceaccount/helmops-agent",
    )
    .await;
    let after = shop.get("deployment/web").await.unwrap().unwrap();
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(before["metadata"]["generation"], after["metadata"]["generation"]);

    let (_, agent) = join(clusters, "agent-1").await;
    until(&clusters.workspace(), "cluster/edge-1", |found| {
        ensure!(found["status"]["readyHelmOps"] == 1, "{}", found["status"]);
        Ok(())
    })
    .await;
    let history = run(
        &shop,
        &["get", "secrets", "--selector=owner=helm", "--output=name"],
    )
    .await;
    assert_eq!(
        history, "secret/sh.helm.release.v1.web.v1\n",
        "nothing is deployed again"
    );
    leaves_with_its_releases(clusters, agent).await;
}

/// The agent would stay, and take the deletion of its BundleDeployments for a request.
async fn refuses_a_context_without_the_agent(clusters: &TwoClusters) {
    let elsewhere = clusters
        .fails("cluster leave edge-1 --to-context management --yes", 1)
        .await;
    assert!(
        elsewhere.contains("context management has no agent of Cluster fleet-default/edge-1"),
        "{elsewhere}"
    );
    let cluster = clusters.workspace().get("cluster/edge-1").await.unwrap().unwrap();
    assert_eq!(cluster["metadata"]["deletionTimestamp"], Value::Null);
}

/// The BundleDeployment outlasts the time limit of the first run, and is gone before the second.
async fn is_interrupted_while_it_withdraws(clusters: &TwoClusters) {
    let deployments = clusters.management.kubectl().in_namespace(&deployments_of_edge());
    let names = run(&deployments, &["get", "bundledeployments", "--output=name"]).await;
    let hold = json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "example.com/hold" }]);
    let hold = hold.to_string();
    run(
        &deployments,
        &["patch", names.trim(), "--type=json", "--patch", &hold],
    )
    .await;
    let interrupted = clusters
        .fails(
            "cluster leave edge-1 --to-context edge --delete-releases --timeout 2s --yes",
            2,
        )
        .await;
    assert!(
        interrupted.contains("there are still BundleDeployments in namespace"),
        "{interrupted}"
    );
    let free = json!({ "metadata": { "finalizers": null } }).to_string();
    run(
        &deployments,
        &["patch", names.trim(), "--type=merge", "--patch", &free],
    )
    .await;
    until_none(&deployments, names.trim()).await;
}

async fn leaves_with_its_releases(clusters: &TwoClusters, agent: Agent) {
    let shop = clusters.workload.kubectl().in_namespace("shop");
    is_interrupted_while_it_withdraws(clusters).await;
    let leave = clusters.succeeds("cluster leave edge-1 --to-context edge --delete-releases --yes");
    let (printed, ()) = tokio::join!(leave, clusters.end_with_its_pod(agent));
    assert!(printed.contains("✔ releases uninstalled: 1"), "{printed}");
    until_none(&shop, "deployment/web").await;
    assert_eq!(clusters.workspace().get("cluster/edge-1").await.unwrap(), None);
    let gone = clusters
        .fails("cluster leave edge-1 --to-context edge --yes", 1)
        .await;
    assert!(
        gone.contains("there is no Cluster fleet-default/edge-1"),
        "{gone}"
    );
}

fn deployments_of_edge() -> String {
    helmops_model::names::cluster_namespace(WORKSPACE, "edge-1")
}

/// The kubeconfig of a user who may only look.
async fn viewer(workload: &TestBed) -> String {
    let user = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "viewer", "namespace": "default" },
    });
    workload
        .kubectl()
        .apply(&user.to_string())
        .await
        .unwrap()
        .ok()
        .unwrap();
    let view = [
        "create",
        "clusterrolebinding",
        "viewer",
        "--clusterrole=view",
        "--serviceaccount=default:viewer",
    ];
    run(&workload.kubectl(), &view).await;
    let read = [
        "create",
        "clusterrole",
        "reader",
        "--verb=get,list",
        "--resource=secrets,clusterrolebindings.rbac.authorization.k8s.io,namespaces",
    ];
    run(&workload.kubectl(), &read).await;
    let bind = [
        "create",
        "clusterrolebinding",
        "reader",
        "--clusterrole=reader",
        "--serviceaccount=default:viewer",
    ];
    run(&workload.kubectl(), &bind).await;
    let kubeconfig =
        helmops_bed::service_account::service_account_kubeconfig(workload, "default", "viewer").await;
    kubeconfig.unwrap().display().to_string()
}

/// Nothing is written before everything is checked.
#[tokio::test]
async fn a_join_that_cannot_succeed_changes_nothing() {
    let clusters = TwoClusters::start().await;
    let untouched = async || {
        assert_eq!(clusters.workspace().get("cluster/edge-1").await.unwrap(), None);
        assert_eq!(
            clusters
                .workload
                .kubectl()
                .get("namespace/cattle-fleet-system")
                .await
                .unwrap(),
            None
        );
    };
    let itself = clusters
        .fails("cluster join edge-1 --to-context management", 1)
        .await;
    assert!(
        itself.contains("is the management cluster itself") && itself.contains("manifests/local"),
        "{itself}"
    );
    let swapped = clusters
        .fails("cluster join edge-1 --context edge --to-context management", 2)
        .await;
    assert!(
        swapped.contains("no CRD clusters.fleet.cattle.io") && swapped.contains("docs/standalone.md"),
        "{swapped}"
    );
    let unknown = clusters
        .fails("cluster join edge-1 --to-context missing", 2)
        .await;
    assert!(unknown.contains("kubectl config get-contexts"), "{unknown}");

    let kubeconfig = viewer(&clusters.workload).await;
    let lacking = clusters
        .fails(&format!("cluster join edge-1 --to-kubeconfig {kubeconfig}"), 2)
        .await;
    for line in [
        "nothing was changed",
        "in the workload cluster:",
        "  create namespaces cattle-fleet-system",
        "  patch deployments.apps helmops-agent in namespace cattle-fleet-system",
    ] {
        assert!(lacking.contains(line), "{line:?} is not in {lacking}");
    }
    assert!(!lacking.contains("in the management cluster:"), "{lacking}");
    let lacking = clusters
        .fails(
            &format!("cluster leave edge-1 --to-kubeconfig {kubeconfig} --yes"),
            2,
        )
        .await;
    let delete = "  delete deployments.apps helmops-agent in namespace cattle-fleet-system";
    assert!(
        lacking.contains("nothing was changed") && lacking.contains(delete),
        "{lacking}"
    );
    untouched().await;

    let dry = clusters
        .succeeds("cluster join edge-1 --to-context edge --labels env=prod --dry-run=client -o json")
        .await;
    let dry: Value = serde_json::from_str(&dry).unwrap();
    let items = dry["items"].as_array().unwrap();
    assert_eq!(
        (&items[0]["kind"], &items[0]["metadata"]["labels"]["env"]),
        (&json!("Cluster"), &json!("prod"))
    );
    let mut manifests = helmops::objects(&clusters.workload.tools, "agent").await.unwrap();
    let key = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    let mut applied = items[1..].to_vec();
    for objects in [&mut manifests, &mut applied] {
        objects.sort_by_key(key);
    }
    assert_eq!(applied, manifests, "the objects of manifests/agent");
    untouched().await;
}

#[tokio::test]
async fn fleets_agent_is_not_replaced_by_mistake() {
    let clusters = TwoClusters::start().await;
    run(&clusters.workload.kubectl(), &["create", "namespace", SYSTEM]).await;
    let fleet = [
        "create",
        "deployment",
        "fleet-agent",
        "--image=rancher/fleet-agent:v0.13.0",
    ];
    run(&clusters.system(), &fleet).await;
    let refused = clusters.fails(JOIN, 1).await;
    assert!(
        refused.contains("Fleet's agent runs on this cluster (deployment/fleet-agent)"),
        "{refused}"
    );
    assert!(
        refused.contains("docs/agent.md#take-over-from-fleets-agent-and-back")
            && refused.contains("--take-over"),
        "{refused}"
    );
    assert_eq!(clusters.workspace().get("cluster/edge-1").await.unwrap(), None);

    // Fleet has registered the cluster: its Secret is used as it is. It leads nowhere here, so no agent reports.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "fleet-agent" },
        "stringData": {
            "clusterNamespace": WORKSPACE, "clusterName": "edge-1", "deploymentNamespace": deployments_of_edge(), "kubeconfig": "fleets",
        },
    });
    clusters
        .system()
        .apply(&secret.to_string())
        .await
        .unwrap()
        .ok()
        .unwrap();
    let silent = clusters
        .fails(&format!("{JOIN} --take-over --timeout 2s"), 2)
        .await;
    assert!(
        silent.contains("the agent has not reported within 2 s"),
        "{silent}"
    );
    assert!(
        silent.contains("then run the command again: it continues"),
        "{silent}"
    );
    let fleet = clusters
        .system()
        .get("deployment/fleet-agent")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(fleet["spec"]["replicas"], 0);
    let secret = clusters
        .system()
        .get("secret/fleet-agent")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(decoded(&secret, "kubeconfig").as_deref(), Some("fleets"));

    // Another Cluster, by another name: its releases would be uninstalled or deployed twice.
    let other = clusters.fails("cluster join edge-2 --to-context edge", 1).await;
    assert!(
        other.contains("has joined as Cluster fleet-default/edge-1 already"),
        "{other}"
    );
    assert!(other.contains("kubectl helmop cluster leave edge-1"), "{other}");
    let other = clusters
        .fails("cluster leave edge-2 --to-context edge --yes", 1)
        .await;
    assert!(
        other.contains("is that of Cluster fleet-default/edge-1, not of fleet-default/edge-2"),
        "{other}"
    );

    // No agent has reported, so none is warned of; and nothing is promised about releases.
    let left = clusters
        .succeeds("cluster leave edge-1 --without-agent --yes")
        .await;
    assert!(
        left.contains("Cluster fleet-default/edge-1 has left.") && !left.contains("Its releases stay"),
        "{left}"
    );
    assert_eq!(clusters.workspace().get("cluster/edge-1").await.unwrap(), None);
}

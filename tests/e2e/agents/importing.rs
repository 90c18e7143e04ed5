//! Clusters with a kubeconfig: the controller installs their agents, between two control planes.

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bed::{helmops::Part, test_bed::TestBed, wait::eventually};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::cli::two_clusters::{SYSTEM, TwoClusters, WORKSPACE};
use crate::harness::{SOON, condition, message, run, until};

const DEPLOYMENT: &str = "deployment/helmops-agent";
/// As Cluster API names it.
const SECRET: &str = "edge-kubeconfig";

fn kubeconfig(bed: &TestBed) -> Value {
    let text = std::fs::read_to_string(&bed.kubeconfig).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Both clusters, with the flags of the import.
async fn start() -> TwoClusters {
    let configure = |management: &TestBed, command: &mut Command| {
        let cluster = kubeconfig(management)["clusters"][0]["cluster"].take();
        let ca = STANDARD
            .decode(cluster["certificate-authority-data"].as_str().unwrap())
            .unwrap();
        let file = management.directory.join("api-server-ca.crt");
        std::fs::write(&file, ca).unwrap();
        command
            .env("HELMOPS_IMPORT_CLUSTERS", "true")
            .env("HELMOPS_API_SERVER_URL", cluster["server"].as_str().unwrap())
            .env("HELMOPS_API_SERVER_CA", file)
            .env("HELMOPS_AGENT_IMAGE", "registry.example.com/helmops-agent:1");
    };
    TwoClusters::start_with(&[Part::Standalone, Part::Import], &configure).await
}

async fn secret(clusters: &TwoClusters, kubeconfig: &Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SECRET },
        "type": "cluster.x-k8s.io/secret", "stringData": { "value": kubeconfig.to_string() },
    });
    apply(clusters, &[object]).await;
}

async fn apply(clusters: &TwoClusters, objects: &[Value]) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let applied = clusters.workspace().apply(&list.to_string()).await;
    applied.unwrap().ok().unwrap();
}

fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
        "spec": { "kubeConfigSecret": SECRET },
    })
}

async fn patch(clusters: &TwoClusters, name: &str, change: Value) {
    let object = format!("clusters.fleet.cattle.io/{name}");
    let arguments = ["patch", &object, "--type=merge", "-p", &change.to_string()];
    run(&clusters.workspace(), &arguments).await;
}

/// Waits until the condition `Imported` has this reason in the current generation, and returns the Cluster.
async fn until_imported_is(clusters: &TwoClusters, name: &str, reason: &str) -> Value {
    until(
        &clusters.workspace(),
        &format!("clusters.fleet.cattle.io/{name}"),
        |found| {
            let condition = condition(found, "Imported").context("no condition")?;
            ensure!(condition["reason"] == reason, "it is {condition}");
            ensure!(
                condition["observedGeneration"] == found["metadata"]["generation"],
                "it is not of this generation"
            );
            Ok(())
        },
    )
    .await
}

async fn uid_of(bed: &TestBed) -> String {
    let found = bed.kubectl().get("namespace/kube-system").await.unwrap().unwrap();
    found["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn record(cluster: &Value) -> Value {
    let text = cluster["metadata"]["annotations"]["helmops.fleet.cattle.io/imported"].as_str();
    serde_json::from_str(text.unwrap_or("null")).unwrap()
}

#[tokio::test]
async fn the_agent_of_a_cluster_is_installed_by_its_kubeconfig() {
    let clusters = start().await;
    secret(&clusters, &kubeconfig(&clusters.workload)).await;
    apply(&clusters, &[cluster("edge")]).await;
    let imported = until_imported_is(&clusters, "edge", "Imported").await;
    assert_eq!(record(&imported)["identity"], uid_of(&clusters.workload).await);
    let deployment = until(&clusters.system(), DEPLOYMENT, |_| Ok(())).await;
    assert_eq!(
        container(&deployment)["image"],
        "registry.example.com/helmops-agent:1"
    );
    let _agent = clusters.run_agent("agent-0").await;
    until(&clusters.workspace(), "clusters.fleet.cattle.io/edge", |found| {
        ensure!(
            found["status"]["agent"]["lastSeen"].is_string(),
            "the agent has not reported"
        );
        Ok(())
    })
    .await;
    follows_its_cluster(&clusters).await;
    follows_its_secret(&clusters).await;
    moves_only_if_that_is_confirmed(&clusters).await;
}

/// Only what differs is applied, and the Secret of an agent that reports stays.
async fn follows_its_cluster(clusters: &TwoClusters) {
    let before = clusters
        .system()
        .get("secret/fleet-agent")
        .await
        .unwrap()
        .unwrap();
    let scheduling = |value: i64| json!({ "priorityClass": { "value": value }, "podDisruptionBudget": { "minAvailable": "1" } });
    let spec = json!({
        "agentEnvVars": [{ "name": "HTTPS_PROXY", "value": "http://proxy:3128" }], "hostNetwork": true,
        "agentTolerations": [{ "key": "edge", "operator": "Exists" }], "agentSchedulingCustomization": scheduling(1000),
    });
    patch(clusters, "edge", json!({ "spec": spec })).await;
    let changed = until(&clusters.system(), DEPLOYMENT, |found| {
        ensure!(
            found["spec"]["template"]["spec"]["hostNetwork"] == true,
            "it has not changed"
        );
        Ok(())
    })
    .await;
    let variables = container(&changed)["env"].as_array().unwrap();
    assert!(variables.contains(&json!({ "name": "HTTPS_PROXY", "value": "http://proxy:3128" })));
    assert_eq!(changed["spec"]["strategy"]["rollingUpdate"]["maxSurge"], 0);
    assert_eq!(
        changed["spec"]["template"]["spec"]["priorityClassName"],
        "helmops-agent"
    );
    let budget = clusters
        .system()
        .get("poddisruptionbudget/helmops-agent")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(budget["spec"]["minAvailable"], 1);

    // A PriorityClass cannot be changed, and the strategy of the Deployment is again that of the manifests.
    let spec = json!({ "hostNetwork": false, "agentSchedulingCustomization": scheduling(2000) });
    patch(clusters, "edge", json!({ "spec": spec })).await;
    let back = until(&clusters.system(), DEPLOYMENT, |found| {
        ensure!(
            found["spec"]["template"]["spec"]["hostNetwork"] != true,
            "it has not changed"
        );
        Ok(())
    })
    .await;
    assert_ne!(back["spec"]["strategy"]["rollingUpdate"]["maxSurge"], 0);
    until(
        &clusters.workload.kubectl(),
        "priorityclass/helmops-agent",
        |found| {
            ensure!(found["value"] == 2000, "it is {}", found["value"]);
            Ok(())
        },
    )
    .await;
    until_imported_is(clusters, "edge", "Imported").await;
    let after = clusters
        .system()
        .get("secret/fleet-agent")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        before["data"], after["data"],
        "the token of an agent that reports stays"
    );
}

async fn follows_its_secret(clusters: &TwoClusters) {
    let workload = clusters.workload.kubectl();
    run(
        &workload,
        &["create", "serviceaccount", "importer", "--namespace=default"],
    )
    .await;
    let bind = [
        "create",
        "clusterrolebinding",
        "importer",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:importer",
    ];
    run(&workload, &bind).await;
    let token = run(&workload, &["create", "token", "importer", "--namespace=default"]).await;
    let before = record(&until_imported_is(clusters, "edge", "Imported").await);
    let mut rotated = kubeconfig(&clusters.workload);
    rotated["users"][0]["user"] = json!({ "token": token.trim() });
    secret(clusters, &rotated).await;
    until(&clusters.workspace(), "clusters.fleet.cattle.io/edge", |found| {
        ensure!(
            record(found)["digest"] != before["digest"],
            "it was not imported again"
        );
        Ok(())
    })
    .await;

    let mut harmful = kubeconfig(&clusters.workload);
    harmful["users"][0]["user"] =
        json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "login" } });
    secret(clusters, &harmful).await;
    let refused = until_imported_is(clusters, "edge", "KubeConfigUnsafe").await;
    assert!(message(&refused, "Imported").contains("user.exec is not allowed"));

    secret(clusters, &kubeconfig(&clusters.management)).await;
    let refused = until_imported_is(clusters, "edge", "ImportRefused").await;
    assert!(message(&refused, "Imported").contains("the management cluster itself"));
    secret(clusters, &rotated).await;
    until_imported_is(clusters, "edge", "Imported").await;
}

/// The cluster is the same, and the record says that it was another one.
async fn moves_only_if_that_is_confirmed(clusters: &TwoClusters) {
    let annotate = async |key: &str, value: &str| {
        let key = format!("helmops.fleet.cattle.io/{key}");
        patch(
            clusters,
            "edge",
            json!({ "metadata": { "annotations": { key: value } } }),
        )
        .await;
    };
    annotate("imported", r#"{"identity":"other","digest":"other"}"#).await;
    let refused = until_imported_is(clusters, "edge", "ClusterMoved").await;
    let identity = uid_of(&clusters.workload).await;
    let confirmation = format!("helmops.fleet.cattle.io/import-to={identity}");
    assert!(message(&refused, "Imported").contains(&confirmation), "{refused}");

    let namespace = refused["status"]["namespace"].as_str().unwrap();
    let account = clusters.management.kubectl().in_namespace(namespace);
    let before = account
        .get("serviceaccount/helmops-agent")
        .await
        .unwrap()
        .unwrap();
    annotate("import-to", &identity).await;
    let imported = until_imported_is(clusters, "edge", "Imported").await;
    assert_eq!(record(&imported)["identity"], identity);
    let after = account
        .get("serviceaccount/helmops-agent")
        .await
        .unwrap()
        .unwrap();
    assert_ne!(
        before["metadata"]["uid"], after["metadata"]["uid"],
        "the tokens of the agent on the other cluster have ended"
    );
}

#[tokio::test]
async fn of_two_clusters_with_one_kubeconfig_one_is_refused() {
    let clusters = start().await;
    secret(&clusters, &kubeconfig(&clusters.workload)).await;
    apply(&clusters, &[cluster("edge-1"), cluster("edge-2")]).await;
    let reasons = eventually("both results", SOON, async || {
        let mut reasons = Vec::new();
        for name in ["edge-1", "edge-2"] {
            let object = format!("clusters.fleet.cattle.io/{name}");
            let found = clusters
                .workspace()
                .get(&object)
                .await?
                .context("there is none")?;
            let condition = condition(&found, "Imported").context("no condition")?;
            let reason = condition["reason"].as_str().unwrap_or_default().to_owned();
            ensure!(reason != "Importing", "it waits");
            reasons.push(reason);
        }
        reasons.sort();
        Ok(reasons)
    })
    .await;
    assert_eq!(reasons.unwrap(), ["ImportRefused", "Imported"]);
    let joined = clusters
        .system()
        .get("secret/fleet-agent")
        .await
        .unwrap()
        .unwrap();
    let name = STANDARD
        .decode(joined["data"]["clusterName"].as_str().unwrap())
        .unwrap();
    let winner = String::from_utf8(name).unwrap();
    until_imported_is(&clusters, &winner, "Imported").await;
    let loser = if winner == "edge-1" { "edge-2" } else { "edge-1" };
    let refused = until_imported_is(&clusters, loser, "ImportRefused").await;
    let text = message(&refused, "Imported");
    assert!(
        text.contains(&format!("Cluster {WORKSPACE}/{winner}")) && text.contains(SYSTEM),
        "{text}"
    );
}

#[tokio::test]
async fn an_agent_that_has_joined_before_keeps_its_image_and_its_flags() {
    let clusters = start().await;
    let join = "cluster join edge --to-context edge --image registry.example.com/own:9 --agent-flag=--workers=3 --timeout 1s";
    // The container of the agent does not run.
    let silent = clusters.fails(join, 2).await;
    assert!(silent.contains("has not reported within 1 s"), "{silent}");
    secret(&clusters, &kubeconfig(&clusters.workload)).await;
    patch(
        &clusters,
        "edge",
        // What cluster join has applied beside these would make them invalid: another kind of budget, and requests above the limits.
        json!({ "spec": {
            "kubeConfigSecret": SECRET, "privateRepoURL": "mirror.example.com",
            "agentSchedulingCustomization": { "podDisruptionBudget": { "minAvailable": "1" } },
            "agentResources": { "limits": { "cpu": "25m" } },
        } }),
    )
    .await;
    let imported = until_imported_is(&clusters, "edge", "Imported").await;
    assert_eq!(record(&imported)["isAdopted"], true);
    let budget = clusters
        .system()
        .get("poddisruptionbudget/helmops-agent")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (&budget["spec"]["minAvailable"], &budget["spec"]["maxUnavailable"]),
        (&json!(1), &Value::Null)
    );
    let deployment = clusters.system().get(DEPLOYMENT).await.unwrap().unwrap();
    assert_eq!(
        container(&deployment)["image"],
        "mirror.example.com/registry.example.com/own:9"
    );
    assert!(
        container(&deployment)["args"]
            .as_array()
            .unwrap()
            .contains(&json!("--workers=3"))
    );
    assert_eq!(
        container(&deployment)["resources"],
        json!({ "limits": { "cpu": "25m" } })
    );
    // The registry changes, not what is in it; and the agent was stopped on purpose.
    run(&clusters.system(), &["scale", DEPLOYMENT, "--replicas=0"]).await;
    patch(
        &clusters,
        "edge",
        json!({ "spec": { "privateRepoURL": "other.example.com" } }),
    )
    .await;
    let moved = until(&clusters.system(), DEPLOYMENT, |found| {
        let image = &container(found)["image"];
        ensure!(
            image == "other.example.com/registry.example.com/own:9",
            "it is {image}"
        );
        Ok(())
    })
    .await;
    assert_eq!(moved["spec"]["replicas"], 0);
    // Without a kubeconfig, nothing is said of an import.
    patch(&clusters, "edge", json!({ "spec": { "kubeConfigSecret": null } })).await;
    until(&clusters.workspace(), "clusters.fleet.cattle.io/edge", |found| {
        ensure!(condition(found, "Imported").is_none(), "it has the condition");
        Ok(())
    })
    .await;
    let claimed = clusters
        .workload
        .kubectl()
        .get("clusterrolebinding/helmops-agent")
        .await
        .unwrap()
        .unwrap();
    let claim = format!("{}/{WORKSPACE}/edge", uid_of(&clusters.management).await);
    assert_eq!(
        claimed["metadata"]["annotations"]["helmops.fleet.cattle.io/imported-by"],
        claim
    );
}

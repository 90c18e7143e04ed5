//! All ways to install the manifests.

use anyhow::ensure;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::{NAMESPACE, manifests};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::empty;
use super::readme::shell;
use crate::harness::{SOON, run};

pub async fn apply(kubectl: &Kubectl, folder: &str, more: &[&str]) {
    let path = manifests().join(folder);
    let mut arguments = vec!["apply", "--server-side", "-k", path.to_str().unwrap()];
    arguments.extend(more);
    let applied = kubectl.run(&arguments).await.unwrap();
    assert_eq!(applied.stderr, "", "{folder}");
    applied.ok().unwrap();
}

async fn list(kubectl: &Kubectl, kind: &str) -> Vec<Value> {
    let arguments = ["get", kind, "--namespace", NAMESPACE, "--output=json"];
    let found = kubectl.run(&arguments).await.unwrap().ok().unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    found["items"].as_array().unwrap().clone()
}

/// Has the API server validate the pods of the Deployments; the namespace enforces the restricted Pod Security Standard.
async fn check_pods(kubectl: &Kubectl) {
    for deployment in list(kubectl, "deployments").await {
        let name = &deployment["metadata"]["name"];
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": deployment["spec"]["template"]["spec"],
        });
        let create = ["create", "--dry-run=server", "--filename=-"];
        let created = kubectl.run_with_input(&create, &pod.to_string()).await.unwrap();
        assert_eq!(created.stderr, "", "{name}");
        created.ok().unwrap();
    }
}

/// The value of an environment variable in the container of a Deployment.
async fn env_value(kubectl: &Kubectl, deployment: &str, variable: &str) -> Value {
    let found = list(kubectl, "deployments").await;
    let found = found.iter().find(|found| found["metadata"]["name"] == deployment);
    let env = &found.unwrap()["spec"]["template"]["spec"]["containers"][0]["env"];
    let one = env.as_array().unwrap().iter().find(|one| one["name"] == variable);
    one.map_or(Value::Null, |one| one["value"].clone())
}

#[tokio::test]
async fn the_base_standalone_shard_and_namespaced_manifests_install() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    apply(&kubectl, ".", &[]).await;
    check_pods(&kubectl).await;
    assert_eq!(
        env_value(&kubectl, "helmops-controller", "HELMOPS_CONTROLLERS").await,
        Value::Null
    );
    apply(&kubectl, "standalone", &[]).await;
    check_pods(&kubectl).await;
    assert_eq!(
        env_value(&kubectl, "helmops-controller", "HELMOPS_CONTROLLERS").await,
        "helmop,bundle"
    );
    apply(&kubectl, "shard", &[]).await;
    check_pods(&kubectl).await;
    assert_eq!(
        env_value(&kubectl, "helmops-controller-b", "FLEET_SHARD_ID").await,
        "b"
    );
    let team = ["create", "namespace", "team-a"];
    kubectl.run(&team).await.unwrap().ok().unwrap();
    apply(&kubectl, "namespaced", &["--namespace=team-a"]).await;
}

/// The namespaces of agents do not enforce the restricted Pod Security Standard, but pods of the agent meet it.
#[tokio::test]
async fn the_manifests_of_the_agent_install() {
    const RESTRICTED: &str = "restricted";
    let bed = empty().await;
    let kubectl = bed.kubectl();
    for namespace in [RESTRICTED, "web"] {
        run(&kubectl, &["create", "namespace", namespace]).await;
    }
    let enforce = "pod-security.kubernetes.io/enforce=restricted";
    run(&kubectl, &["label", "namespace", RESTRICTED, enforce]).await;
    let account = [
        "create",
        "serviceaccount",
        "helmops-agent",
        "--namespace",
        RESTRICTED,
    ];
    run(&kubectl, &account).await;
    for (folder, more, namespace) in [
        ("agent", [].as_slice(), "cattle-fleet-system"),
        ("agent/namespaced", &[], "cattle-fleet-system"),
        (
            "agent/namespaced/role",
            &["--namespace=web"],
            "cattle-fleet-system",
        ),
        ("local", &[], "cattle-fleet-local-system"),
    ] {
        apply(&kubectl, folder, more).await;
        let found = kubectl
            .in_namespace(namespace)
            .get("deployment/helmops-agent")
            .await;
        let spec = &found.unwrap().unwrap()["spec"]["template"]["spec"];
        let metadata = json!({ "name": "agent", "namespace": RESTRICTED });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
        let create = ["create", "--dry-run=server", "--filename=-"];
        let created = kubectl.run_with_input(&create, &pod.to_string()).await.unwrap();
        assert_eq!(created.stderr, "", "{folder}");
        created.ok().unwrap();
    }
    let example = manifests().join("examples/local-cluster.yaml");
    run(
        &kubectl,
        &["apply", "--server-side", "--filename", example.to_str().unwrap()],
    )
    .await;
}

/// The simulated node starts its pod, so Helm waits for it as on a real cluster.
#[tokio::test]
async fn the_chart_installs_an_agent_alone() {
    let options = Options {
        nodes: true,
        ..Options::default()
    };
    let bed = TestBed::start(&options).await.unwrap();
    let install = "helm install helmops-agent manifests --namespace cattle-fleet-system --create-namespace \
                   --set agent.only=true --wait --timeout=50s";
    let notes = shell(&bed, install).await;
    assert!(notes.contains("waits for the Secret fleet-agent"), "{notes}");
    let names = "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.status.readyReplicas}{\"\\n\"}{end}";
    let list = ["get", "deployments", "--all-namespaces", "--output", names];
    assert_eq!(
        run(&bed.kubectl(), &list).await,
        "cattle-fleet-system/helmops-agent 1\n"
    );
    let crds = ["get", "customresourcedefinitions", "--output=name"];
    assert_eq!(run(&bed.kubectl(), &crds).await, "");
}

/// Without a running replica of the webhook, requests that it would never deny still succeed.
#[tokio::test]
async fn an_outage_of_the_webhook_blocks_only_changes_of_specs() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    apply(&kubectl, "crd", &[]).await;
    let helmop = |version: &str| {
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1",
            "kind": "HelmOp",
            "metadata": { "name": "web", "namespace": "default", "finalizers": ["example.com/hold"] },
            "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web", "version": version } },
        })
        .to_string()
    };
    kubectl.apply(&helmop("1.0.0")).await.unwrap().ok().unwrap();
    apply(&kubectl, ".", &[]).await;
    eventually("the API server to call the webhook", SOON, async || {
        let error = kubectl.apply(&helmop("1.0.1")).await?.stderr;
        ensure!(
            error.contains("failed calling webhook \"validate.helmops"),
            "the error is {error:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    let finalizers = r#"{"metadata":{"finalizers":null}}"#;
    for harmless in [
        &["label", "helmop/web", "team=a"][..],
        &[
            "annotate",
            "helmop/web",
            "helmops.fleet.cattle.io/poll-requested-at=1",
        ],
        &["delete", "helmop/web", "--wait=false"],
        &["patch", "helmop/web", "--type=merge", "--patch", finalizers],
    ] {
        kubectl.run(harmless).await.unwrap().ok().unwrap();
    }
    assert_eq!(kubectl.get("helmop/web").await.unwrap(), None);
}

/// Fleet's own CRDs stay as they are; those of notifications have a group of their own.
#[tokio::test]
async fn beside_fleet_no_crd_of_fleet_is_installed() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    apply(&kubectl, "beside-fleet", &[]).await;
    check_pods(&kubectl).await;
    let crds = list(&kubectl, "customresourcedefinitions").await;
    let groups: Vec<_> = crds.iter().map(|crd| &crd["spec"]["group"]).collect();
    assert_eq!(groups, ["helmops.fleet.cattle.io"; 3]);
}

/// The manifests for other operators can only be built, because their CRDs are not installed.
#[tokio::test]
async fn manifests_for_other_operators_build() {
    let bed = empty().await;
    for (folder, kinds) in [
        (
            "monitoring",
            ["kind: ServiceMonitor", "kind: PrometheusRule", "kind: ConfigMap"].as_slice(),
        ),
        (
            "../certs/cert-manager",
            &["kind: Certificate", "kind: Issuer", "--tls-source=files"],
        ),
    ] {
        let path = manifests().join(folder);
        let built = bed
            .kubectl()
            .run(&["kustomize", path.to_str().unwrap()])
            .await
            .unwrap();
        let built = built.ok().unwrap();
        for kind in kinds {
            assert!(built.contains(kind), "{folder} has no {kind}");
        }
    }
}

//! From an empty cluster to a running chart, and back, with only the commands in README.md and docs/install.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::ensure;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::command::run;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::{NAMESPACE, Running, manifests};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::node::{self, Pod};
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use tokio::process::Command;
use tokio::time::sleep;

use super::empty;
use crate::harness::SOON;

/// The line before the commands at the beginning of README.md.
pub const INSTALL: &str = "install helmops on a cluster, with an agent for this cluster itself:";
/// The lines before commands in docs/install.md.
const DELETE_WITH_KUBECTL: &str = "is that folder in place of `manifests/local`:";
const DELETE_WITH_HELM: &str = "With Helm:";

/// The first HelmOp, and the repository that it names.
const FIRST: &str = "manifests/examples/range.yaml";
const REPOSITORY: &str = "https://stefanprodan.github.io/podinfo";

/// Helm waits for deletions, and the API server for those of CRDs.
const DEADLINE: Duration = Duration::from_mins(1);
/// Between two writes during an upgrade.
const BETWEEN_WRITES: Duration = Duration::from_millis(50);
/// The controller manager creates the default objects of a namespace within a second.
const CREATED: Duration = Duration::from_mins(1);
/// The garbage collector deletes pods and other dependents within seconds after their owners.
const COLLECTED: Duration = Duration::from_mins(1);

fn checkout() -> PathBuf {
    manifests().parent().unwrap().to_owned()
}

/// The commands under a heading of a document: its first shell block.
pub fn commands(document: &str, heading: &str) -> String {
    block(document, heading, "sh")
}

/// The text under a heading, up to the next one of its level.
pub fn section(document: &str, heading: &str) -> String {
    let text = fs::read_to_string(checkout().join(document)).unwrap();
    let (_, section) = text.split_once(&format!("\n{heading}\n")).unwrap();
    section.split("\n## ").next().unwrap().to_owned()
}

/// The first block in a language under a line of a document.
pub fn block(document: &str, line: &str, language: &str) -> String {
    let text = fs::read_to_string(checkout().join(document)).unwrap();
    let (_, section) = text.split_once(&format!("\n{line}\n")).unwrap();
    let block = section.split_once(&format!("\n```{language}\n")).unwrap().1;
    block.split_once("\n```").unwrap().0.to_owned()
}

/// Runs the commands under a heading in the checkout, with kubectl and Helm in PATH.
async fn follow(bed: &TestBed, document: &str, heading: &str) -> String {
    shell(bed, &commands(document, heading)).await
}

/// Runs commands in the checkout, with kubectl and Helm in PATH.
pub async fn shell(bed: &TestBed, commands: &str) -> String {
    let mut shell = Command::new("sh");
    let path = std::env::var("PATH").unwrap();
    let tools = bed.tools.kubectl();
    let tools = tools.parent().unwrap().display();
    shell
        .args(["-eu", "-c", commands])
        .current_dir(checkout())
        .env("PATH", format!("{tools}:{path}"))
        .env("KUBECONFIG", &bed.kubeconfig)
        .env("HELM_CACHE_HOME", bed.directory.join("helm"))
        .env("HELM_CONFIG_HOME", bed.directory.join("helm"))
        .env("HELM_DATA_HOME", bed.directory.join("helm"));
    run(shell, "", DEADLINE).await.unwrap().ok().unwrap()
}

/// Does the work of a node: runs the pods and reports that they are ready.
pub async fn run_pods(bed: &TestBed) -> [Pod; 2] {
    let webhook = run_webhook(bed, "helmops-webhook-0").await;
    let controller = run_pod(bed, "helmops-controller", "helmops-controller-0").await;
    node::mark_pods_ready(&bed.kubectl()).await.unwrap();
    [webhook, controller]
}

async fn run_pod(bed: &TestBed, deployment: &str, pod: &str) -> Pod {
    let command = |program: &Path| bed.command(program);
    node::run_pod(bed, deployment, pod, &command).await.unwrap()
}

/// Runs a pod of the webhook, and routes its Service there when it is ready.
async fn run_webhook(bed: &TestBed, pod: &str) -> Pod {
    let mut webhook = run_pod(bed, "helmops-webhook", pod).await;
    let Running { process, admin, .. } = &mut webhook.running;
    process.until_ready(admin, DEADLINE).await.unwrap();
    node::route_service_to(&bed.kubectl(), &webhook).await.unwrap();
    webhook
}

/// A rolling update: the new pod is ready before the old one is terminated.
async fn replace_webhook(bed: &TestBed, webhook: &mut Pod) {
    let next = run_webhook(bed, "helmops-webhook-1").await;
    let mut previous = std::mem::replace(webhook, next);
    let status = previous.running.process.terminate(DEADLINE).await.unwrap();
    assert!(status.success(), "{status}");
}

/// Kind, namespace and name of all objects that exist until a client deletes them.
async fn all_objects(kubectl: &Kubectl) -> BTreeSet<String> {
    let kinds = ["api-resources", "--verbs=list", "--output=name"];
    let kinds = kubectl.run(&kinds).await.unwrap().ok().unwrap();
    let is_transient = |kind: &&str| kind.starts_with("events") || kind.starts_with("apiservices");
    let kinds: Vec<_> = kinds.lines().filter(|kind| !is_transient(kind)).collect();
    let format = "jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
    let get = ["get", &kinds.join(","), "--all-namespaces", "--output", format];
    let found = kubectl.run(&get).await.unwrap().ok().unwrap();
    found.lines().map(str::to_owned).collect()
}

/// The objects that a control plane creates itself, some of them after its API server is ready.
async fn initial_objects(kubectl: &Kubectl) -> BTreeSet<String> {
    eventually("the initial objects of the control plane", CREATED, async || {
        let found = all_objects(kubectl).await;
        for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            for (kind, name) in [("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")] {
                let object = format!("{kind}/{namespace}/{name}");
                ensure!(found.contains(&object), "there is no {object}");
            }
        }
        let is_lease = |object: &String| object.starts_with("Lease/kube-system/apiserver-");
        ensure!(found.iter().any(is_lease), "the API server has no Lease");
        Ok(found)
    })
    .await
    .unwrap()
}

/// Waits until the objects that did not exist before are the expected ones.
async fn until_remaining(kubectl: &Kubectl, before: &BTreeSet<String>, expected: &[&str]) {
    let expected: BTreeSet<_> = expected.iter().map(|&object| object.to_owned()).collect();
    eventually("only the expected objects to remain", COLLECTED, async || {
        let now: BTreeSet<_> = &all_objects(kubectl).await - before;
        ensure!(now == expected, "these remain: {now:#?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// The first HelmOp of README.md, which has to deploy its chart. Its repository is one of this machine.
async fn first_helmop(bed: &TestBed) {
    let folder = bed.directory.join("charts");
    let charts = ChartRepo::build(&bed.tools, &folder, &[("podinfo", &["6.1.0"])]).await;
    let charts = charts.unwrap();
    let server = ChartServer::http(charts.folder()).await.unwrap();
    let example = fs::read_to_string(checkout().join(FIRST)).unwrap();
    assert!(example.contains(REPOSITORY));
    let file = bed.directory.join("first.yaml");
    fs::write(&file, example.replace(REPOSITORY, &server.url())).unwrap();
    let commands = commands("README.md", "### A first HelmOp");
    assert!(commands.contains(FIRST));
    shell(bed, &commands.replace(FIRST, file.to_str().unwrap())).await;
    let get = commands.lines().last().unwrap();
    eventually("the chart to run", SOON, async || {
        let found = shell(bed, get).await;
        ensure!(found.contains("6.1.0") && found.contains("1/1"), "{found}");
        Ok(())
    })
    .await
    .unwrap();
    let bad = example.replace("https://", "");
    let denied = bed.kubectl().apply(&bad).await.unwrap().stderr;
    assert!(denied.contains("spec.helm.repo: Invalid value"), "{denied}");
}

/// A HelmOp for dry runs.
fn probe() -> String {
    let example = fs::read_to_string(checkout().join(FIRST)).unwrap();
    example.replace("namespace: fleet-local", "namespace: default")
}

/// The processes of an installation on one cluster: the webhook, the controller and the agent.
async fn run_local_pods(bed: &TestBed) -> [Pod; 3] {
    let [webhook, controller] = run_pods(bed).await;
    let command = |program: &Path| bed.command(program);
    let agent = node::run_local_agent_pod(bed, "helmops-agent-0", &command).await;
    [webhook, controller, agent.unwrap()]
}

/// An empty cluster with a simulated node, whose pods become ready.
async fn empty_with_a_node() -> TestBed {
    let options = Options {
        nodes: true,
        ..Options::default()
    };
    TestBed::start(&options).await.unwrap()
}

/// Which loops the controller runs.
async fn controllers(kubectl: &Kubectl) -> String {
    let path = "jsonpath={..env[?(@.name==\"HELMOPS_CONTROLLERS\")].value}";
    let deployment = ["deployment/helmops-controller", "--namespace", NAMESPACE];
    let get = [&["get", "--output", path][..], &deployment].concat();
    kubectl.run(&get).await.unwrap().ok().unwrap()
}

/// Installs again, and replaces the pod of the webhook, while HelmOps are written: none is rejected, and the same CA is trusted
/// afterwards.
async fn upgrade(bed: &TestBed, command: &str, webhook: &mut Pod) {
    let kubectl = bed.kubectl();
    let probe = probe();
    let ca_bundle = async || {
        let configuration = kubectl
            .get("validatingwebhookconfiguration/helmops")
            .await
            .unwrap()
            .unwrap();
        configuration["webhooks"][0]["clientConfig"]["caBundle"].clone()
    };
    let before = ca_bundle().await;
    assert!(before.is_string(), "{before}");
    let mut writes = 0;
    let mut upgrading = pin!(async {
        let printed = shell(bed, command).await;
        replace_webhook(bed, webhook).await;
        printed
    });
    // A run of kubectl for each of them would slow down what is upgraded.
    let (written, namespace) = (
        serde_saphyr::from_str(&probe).unwrap(),
        kubectl.in_namespace("default"),
    );
    loop {
        let write = async {
            assert_eq!(namespace.rejection(&written).await.unwrap(), "");
            sleep(BETWEEN_WRITES).await;
        };
        tokio::select! {
            biased;
            printed = &mut upgrading => break assert!(!printed.contains("conflict"), "{printed}"),
            () = write => writes += 1,
        }
    }
    assert!(writes > 0);
    assert_eq!(ca_bundle().await, before);
    let create = ["create", "--dry-run=server", "--filename=-"];
    kubectl
        .run_with_input(&create, &probe)
        .await
        .unwrap()
        .ok()
        .unwrap();
}

const CRDS: [&str; 6] = [
    "CustomResourceDefinition//alertproviders.helmops.fleet.cattle.io",
    "CustomResourceDefinition//alerts.helmops.fleet.cattle.io",
    "CustomResourceDefinition//bundles.fleet.cattle.io",
    "CustomResourceDefinition//helmops.fleet.cattle.io",
    "CustomResourceDefinition//policies.fleet.cattle.io",
    "CustomResourceDefinition//receivers.helmops.fleet.cattle.io",
];

/// Deletes what the uninstallation without Fleet keeps: the namespaces of clusters and of charts.
async fn delete_kept(kubectl: &Kubectl) {
    for namespace in [
        ["--selector", "fleet.cattle.io/managed=true"].as_slice(),
        &["web"],
    ] {
        let delete = [&["delete", "namespace"], namespace].concat();
        kubectl.run(&delete).await.unwrap().ok().unwrap();
    }
}

#[tokio::test]
async fn a_chart_runs_and_everything_is_deleted_with_kubectl() {
    let bed = empty_with_a_node().await;
    let kubectl = bed.kubectl();
    let before = initial_objects(&kubectl).await;
    follow(&bed, "README.md", "### With kubectl").await;
    let mut pods = run_local_pods(&bed).await;
    first_helmop(&bed).await;
    let again = "kubectl apply --server-side -k manifests/local";
    assert!(section("docs/install.md", "## Upgrade").contains(again));
    upgrade(&bed, again, &mut pods[0]).await;
    assert_eq!(controllers(&kubectl).await, "helmop,bundle");
    for addition in ["manifests/notifications", "manifests/admission-policies"] {
        shell(&bed, &format!("kubectl apply --server-side -k {addition}")).await;
    }
    follow(&bed, "docs/install.md", "### Without Fleet").await;
    drop(pods);
    shell(&bed, &commands("docs/install.md", DELETE_WITH_KUBECTL)).await;
    delete_kept(&kubectl).await;
    until_remaining(&kubectl, &before, &[]).await;
}

#[tokio::test]
async fn a_chart_runs_and_everything_is_deleted_with_helm() {
    let bed = empty_with_a_node().await;
    let kubectl = bed.kubectl();
    let before = initial_objects(&kubectl).await;
    let notes = follow(&bed, "README.md", "### With Helm").await;
    assert!(notes.contains("Cluster fleet-local/local"), "{notes}");
    let mut pods = run_local_pods(&bed).await;
    first_helmop(&bed).await;
    let again = "helm upgrade helmops manifests --namespace helmops-system";
    assert!(section("docs/install.md", "## Upgrade").contains(again));
    upgrade(&bed, again, &mut pods[0]).await;
    assert_eq!(controllers(&kubectl).await, "helmop,bundle");
    follow(&bed, "docs/install.md", "### Without Fleet").await;
    drop(pods);
    shell(&bed, &commands("docs/install.md", DELETE_WITH_HELM)).await;
    delete_kept(&kubectl).await;
    until_remaining(&kubectl, &before, &[]).await;
}

/// Beside another bundle controller, with all additions.
#[tokio::test]
async fn uninstalling_with_kubectl_keeps_the_crds_only() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    let before = initial_objects(&kubectl).await;
    for folder in [
        "manifests",
        "manifests/notifications",
        "manifests/admission-policies",
    ] {
        shell(&bed, &format!("kubectl apply --server-side -k {folder}")).await;
    }
    follow(&bed, "docs/install.md", "### Uninstall with kubectl").await;
    until_remaining(&kubectl, &before, &CRDS).await;
    let create = ["create", "--dry-run=server", "--filename=-"];
    let created = kubectl.run_with_input(&create, &probe()).await;
    created.unwrap().ok().unwrap();
    follow(&bed, "docs/install.md", "### Delete the CRDs").await;
    until_remaining(&kubectl, &before, &[]).await;
}

#[tokio::test]
async fn uninstalling_with_helm_keeps_the_crds_and_the_namespace() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    let before = initial_objects(&kubectl).await;
    let install = "helm install helmops manifests --namespace helmops-system --create-namespace";
    let notes = shell(&bed, install).await;
    assert!(
        notes.contains("helmops 0.1.0 is in namespace helmops-system"),
        "{notes}"
    );
    let mut pods = run_pods(&bed).await;
    let scale = "helm upgrade helmops manifests --namespace helmops-system --set webhook.replicas=3";
    upgrade(&bed, scale, &mut pods[0]).await;
    drop(pods);
    follow(&bed, "docs/install.md", "### Uninstall with Helm").await;
    let namespace = [
        "Namespace//helmops-system",
        "ConfigMap/helmops-system/kube-root-ca.crt",
        "ServiceAccount/helmops-system/default",
        "Lease/helmops-system/fleet-helmops-leader-election-shard",
    ];
    until_remaining(&kubectl, &before, &[&CRDS[..], &namespace].concat()).await;
    follow(&bed, "docs/install.md", "### Delete what Helm keeps").await;
    until_remaining(&kubectl, &before, &[]).await;
}

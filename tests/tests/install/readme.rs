//! From an empty cluster to the first HelmOp, and back, by the commands of README.md and docs/install.md alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::ensure;
use helmops_tests::command::run;
use helmops_tests::helmops::{Running, manifests};
use helmops_tests::kubectl::Kubectl;
use helmops_tests::node::{self, Pod};
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;
use tokio::process::Command;

use crate::empty;

/// Helm waits for deletions, and the API server for those of definitions.
const DEADLINE: Duration = Duration::from_mins(1);
/// The controller manager makes what belongs to a namespace within a second.
const MADE: Duration = Duration::from_mins(1);
/// The garbage collector takes pods and their like away within seconds of what they belong to.
const GONE: Duration = Duration::from_mins(1);

fn checkout() -> PathBuf {
    manifests().parent().unwrap().to_owned()
}

/// The commands under a heading of a document: its first block of shell.
fn commands(document: &str, heading: &str) -> String {
    let text = std::fs::read_to_string(checkout().join(document)).unwrap();
    let (_, section) = text.split_once(&format!("\n{heading}\n")).unwrap();
    let block = section.split_once("\n```sh\n").unwrap().1;
    block.split_once("\n```").unwrap().0.to_owned()
}

/// Runs them as somebody would who has kubectl and Helm, in the checkout.
async fn follow(bed: &TestBed, document: &str, heading: &str) -> String {
    shell(bed, &commands(document, heading)).await
}

async fn shell(bed: &TestBed, commands: &str) -> String {
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

/// What a node does: it runs the pods, and tells that they are ready.
async fn run_pods(bed: &TestBed) -> [Pod; 2] {
    let webhook = run_webhook(bed, "helmops-webhook-0").await;
    let controller = run_pod(bed, "helmops-controller", "helmops-controller-0").await;
    node::tell_ready(&bed.kubectl()).await.unwrap();
    [webhook, controller]
}

async fn run_pod(bed: &TestBed, deployment: &str, pod: &str) -> Pod {
    let command = |program: &Path| bed.command(program);
    node::run_pod(bed, deployment, pod, &command).await.unwrap()
}

/// Runs a pod of the webhook, and leads its Service there when it is ready.
async fn run_webhook(bed: &TestBed, pod: &str) -> Pod {
    let mut webhook = run_pod(bed, "helmops-webhook", pod).await;
    let Running { process, admin, .. } = &mut webhook.running;
    process.until_ready(admin, DEADLINE).await.unwrap();
    node::lead_to(&bed.kubectl(), &webhook).await.unwrap();
    webhook
}

/// What a node does when a Deployment has new pods: another is ready before the one before it is ended.
async fn replace_webhook(bed: &TestBed, webhook: &mut Pod) {
    let next = run_webhook(bed, "helmops-webhook-1").await;
    let mut before = std::mem::replace(webhook, next);
    let status = before.running.process.terminate(DEADLINE).await.unwrap();
    assert!(status.success(), "{status}");
}

/// Kind, namespace and name of all objects that stay until somebody deletes them.
async fn everything(kubectl: &Kubectl) -> BTreeSet<String> {
    let kinds = ["api-resources", "--verbs=list", "--output=name"];
    let kinds = kubectl.run(&kinds).await.unwrap().ok().unwrap();
    let passing = |kind: &&str| kind.starts_with("events") || kind.starts_with("apiservices");
    let kinds: Vec<_> = kinds.lines().filter(|kind| !passing(kind)).collect();
    let format = "jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
    let get = ["get", &kinds.join(","), "--all-namespaces", "--output", format];
    let found = kubectl.run(&get).await.unwrap().ok().unwrap();
    found.lines().map(str::to_owned).collect()
}

/// All that a control plane makes for itself. It makes some of it after its API server is ready.
async fn nothing_installed(kubectl: &Kubectl) -> BTreeSet<String> {
    eventually("all that a control plane makes for itself", MADE, async || {
        let found = everything(kubectl).await;
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

/// Checks what is there that was not there before.
async fn remains(kubectl: &Kubectl, before: &BTreeSet<String>, expected: &[&str]) {
    let expected: BTreeSet<_> = expected.iter().map(|&object| object.to_owned()).collect();
    eventually("nothing else to remain", GONE, async || {
        let now: BTreeSet<_> = &everything(kubectl).await - before;
        ensure!(now == expected, "there is {now:#?}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn first_helmop(bed: &TestBed) {
    let printed = follow(bed, "README.md", "### A first HelmOp").await;
    assert!(
        printed.contains("helmop.fleet.cattle.io/web created"),
        "{printed}"
    );
    let kubectl = bed.kubectl();
    let bad = std::fs::read_to_string(manifests().join("examples/range.yaml")).unwrap();
    let refused = kubectl.apply(&bad.replace("https://", "")).await.unwrap().stderr;
    assert!(refused.contains("spec.helm.repo: Invalid value"), "{refused}");
    let delete = ["delete", "namespace", "fleet-default"];
    kubectl.run(&delete).await.unwrap().ok().unwrap();
}

/// Installs once more, and replaces the pod of the webhook, while HelmOps are written: none is refused, and the certificate is
/// trusted after it as before.
async fn upgrade(bed: &TestBed, command: &str, webhook: &mut Pod) {
    let kubectl = bed.kubectl();
    let probe = std::fs::read_to_string(manifests().join("examples/range.yaml")).unwrap();
    let probe = probe.replace("namespace: fleet-default", "namespace: default");
    let trusted = async || {
        let configuration = kubectl
            .get("validatingwebhookconfiguration/helmops")
            .await
            .unwrap()
            .unwrap();
        configuration["webhooks"][0]["clientConfig"]["caBundle"].clone()
    };
    let before = trusted().await;
    assert!(before.is_string(), "{before}");
    let mut writes = 0;
    let mut upgrading = pin!(async {
        let printed = shell(bed, command).await;
        replace_webhook(bed, webhook).await;
        printed
    });
    let create = ["create", "--dry-run=server", "--filename=-"];
    loop {
        let write = async {
            kubectl
                .run_with_input(&create, &probe)
                .await
                .unwrap()
                .ok()
                .unwrap()
        };
        tokio::select! {
            biased;
            printed = &mut upgrading => break assert!(!printed.contains("conflict"), "{printed}"),
            _ = write => writes += 1,
        }
    }
    assert!(writes > 0);
    assert_eq!(trusted().await, before);
    kubectl
        .run_with_input(&create, &probe)
        .await
        .unwrap()
        .ok()
        .unwrap();
}

const DEFINITIONS: [&str; 3] = [
    "CustomResourceDefinition//bundles.fleet.cattle.io",
    "CustomResourceDefinition//helmops.fleet.cattle.io",
    "CustomResourceDefinition//policies.fleet.cattle.io",
];

#[tokio::test]
async fn with_kubectl() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    let before = nothing_installed(&kubectl).await;
    follow(&bed, "README.md", "### With kubectl").await;
    let mut pods = run_pods(&bed).await;
    first_helmop(&bed).await;
    let again = "kubectl apply --server-side -k manifests";
    upgrade(&bed, again, &mut pods[0]).await;
    drop(pods);
    follow(&bed, "docs/install.md", "### Uninstall with kubectl").await;
    remains(&kubectl, &before, &DEFINITIONS).await;
    follow(&bed, "docs/install.md", "### Delete the CRDs").await;
    remains(&kubectl, &before, &[]).await;
}

#[tokio::test]
async fn with_helm() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    let before = nothing_installed(&kubectl).await;
    let notes = follow(&bed, "README.md", "### With Helm").await;
    assert!(
        notes.contains("helmops 0.1.0 is in namespace helmops-system"),
        "{notes}"
    );
    let mut pods = run_pods(&bed).await;
    first_helmop(&bed).await;
    let more = "helm upgrade helmops manifests --namespace helmops-system --set webhook.replicas=3";
    upgrade(&bed, more, &mut pods[0]).await;
    drop(pods);
    follow(&bed, "docs/install.md", "### Uninstall with Helm").await;
    let namespace = [
        "Namespace//helmops-system",
        "ConfigMap/helmops-system/kube-root-ca.crt",
        "ServiceAccount/helmops-system/default",
        "Lease/helmops-system/fleet-helmops-leader-election-shard",
        "Secret/helmops-system/helmops-webhook-tls",
    ];
    remains(&kubectl, &before, &[&DEFINITIONS[..], &namespace].concat()).await;
    follow(&bed, "docs/install.md", "### Delete what Helm keeps").await;
    remains(&kubectl, &before, &[]).await;
}

//! From an empty cluster to the first HelmOp, and back, by the commands of README.md and docs/install.md alone.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use helmops_tests::command::run;
use helmops_tests::helmops::manifests;
use helmops_tests::kubectl::Kubectl;
use helmops_tests::node::{self, Pod};
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;
use tokio::process::Command;

use crate::empty;

/// Helm waits for deletions, and the API server for those of definitions.
const DEADLINE: Duration = Duration::from_mins(1);
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
    let command = |program: &std::path::Path| bed.command(program);
    let mut pods = Vec::new();
    for deployment in ["helmops-webhook", "helmops-controller"] {
        pods.push(
            node::run_pod(bed, deployment, &format!("{deployment}-0"), &command)
                .await
                .unwrap(),
        );
    }
    let [mut webhook, controller] = <[Pod; 2]>::try_from(pods).unwrap();
    node::lead_to(&bed.kubectl(), &webhook).await.unwrap();
    let admin = webhook.running.admin.clone();
    webhook
        .running
        .process
        .until_ready(&admin, DEADLINE)
        .await
        .unwrap();
    node::tell_ready(&bed.kubectl()).await.unwrap();
    [webhook, controller]
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

/// Installs once more, with more replicas, while HelmOps are written: none is refused, and the certificate is trusted after
/// it as before.
async fn upgrade(bed: &TestBed, command: &str) {
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
    let (mut writes, mut upgrading) = (0, Box::pin(shell(bed, command)));
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
    let before = everything(&kubectl).await;
    follow(&bed, "README.md", "### With kubectl").await;
    let pods = run_pods(&bed).await;
    first_helmop(&bed).await;
    upgrade(&bed, "kubectl apply --server-side -k manifests").await;
    drop(pods);
    follow(&bed, "docs/install.md", "### With kubectl: the processes").await;
    remains(&kubectl, &before, &DEFINITIONS).await;
    follow(&bed, "docs/install.md", "### With kubectl: the kinds").await;
    remains(&kubectl, &before, &[]).await;
}

#[tokio::test]
async fn with_helm() {
    let bed = empty().await;
    let kubectl = bed.kubectl();
    let before = everything(&kubectl).await;
    let notes = follow(&bed, "README.md", "### With Helm").await;
    assert!(
        notes.contains("helmops 0.1.0 is in namespace helmops-system"),
        "{notes}"
    );
    let pods = run_pods(&bed).await;
    first_helmop(&bed).await;
    upgrade(
        &bed,
        "helm upgrade helmops manifests --namespace helmops-system --set webhook.replicas=3",
    )
    .await;
    drop(pods);
    follow(&bed, "docs/install.md", "### With Helm").await;
    let namespace = [
        "Namespace//helmops-system",
        "ConfigMap/helmops-system/kube-root-ca.crt",
        "ServiceAccount/helmops-system/default",
        "Lease/helmops-system/fleet-helmops-leader-election-shard",
        "Secret/helmops-system/helmops-webhook-tls",
    ];
    remains(&kubectl, &before, &[&DEFINITIONS[..], &namespace].concat()).await;
    follow(&bed, "docs/install.md", "### With Helm: the rest").await;
    remains(&kubectl, &before, &[]).await;
}

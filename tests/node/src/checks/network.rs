//! Network policies, enforced by kube-router. It stays until the end, so that all later sections run under them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::command;
use helmops_bed::test_bed::binary;
use serde_json::json;
use tokio::process::Command;

use super::PROCESSES;
use crate::node::{Program, cgroup};
use crate::report::Report;
use crate::site::{Site, container};

const DEADLINE: Duration = Duration::from_secs(15);
const METADATA: &str = "169.254.169.254";
const METRICS: u16 = 8081;
const PROBES: u16 = 8082;

pub async fn run(site: &mut Site, report: &mut Report) -> Result<()> {
    ip(&["address", "add", "169.254.169.254/32", "dev", "node0"]).await?;
    let _metadata = metadata_service().await?;
    for namespace in ["curious", "monitoring"] {
        client(site, namespace).await?;
    }
    site.run(&["label", "namespace", "monitoring", "metrics=enabled"])
        .await?;
    let metadata = format!("{METADATA}:8080");
    let open = dial(site, Peer::Process("helmops-controller"), &metadata);
    report
        .check("without enforcement the metadata address is reached", open)
        .await;
    site.node.start_program(Program::KubeRouter)?;
    let curious = Peer::Client("curious");
    for process in PROCESSES {
        let address = site.address(process).await?;
        let metrics = format!("{address}:{METRICS}");
        let probes = format!("{address}:{PROBES}");
        let what = format!("{process}: metrics are refused to a namespace without the label");
        report
            .within(30, &what, async || refused(site, curious, &metrics).await)
            .await;
        let what = format!("{process}: metrics are open to one with the label, and probes to all");
        let allowed = async {
            dial(site, Peer::Client("monitoring"), &metrics).await?;
            dial(site, curious, &probes).await
        };
        report.check(&what, allowed).await;
        let what = format!("{process}: the metadata address is refused, the API server is not");
        let own = async {
            refused(site, Peer::Process(process), &metadata).await?;
            dial(site, Peer::Process(process), "10.96.0.1:443").await
        };
        report.check(&what, own).await;
    }
    let service = site.get("charts", "service/charts").await?;
    let charts = format!("{}:80", service["spec"]["clusterIP"].as_str().unwrap_or_default());
    report
        .check(
            "the repository of charts is open",
            dial(site, Peer::Process("helmops-controller"), &charts),
        )
        .await;
    site.apply("policed", &json!({ "helm": { "version": "0.1.0" } }))
        .await?;
    report
        .within(60, "a chart is deployed under enforcement", async || {
            site.ready("policed").await
        })
        .await;
    site.delete(&["policed"]).await?;
    site.run(&["delete", "namespace", "curious", "monitoring", "--wait=false"])
        .await?;
    Ok(())
}

/// A pod that opens connections.
#[derive(Clone, Copy)]
enum Peer {
    Process(&'static str),
    /// The pod `client` of a namespace.
    Client(&'static str),
}

async fn client(site: &Site, namespace: &str) -> Result<()> {
    let pod = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } },
        { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "client", "namespace": namespace }, "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "app", "image": "node.test/app:1", "imagePullPolicy": "Never", "args": ["pause"] }],
        } },
    ] });
    // The controller creates the ServiceAccount of a new namespace a moment later.
    let apply = async || {
        let applied = site.kubectl.apply(&pod.to_string()).await?;
        applied.ok().map(drop)
    };
    helmops_bed::wait::eventually("a pod", DEADLINE, apply).await?;
    let namespace = format!("--namespace={namespace}");
    let wait = [
        "wait",
        &namespace,
        "--for=condition=Ready",
        "pod/client",
        "--timeout=30s",
    ];
    site.run(&wait).await.map(drop)
}

/// Something that accepts connections at the metadata address of clouds.
async fn metadata_service() -> Result<tokio::task::JoinHandle<()>> {
    let listener = tokio::net::TcpListener::bind((METADATA, 8080)).await?;
    Ok(tokio::task::spawn_local(async move {
        while let Ok((connection, _)) = listener.accept().await {
            drop(connection);
        }
    }))
}

/// Opens a connection from the network namespace of a pod.
async fn dial(site: &Site, from: Peer, address: &str) -> Result<()> {
    let pod = match from {
        Peer::Process(process) => site.pod(process).await?,
        Peer::Client(namespace) => site.get(namespace, "pod/client").await?,
    };
    let pid = *cgroup::processes(&container(&pod)?)?
        .first()
        .context("it has no process")?;
    let mut dial = Command::new("nsenter");
    dial.arg(format!("--target={pid}"))
        .arg("--net")
        .arg(binary("node-app")?)
        .args(["dial", address]);
    let output = command::run(dial, "", DEADLINE).await?;
    ensure!(output.status.success(), "{}", output.stdout.trim());
    Ok(())
}

async fn refused(site: &Site, from: Peer, address: &str) -> Result<()> {
    let result = dial(site, from, address).await;
    ensure!(result.is_err(), "{address} accepts connections");
    Ok(())
}

async fn ip(arguments: &[&str]) -> Result<()> {
    let mut ip = Command::new("ip");
    ip.args(arguments);
    command::run(ip, "", DEADLINE).await?.ok().map(drop)
}

//! From an empty cluster to a running workload, with only the commands in README.md and docs/agent.md: helmops without Fleet, and an
//! agent for the cluster itself.

use std::path::Path;

use anyhow::ensure;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::node;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;

use super::readme::{INSTALL, block, commands, run_pods, shell};
use crate::harness::{SOON, run, until, until_none};

/// The line before the block of README.md.
const HELMOP: &str = "One HelmOp, and the chart runs:";
/// The only thing that is replaced: no repository of this name exists.
const REPOSITORY: &str = "https://charts.example.com";

/// The cells of the rows of a table, without its header and its last column, the age.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let rows = table.lines().skip(1).map(|row| {
        let mut cells: Vec<_> = row.split_whitespace().collect();
        cells.pop();
        cells
    });
    rows.collect()
}

/// What the example in README.md shows after a command.
fn shown(command: &str) -> String {
    let console = block("README.md", HELMOP, "console");
    let (_, output) = console.split_once(&format!("$ {command}\n")).unwrap();
    let output = output.split("\n$ ").next().unwrap();
    output.to_owned()
}

/// Applies the HelmOp of README.md, which has to end as README.md shows.
async fn first_helmop(bed: &TestBed) {
    let folder = bed.directory.join("charts");
    let charts = ChartRepo::build(&bed.tools, &folder, &[("web", &["0.1.0", "0.2.0", "1.0.0"])])
        .await
        .unwrap();
    let server = ChartServer::http(charts.folder()).await.unwrap();
    let helmop = block("README.md", HELMOP, "yaml");
    assert!(helmop.contains(REPOSITORY));
    let kubectl = bed.kubectl();
    let applied = kubectl.apply(&helmop.replace(REPOSITORY, &server.url())).await;
    applied.unwrap().ok().unwrap();
    let get = "kubectl -n fleet-local get helmops";
    let expected = shown(get);
    eventually("the HelmOp to be as in README.md", SOON, async || {
        let found = shell(bed, get).await;
        ensure!(rows(&found) == rows(&expected), "{found}");
        Ok(())
    })
    .await
    .unwrap();
    let releases = shell(bed, "helm -n shop list").await;
    let expected = shown("helm -n shop list");
    for cell in &rows(&expected)[0] {
        assert!(releases.contains(cell), "{cell} is not in {releases}");
    }
    let shop = kubectl.in_namespace("shop");
    until(&shop, "deployment/web", |deployment| {
        ensure!(
            deployment["status"]["readyReplicas"] == 1,
            "{}",
            deployment["status"]
        );
        Ok(())
    })
    .await;
    uninstalls(&kubectl, &shop).await;
}

async fn uninstalls(kubectl: &Kubectl, shop: &Kubectl) {
    run(kubectl, &["delete", "helmop/web", "--namespace=fleet-local"]).await;
    until_none(shop, "deployment/web").await;
    until_none(shop, "secret/sh.helm.release.v1.web.v1").await;
}

/// An empty cluster with a simulated node, on which these commands install everything.
async fn installed(commands: &str) {
    let options = Options {
        nodes: true,
        ..Options::default()
    };
    let bed = TestBed::start(&options).await.unwrap();
    shell(&bed, commands).await;
    // The simulated node runs no containers: these processes do their work.
    let _pods = run_pods(&bed).await;
    let command = |program: &Path| bed.command(program);
    let _agent = node::run_local_agent_pod(&bed, "helmops-agent-0", &command)
        .await
        .unwrap();
    first_helmop(&bed).await;
}

/// Installers wait until it is ready, and only then register the cluster.
#[tokio::test]
async fn an_agent_is_ready_before_its_cluster_is_registered() {
    let bed = helmops::local_control_plane(false).await.unwrap();
    let local = [
        "delete",
        "clusters.fleet.cattle.io/local",
        "--namespace=fleet-local",
    ];
    run(&bed.kubectl(), &local).await;
    let command = |program: &Path| bed.command(program);
    let agent = helmops::start_local_agent(&bed, "agent", &command).await.unwrap();
    let log = agent.process.log();
    assert!(log.contains("waiting for the Cluster of this cluster"), "{log}");
    assert!(!log.contains("caches synced"), "{log}");
}

#[tokio::test]
async fn a_chart_runs_after_the_two_commands_of_the_readme() {
    installed(&commands("README.md", INSTALL)).await;
}

#[tokio::test]
async fn a_chart_runs_after_an_installation_with_helm() {
    installed(&commands("docs/agent.md", "### The management cluster itself")).await;
}

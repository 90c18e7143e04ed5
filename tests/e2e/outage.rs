//! An outage of the API server: soon after its return everything works again.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::api_server::ApiServer;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::helmops::{self, Running};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::wait::eventually;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::harness::{helmop, until_reason};

/// Longer than any lease, and than what watches wait for at first.
const OUTAGE: Duration = Duration::from_secs(45);
/// Within this time after the return of the API server everything is as without an outage.
const RECOVERED: Duration = Duration::from_secs(10);
/// What a slow recovery takes, so that the test reports how slow it is.
const DEADLINE: Duration = Duration::from_mins(3);
/// The namespace of the HelmOps.
const NAMESPACE: &str = "fleet-local";

/// The number of lines in the log.
fn lines(process: &Running) -> usize {
    process.process.log().lines().count()
}

/// The time until `attempt` succeeds.
async fn time_until<T>(what: &str, attempt: impl AsyncFnMut() -> Result<T>) -> Duration {
    let start = Instant::now();
    eventually(what, DEADLINE, attempt).await.unwrap();
    start.elapsed()
}

async fn apply(kubectl: &Kubectl, charts: &ChartServer, name: &str) {
    let spec = json!({
        "namespace": name,
        "helm": { "repo": charts.url(), "chart": "web", "version": "0.1.0" },
        "targets": [{ "clusterSelector": {} }],
        "correctDrift": { "enabled": true },
    });
    let applied = kubectl.apply(&helmop(name, &spec)).await.unwrap();
    applied.ok().unwrap();
}

#[tokio::test]
async fn everything_works_soon_after_an_outage_of_the_api_server() {
    let bed = helmops::local_control_plane(false).await.unwrap();
    let mut server = ApiServer::start(&bed).await.unwrap();
    let command = |program: &Path| bed.command(program);
    let controller = helmops::start_standalone_controller(server.cluster(), "controller", &command);
    let controller = controller.await.unwrap();
    let agent = helmops::start_local_agent(server.cluster(), "agent", &command);
    let agent = agent.await.unwrap();
    let charts = bed.directory.join("charts");
    let charts = ChartRepo::build(&bed.tools, &charts, &[("web", &["0.1.0"])])
        .await
        .unwrap();
    let charts = ChartServer::http(charts.folder()).await.unwrap();
    let kubectl = bed.kubectl().in_namespace(NAMESPACE);
    apply(&kubectl, &charts, "before").await;
    until_reason(&kubectl, "before", "Ready", "Ready").await;
    let release = bed.kubectl().in_namespace("before");
    let services = release.run(&["get", "services", "-o", "name"]).await.unwrap();
    let service = services.ok().unwrap().trim().to_owned();
    let before = [&controller, &agent].map(lines);

    server.kill().await.unwrap();
    sleep(OUTAGE).await;
    server.restart().await.unwrap();

    apply(&kubectl, &charts, "after").await;
    release.run(&["delete", &service]).await.unwrap().ok().unwrap();
    let (bundle, corrected) = tokio::join!(
        time_until("a Bundle for the new HelmOp", async || {
            kubectl.get("bundle/after").await?.context("it has none")
        }),
        time_until("the correction of drift", async || {
            release.get(&service).await?.context("it does not exist")
        }),
    );
    println!("after the outage: a Bundle after {bundle:.1?}, drift corrected after {corrected:.1?}");
    for (process, before) in [&controller, &agent].into_iter().zip(before) {
        eventually("an end of each failure in the log", RECOVERED, async || {
            let log = process.process.log();
            let new: Vec<_> = log.lines().skip(before).collect();
            let count = |text: &str| new.iter().filter(|line| line.contains(text)).count();
            let (failed, works) = (count("watch failed"), count("watch works again"));
            ensure!(failed > 0 && failed == works, "{failed} began, {works} ended");
            ensure!(count("kube_client") == 0, "the client has logged requests");
            Ok(())
        })
        .await
        .unwrap();
    }
    for time in [bundle, corrected] {
        assert!(time < RECOVERED, "{time:?}");
    }
}

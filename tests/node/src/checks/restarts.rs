//! What happens to nodes: killed processes, a drain, restarts of the programs of the node, a loss of power.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::PROCESSES;
use crate::node::{Program, is_true};
use crate::report::{Report, contains, note};
use crate::site::{AGENT_NAMESPACE, SYSTEM, Site, create, probe};

/// Pods of helmops.
const LABEL: &str = "app.kubernetes.io/part-of=helmops";
/// Long enough for the pods of helmops to be evicted, but for those that a disruption budget keeps.
const DRAINED: Duration = Duration::from_secs(5);
/// An outage that clients notice.
const OUTAGE: Duration = Duration::from_secs(10);
const API_SERVER: Duration = Duration::from_mins(1);

pub async fn kill(site: &Site, report: &mut Report) -> Result<()> {
    for process in PROCESSES {
        let before = site.restarts().await?;
        end(site.processes(process).await?.first())?;
        let what = format!("{process} is killed: it runs again");
        let again = async || {
            ensure!(site.restarts().await? > before, "it has not restarted");
            site.settled().await
        };
        report.within(60, &what, again).await;
    }
    for namespace in [SYSTEM, AGENT_NAMESPACE] {
        let namespace = format!("--namespace={namespace}");
        site.run(&["delete", "pods", &namespace, "--selector", LABEL, "--wait=false"])
            .await?;
    }
    report
        .within(60, "all pods are deleted: all are ready again", async || {
            site.settled().await
        })
        .await;
    site.drift().await?;
    report
        .within(60, "drift is corrected afterwards", async || {
            site.corrected().await
        })
        .await;
    site.run(&["delete", "pods", "--namespace=shop", "--all", "--wait=false"])
        .await?;
    let again = async || {
        site.ready("shop").await?;
        contains(&site.answer("shop").await?, "hello")
    };
    report
        .within(60, "the pods of a release are deleted: it is ready again", again)
        .await;
    Ok(())
}

/// Kills a process.
pub fn end(pid: Option<&u32>) -> Result<()> {
    let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let pid = pid.ok_or_else(|| anyhow::anyhow!("there is no process"))?;
    Ok(kill_process(pid, Signal::KILL)?)
}

pub async fn drain(site: &Site, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    let timeout = format!("--timeout={}s", DRAINED.as_secs());
    let selector = format!("--pod-selector={LABEL}");
    let arguments = [
        "drain",
        "node1",
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        &selector,
        &timeout,
    ];
    // What is evicted has no other place, so that the last replica of each stays.
    let output = site.kubectl.run(&arguments).await?;
    let refused = output
        .stderr
        .lines()
        .filter(|line| line.contains("disruption budget"))
        .count();
    note(&format!(
        "{refused} evictions were refused, in {:.0} s",
        start.elapsed().as_secs_f64()
    ));
    let kept = async || {
        for process in ["helmops-webhook", "helmops-receiver"] {
            site.pod(process).await?;
        }
        ensure!(refused > 0, "no eviction was refused: {}", output.stderr);
        Ok(())
    };
    report
        .check(
            "PodDisruptionBudgets keep a webhook and a receiver during a drain",
            kept(),
        )
        .await;
    report
        .check("admission works during the drain", async {
            create(&site.api()?, &probe()).await.map(drop)
        })
        .await;
    site.run(&["uncordon", "node1"]).await?;
    report
        .within(60, "uncordoned: all are ready", async || site.settled().await)
        .await;
    Ok(())
}

pub async fn programs(site: &mut Site, report: &mut Report) -> Result<()> {
    let before = site.restarts().await?;
    for program in [Program::Kubelet, Program::Containerd] {
        site.node.restart(program).await?;
        site.node.until_kubelet().await?;
    }
    let killed = Timestamp::now();
    // What the status shows may be from before.
    let ready = async || {
        let lease = site.get("kube-node-lease", "lease/node1").await?;
        after(&lease["spec"]["renewTime"], killed).context("the kubelet has not renewed its Lease")?;
        let node = site.get("default", "node/node1").await?;
        ensure!(is_true(&node, "Ready"), "the node is not ready");
        site.settled().await
    };
    let what = "kubelet and containerd are killed: node and pods are ready";
    report.within(60, what, ready).await;
    let unharmed = async {
        let restarts = site.restarts().await?.saturating_sub(before);
        ensure!(restarts == 0, "{restarts} restarts");
        Ok(())
    };
    report.check("no container has restarted", unharmed).await;
    site.node.kill(Program::ApiServer).await?;
    sleep(OUTAGE).await;
    site.node.start_program(Program::ApiServer)?;
    let outage = format!("the API server is away for {} s: it is ready", OUTAGE.as_secs());
    report
        .check(&outage, site.node.until_api_server(API_SERVER))
        .await;
    // Their watches return after up to a minute otherwise, which is not the time of helmops.
    for program in [Program::ControllerManager, Program::Scheduler, Program::KubeProxy] {
        site.node.restart(program).await?;
    }
    report
        .within(60, "pods are ready", async || site.settled().await)
        .await;
    site.drift().await?;
    report
        .within(90, "drift is corrected", async || site.corrected().await)
        .await;
    site.apply("after", &json!({ "helm": { "version": "0.2.0" } }))
        .await?;
    report
        .within(90, "a HelmOp that is applied then is ready", async || {
            site.ready("after").await
        })
        .await;
    report
        .check("admission works", async {
            create(&site.api()?, &probe()).await.map(drop)
        })
        .await;
    site.delete(&["after"]).await?;
    report
        .within(60, "and it is deleted", async || {
            site.gone("after", "deployment/web").await
        })
        .await;
    note(&format!(
        "{} restarts of containers",
        site.restarts().await?.saturating_sub(before)
    ));
    Ok(())
}

/// An error unless a time of a status is after another one.
fn after(found: &Value, time: Timestamp) -> Result<()> {
    let found: Timestamp = found.as_str().context("there is no time")?.parse()?;
    ensure!(found > time, "{found} is before {time}");
    Ok(())
}

pub async fn booted(site: &Site, report: &mut Report) -> Result<()> {
    // The status of before is still there.
    let again = async || {
        for pod in site.pods().await? {
            let state = &pod["status"]["containerStatuses"][0]["state"];
            after(&state["running"]["startedAt"], site.node.started)
                .with_context(|| format!("pod {}", pod["metadata"]["name"]))?;
        }
        site.settled().await
    };
    report
        .within(90, "after a loss of power all pods are ready", again)
        .await;
    report
        .within(60, "the HelmOp is ready", async || site.ready("shop").await)
        .await;
    report
        .within(30, "its Service responds", async || {
            contains(&site.answer("shop").await?, "hello")
        })
        .await;
    site.drift().await?;
    report
        .within(60, "drift is corrected", async || site.corrected().await)
        .await;
    report
        .check("admission works", async {
            create(&site.api()?, &probe()).await.map(drop)
        })
        .await;
    Ok(())
}

//! Too little memory and full disks.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use helmops_bed::files;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::restarts::end;
use crate::images::TAG;
use crate::machine::STATE;
use crate::node::cgroup;
use crate::report::{Report, note};
use crate::site::{AGENT_NAMESPACE, Site};

const AGENT: &str = "helmops-agent";
const MIB: u64 = 1 << 20;
/// What the agent has beside what it uses now: far less than a run of Helm needs.
const SPARE: u64 = 12;
/// More than the volumes of the agent hold.
const BALLAST: u64 = 200;
const TOO_MUCH: u64 = 700;

fn chart() -> Value {
    json!({ "helm": { "version": "0.2.0" } })
}

pub async fn memory(site: &Site, report: &mut Report) -> Result<()> {
    let used = cgroup::usage(&site.container(AGENT).await?)?.working_set / MIB;
    let limit = used + SPARE;
    site.install(TAG, Some(limit)).await?;
    note(&format!("the agent uses {used} MiB, and gets {limit} MiB"));
    site.apply("starved", &chart()).await?;
    let what = "Helm has too little memory: the HelmOp says so";
    report
        .within(120, what, async || site.says("starved", &["memory"]).await)
        .await;
    note(&site.message("starved").await?);
    site.install(TAG, None).await?;
    report
        .within(60, "with more memory all are ready", async || {
            site.settled().await
        })
        .await;
    report
        .within(120, "and the release is deployed", async || {
            site.ready("starved").await
        })
        .await;
    // With cgroup v2 the kubelet lets the kernel kill all processes of a container that has too little memory.
    site.apply("group", &chart()).await?;
    let killed = kill_during_run(site);
    report
        .check(
            "all processes of the agent are killed during a run of Helm",
            killed,
        )
        .await;
    report
        .within(120, "the release is deployed", async || site.ready("group").await)
        .await;
    site.delete(&["starved", "group"]).await?;
    for name in ["starved", "group"] {
        report
            .within(60, &format!("{name} is uninstalled"), async || {
                site.gone(name, "deployment/web").await
            })
            .await;
    }
    Ok(())
}

/// Kills the agent and its Helm while both run.
async fn kill_during_run(site: &Site) -> Result<()> {
    let container = site.container(AGENT).await?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        let processes = cgroup::processes(&container)?;
        if let [agent, helm, ..] = processes[..] {
            // A process of Helm may have ended just now.
            let killed = end(Some(&helm));
            end(Some(&agent))?;
            if killed.is_ok() {
                return Ok(());
            }
        }
        sleep(Duration::from_millis(2)).await;
    }
    bail!("Helm has not run")
}

pub async fn disk(site: &Site, report: &mut Report) -> Result<()> {
    let work = volume(site, "work").await?.join("ballast");
    // The volume is full before all is written.
    fill(&work, BALLAST).ok();
    site.apply("full", &chart()).await?;
    let why = ["space"];
    report
        .within(60, "/work is full: the HelmOp says so", async || {
            site.says("full", &why).await
        })
        .await;
    note(&site.message("full").await?);
    std::fs::remove_file(&work)?;
    report
        .within(120, "with space it is ready", async || site.ready("full").await)
        .await;

    let pod = site.pod(AGENT).await?;
    let name = pod["metadata"]["name"]
        .as_str()
        .context("the pod has no name")?
        .to_owned();
    fill(&volume(site, "cache").await?.join("ballast"), TOO_MUCH)?;
    let evicted = async || {
        let selector = format!("fieldSelector=reason%3DEvicted,involvedObject.name%3D{name}");
        let events = site
            .list(&format!("api/v1/namespaces/{AGENT_NAMESPACE}/events?{selector}"))
            .await?;
        ensure!(!events.is_empty(), "it is not evicted");
        Ok(())
    };
    report
        .within(
            90,
            "/cache is over its limit: the kubelet evicts the pod",
            evicted,
        )
        .await;
    report
        .within(60, "another agent is ready", async || site.settled().await)
        .await;
    site.drift().await?;
    report
        .within(60, "it corrects drift", async || site.corrected().await)
        .await;
    let namespace = format!("--namespace={AGENT_NAMESPACE}");
    site.run(&[
        "delete",
        "pods",
        &namespace,
        "--field-selector=status.phase!=Running",
    ])
    .await?;
    site.delete(&["full"]).await
}

/// The folder on the node of an `emptyDir` of the agent.
async fn volume(site: &Site, name: &str) -> Result<PathBuf> {
    let pod = site.pod(AGENT).await?;
    let uid = pod["metadata"]["uid"].as_str().context("the pod has no UID")?;
    let pods = files::target()?.join(STATE).join("kubelet/pods");
    Ok(pods.join(uid).join("volumes/kubernetes.io~empty-dir").join(name))
}

fn fill(file: &Path, mib: u64) -> Result<()> {
    let mut file = std::fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    let block = vec![1_u8; usize::try_from(MIB)?];
    for _ in 0..mib {
        std::io::Write::write_all(&mut file, &block)?;
    }
    Ok(())
}

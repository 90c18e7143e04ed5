//! `check`: whether helmops works on the cluster of the context, and what to do if not.
//!
//! Each module reads what it checks, and judges it with a pure function. What the user may not read is skipped.

pub mod agents;
pub mod certificates;
pub mod crds;
pub mod finding;
pub mod installed;
pub mod leader;
pub mod metrics;
pub mod permissions;
pub mod prerequisites;
pub mod webhook;

use std::time::Duration;

use helmops_core::agents::AGENT_TIMEOUT;
use jiff::Timestamp;
use kube::Client;

use self::{
    finding::{Finding, Group, Report},
    installed::{Installed, NAMESPACE, Process},
};
use crate::{
    cluster::{Cluster, ClusterArgs, api_error},
    failure::Failure,
    output::OutputArgs,
    terminal::{Console, marks::Marks, progress},
};

/// The arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Whether everything works; the exit code is 1 if something does not
  kubectl helmop check

  # Before an installation
  kubectl helmop check --pre

  # For a program
  kubectl helmop check -o json")]
pub struct CheckArgs {
    /// Check what an installation needs, in place of an installation
    #[arg(long)]
    pub pre: bool,
    /// The format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs the checks.
///
/// # Errors
/// If one of them fails, or the cluster cannot be reached.
pub async fn run(args: &CheckArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let connected = cluster.connect().await?;
    let what = format!("Checking {}", connected.server);
    let findings = progress::during(console, &what, Box::pin(findings(args, &connected))).await?;
    Report::new(findings).print(args.output.output, Marks::of_process(), console)
}

async fn findings(args: &CheckArgs, cluster: &Cluster) -> Result<Vec<Finding>, Failure> {
    let client = &cluster.client;
    let version = client.apiserver_version().await;
    version.map_err(|error| api_error::failed(format!("cannot reach {}", cluster.server), &error))?;
    let (installed, mut findings) = match installed::find(client).await {
        Ok(found) => (found, Vec::new()),
        Err(error) => {
            let text = format!("Deployments cannot be listed: {}", api_error::text(&error));
            (Vec::new(), vec![Finding::skipped(Group::Processes, text)])
        }
    };
    if args.pre {
        findings.extend(prerequisites::check(client, &installed).await);
        return Ok(findings);
    }
    if findings.is_empty() {
        findings = installed::check(&installed);
    }
    findings.extend(Box::pin(of_installation(cluster, &installed)).await?);
    Ok(findings)
}

async fn of_installation(cluster: &Cluster, installed: &[Installed]) -> Result<Vec<Finding>, Failure> {
    let client = &cluster.client;
    let now = Timestamp::now();
    let controller = installed.iter().find(|one| one.process == Process::Controller);
    let namespace = controller.map_or(NAMESPACE, |one| one.namespace.as_str());
    let delivers = installed.iter().any(Installed::delivers);
    let notifies = installed.iter().any(Installed::notifies);
    let configurations = webhook::read(client).await;
    let is_limited = configurations.hooks.iter().any(|hook| hook.is_limited);
    let (kubernetes, crds, hooks, probe, certificate, leaders, permissions) = tokio::join!(
        prerequisites::kubernetes(client),
        crds::check(client, delivers, notifies, now),
        webhook::check(client, &configurations, now.as_second()),
        webhook::probe(client, &cluster.namespace, is_limited),
        certificates::check(client, configurations.hooks.last(), now),
        leader::check(client, namespace, now),
        permissions::check(client, &cluster.namespace),
    );
    let mut findings = vec![kubernetes];
    findings.extend(crds?);
    findings.extend(hooks);
    findings.push(probe);
    findings.extend(certificate);
    findings.push(of_metrics(client, namespace, leaders.holder.as_deref(), now).await);
    findings.extend(leaders.findings);
    findings.extend(permissions);
    if delivers {
        findings.extend(agents::check(client, limit(controller), now).await);
    }
    Ok(findings)
}

async fn of_metrics(client: &Client, namespace: &str, leader: Option<&str>, now: Timestamp) -> Finding {
    match leader {
        Some(pod) => metrics::check(client, namespace, pod, now).await,
        None => Finding::skipped(Group::Metrics, "there is no leader whose metrics could be read"),
    }
}

/// The time after which the controller considers an agent silent.
fn limit(controller: Option<&Installed>) -> Duration {
    let set = controller.and_then(|one| one.setting("HELMOPS_AGENT_TIMEOUT", "--agent-timeout"));
    let parsed = set.and_then(|text| go_formats::duration::parse(text).ok());
    parsed
        .or_else(|| go_formats::duration::parse(AGENT_TIMEOUT).ok())
        .unwrap_or_default()
}

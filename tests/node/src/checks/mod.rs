//! What is checked on the node: a section for each thing that users do, or that happens to nodes.

mod admission;
mod causes;
mod charts;
mod faults;
mod helm;
mod network;
mod pods;
mod push;
mod restarts;
mod uninstall;
mod upgrade;
mod usage;

use std::process::Stdio;

use anyhow::{Context, Result};
use clap::ValueEnum;
use helmops_bed::files;
use tokio::process::Command;
use tokio::task::LocalSet;

use crate::machine::STATE;
use crate::node::Node;
use crate::report::Report;
use crate::site::Site;

/// The node is switched on twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Boot {
    First,
    Second,
}

impl Boot {
    /// As a value of the flag.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
        }
    }
}

/// The processes of helmops, in containers of their own.
const PROCESSES: [&str; 5] = [
    "helmops-webhook",
    "helmops-controller",
    "helmops-agent",
    "helmops-notifier",
    "helmops-receiver",
];

/// A part of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Section {
    /// Pods run as the manifests say.
    Pods,
    /// The webhook is reached through its Service.
    Admission,
    /// A chart is deployed, upgraded by polling, and drift is corrected.
    Charts,
    /// An upgrade whose containers crash is rolled back; a Helm test fails; releases are deleted.
    Lifecycle,
    /// The causes of workloads that are not ready.
    Causes,
    /// A push through the Service of the receiver.
    Push,
    /// Processes are killed, and pods deleted.
    Kill,
    /// Network policies are enforced.
    Network,
    /// The node is drained.
    Drain,
    /// The kubelet, containerd and the API server are restarted.
    Restarts,
    /// The memory of the agent is too small for a run of Helm.
    Memory,
    /// The volumes of the agent are full.
    Disk,
    /// Rolling upgrade to another tag.
    Upgrade,
    /// What is used, alone and with 50 HelmOps; not by default.
    Usage,
    /// After a loss of power.
    Booted,
    /// helmops is uninstalled.
    Uninstall,
    /// helmops is installed and uninstalled with Helm.
    Helm,
}

impl Section {
    const fn boot(self) -> Boot {
        match self {
            Self::Booted | Self::Uninstall | Self::Helm => Boot::Second,
            _ => Boot::First,
        }
    }

    /// The name that chooses it.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    async fn run(self, site: &mut Site, report: &mut Report) -> Result<()> {
        match self {
            Self::Pods => pods::run(site, report).await,
            Self::Admission => admission::run(site, report).await,
            Self::Charts => charts::run(site, report).await,
            Self::Lifecycle => charts::lifecycle(site, report).await,
            Self::Causes => causes::run(site, report).await,
            Self::Push => push::run(site, report).await,
            Self::Kill => restarts::kill(site, report).await,
            Self::Network => network::run(site, report).await,
            Self::Drain => restarts::drain(site, report).await,
            Self::Restarts => restarts::programs(site, report).await,
            Self::Memory => faults::memory(site, report).await,
            Self::Disk => faults::disk(site, report).await,
            Self::Upgrade => upgrade::run(site, report).await,
            Self::Usage => usage::run(site, report).await,
            Self::Booted => restarts::booted(site, report).await,
            Self::Uninstall => uninstall::run(site, report).await,
            Self::Helm => helm::run(site, report).await,
        }
    }
}

/// The sections of a boot among those that were chosen, in the order in which they run; by default all but the usage.
pub fn of(boot: Boot, chosen: &[Section]) -> Vec<Section> {
    let all = Section::value_variants().iter().copied();
    let is_chosen = |section: &Section| match chosen {
        [] => *section != Section::Usage,
        chosen => chosen.contains(section),
    };
    all.filter(|section| section.boot() == boot)
        .filter(is_chosen)
        .collect()
}

/// Starts the node, installs helmops at its first boot, and runs the sections. Whether all checks passed.
///
/// # Errors
/// If the node does not start, or a section cannot go on.
pub async fn run(boot: Boot, chosen: &[Section], shell: bool) -> Result<bool> {
    let state = files::target()?.join(STATE);
    // The requests of a loop run beside the checks, on the same thread.
    let work = async {
        let node = Node::start(&state).await?;
        let mut site = Site::new(node, &state);
        let mut report = Report::new();
        if boot == Boot::First && !charts::prepare(&site, &mut report).await? {
            return Ok(report.end());
        }
        for section in of(boot, chosen) {
            report.section(&section.name());
            if let Err(error) = section.run(&mut site, &mut report).await {
                report.broken(&error);
            }
        }
        if shell && boot == Boot::First {
            open_shell().await?;
        }
        Ok(report.end())
    };
    LocalSet::new().run_until(work).await
}

async fn open_shell() -> Result<()> {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let mut shell = Command::new(shell);
    shell.stdin(Stdio::inherit()).kill_on_drop(true);
    shell.status().await.context("cannot open a shell").map(drop)
}

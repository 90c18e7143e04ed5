//! The same charts without an agent: `helm upgrade --install` as a person or a pipeline runs it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use helmops_bed::command::run;
use helmops_bed::usage;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::children::{HelmMemory, Observer};
use super::environment::Environment;
use super::scenario::{CHART, RELEASES, VALUES, VERSION, name};

/// As many as the agent runs at a time.
const AT_A_TIME: usize = 2;
/// A run takes less than a second.
const DEADLINE: Duration = Duration::from_mins(1);

/// The cost of one command for each chart.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// From the start of the first to the end of the last one.
    pub time: Duration,
    /// CPU time of all.
    pub cpu: Duration,
    /// Peak memory.
    pub memory: HelmMemory,
}

/// The costs of all commands.
#[derive(Clone, Copy, Debug)]
pub struct ByHand {
    pub charts: usize,
    /// `helm upgrade --install`.
    pub install: Cost,
    /// `helm uninstall`.
    pub uninstall: Cost,
}

impl ByHand {
    /// Both measurements as one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            charts: self.charts + other.charts,
            install: self.install.and(other.install),
            uninstall: self.uninstall.and(other.uninstall),
        }
    }
}

impl Cost {
    fn and(self, other: Self) -> Self {
        Self {
            time: self.time + other.time,
            cpu: self.cpu + other.cpu,
            memory: self.memory.max(other.memory),
        }
    }
}

/// Installs charts and uninstalls them. No agent runs.
pub async fn measure(environment: &Environment, charts: usize) -> Result<ByHand> {
    let values = environment.folder.join("values.json");
    std::fs::write(&values, VALUES)?;
    let values = values.to_str().context("the path of the values is not UTF-8")?;
    let repo = environment.server.url();
    let install = |release: &str| {
        let arguments = [
            "upgrade",
            "--install",
            release,
            CHART,
            "--repo",
            &repo,
            "--version",
            VERSION,
            "--values",
            values,
        ];
        arguments.map(str::to_owned).to_vec()
    };
    Ok(ByHand {
        charts,
        install: all(environment, charts, &install).await?,
        uninstall: all(environment, charts, &|release| {
            ["uninstall", release].map(str::to_owned).to_vec()
        })
        .await?,
    })
}

/// Runs Helm for each release.
async fn all(
    environment: &Environment,
    charts: usize,
    arguments: &dyn Fn(&str) -> Vec<String>,
) -> Result<Cost> {
    let this = std::process::id();
    let observer = Observer::of(this);
    let cpu = usage::cpu_time_of_children(this)?;
    let started = Instant::now();
    let mut running = JoinSet::new();
    for number in 0..charts {
        if running.len() == AT_A_TIME {
            joined(running.join_next().await)?;
        }
        let mut command = helm(environment, &environment.folder);
        command.args(arguments(&name(number)));
        running.spawn(async move { run(command, "", DEADLINE).await?.ok() });
    }
    while !running.is_empty() {
        joined(running.join_next().await)?;
    }
    Ok(Cost {
        time: started.elapsed(),
        cpu: usage::cpu_time_of_children(this)?.saturating_sub(cpu),
        memory: observer.peak(),
    })
}

fn joined(ended: Option<Result<Result<String>, tokio::task::JoinError>>) -> Result<()> {
    ended.context("no Helm runs")??.map(drop)
}

fn helm(environment: &Environment, folder: &Path) -> Command {
    let mut command = Command::new(environment.bed.tools.helm());
    for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(home, folder.join(".helm"));
    }
    command
        .env("KUBECONFIG", &environment.bed.kubeconfig)
        .env("HELM_NAMESPACE", RELEASES);
    command
}

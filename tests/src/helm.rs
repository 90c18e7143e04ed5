//! The Helm command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;

use crate::command::run;
use crate::tools::Tools;

/// Helm packs or pushes a chart in a tenth of a second.
const DEADLINE: Duration = Duration::from_secs(30);

/// Helm in a folder, which its caches and settings are in too.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    folder: PathBuf,
}

impl Helm {
    /// Works in a folder.
    pub fn new(tools: &Tools, folder: &Path) -> Self {
        Self {
            program: tools.helm(),
            folder: folder.to_owned(),
        }
    }

    /// Runs it and gives what it prints.
    ///
    /// # Errors
    /// Where it fails.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.folder);
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(home, self.folder.join(".helm"));
        }
        run(command, "", DEADLINE).await?.ok()
    }

    /// Packs a version of a chart into `destination`, and makes the chart before if there is none.
    ///
    /// # Errors
    /// Where Helm fails.
    pub async fn package(&self, chart: &str, version: &str, destination: &str) -> Result<()> {
        if !self.folder.join(chart).exists() {
            self.run(&["create", chart]).await?;
        }
        let arguments = [
            "package",
            chart,
            "--version",
            version,
            "--destination",
            destination,
        ];
        self.run(&arguments).await.map(drop)
    }

    /// The version that it takes where a chart and a range are named by `arguments`.
    ///
    /// # Errors
    /// Where it takes none.
    pub async fn choice(&self, arguments: &[&str]) -> Result<String> {
        let shown = self.run(&[&["show", "chart"], arguments].concat()).await?;
        let line = shown.lines().find_map(|line| line.strip_prefix("version: "));
        line.map(str::to_owned).context("a chart without a version")
    }
}

//! The Helm command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;

use crate::command::run;
use crate::tools::Tools;

/// Helm packages or pushes a chart in a tenth of a second.
const DEADLINE: Duration = Duration::from_secs(30);

/// Helm in a folder that also holds its caches and settings.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    folder: PathBuf,
}

impl Helm {
    /// Helm in this folder.
    pub fn new(tools: &Tools, folder: &Path) -> Self {
        Self {
            program: tools.helm(),
            folder: folder.to_owned(),
        }
    }

    /// Runs Helm and returns its standard output.
    ///
    /// # Errors
    /// If it fails.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.folder);
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(home, self.folder.join(".helm"));
        }
        run(command, "", DEADLINE).await?.ok()
    }

    /// Packages a version of a chart into `destination`, and creates the chart first if it does not exist.
    ///
    /// # Errors
    /// If Helm fails.
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

    /// Packages a version of a chart that has these files into the folder, and writes the index of all charts in it. `Chart.yaml` need
    /// not be among the files.
    ///
    /// # Errors
    /// If a file cannot be written, or Helm fails.
    pub async fn publish(&self, chart: &str, version: &str, files: &[(&str, &str)]) -> Result<()> {
        let sources = self.folder.join(format!("{chart}-{version}"));
        if sources.exists() {
            std::fs::remove_dir_all(&sources)?;
        }
        let folder = sources.join(chart);
        let metadata = format!("apiVersion: v2\nname: {chart}\nversion: {version}\n");
        for (path, content) in [("Chart.yaml", &*metadata)].iter().chain(files) {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(&folder))?;
            std::fs::write(path, content)?;
        }
        let folder = folder.to_str().context("the path of the chart is not UTF-8")?;
        self.run(&["package", folder]).await?;
        std::fs::remove_dir_all(&sources)?;
        self.run(&["repo", "index", "."]).await.map(drop)
    }

    /// The version that Helm resolves for a chart and a range, which `arguments` name.
    ///
    /// # Errors
    /// If it finds none.
    pub async fn resolve(&self, arguments: &[&str]) -> Result<String> {
        let shown = self.run(&[&["show", "chart"], arguments].concat()).await?;
        let line = shown.lines().find_map(|line| line.strip_prefix("version: "));
        line.map(str::to_owned).context("the chart has no version")
    }
}

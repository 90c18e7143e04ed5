//! Chart repositories as Helm makes them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

use crate::command::run;
use crate::tools::Tools;

/// Helm packs a chart in a tenth of a second.
const DEADLINE: Duration = Duration::from_secs(30);
const INDEX: &str = "index.yaml";

/// A folder with `index.yaml` and the archives that it names, fit to be served as it is.
#[derive(Debug)]
pub struct ChartRepo {
    helm: PathBuf,
    folder: PathBuf,
    /// Charts and packages in the making, and Helm's own caches.
    workshop: TempDir,
}

impl ChartRepo {
    /// Makes a repository of these charts and versions.
    pub async fn build(tools: &Tools, folder: &Path, charts: &[(&str, &[&str])]) -> Result<Self> {
        let repo = Self {
            helm: tools.helm(),
            folder: folder.to_owned(),
            workshop: TempDir::with_prefix("helmops-charts-")?,
        };
        std::fs::create_dir_all(folder)?;
        std::fs::create_dir(repo.packages())?;
        for (chart, versions) in charts {
            for version in *versions {
                repo.package(chart, version).await?;
            }
        }
        repo.publish().await?;
        Ok(repo)
    }

    /// Adds one version; the index changes in one step, after its archive is there.
    pub async fn add_version(&self, chart: &str, version: &str) -> Result<()> {
        self.package(chart, version).await?;
        self.publish().await
    }

    /// The served folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What Helm itself takes for `version` of a chart of the repository at `url`.
    ///
    /// # Errors
    /// Where it takes none.
    pub async fn helms_choice(&self, url: &str, chart: &str, version: &str) -> Result<String> {
        let shown = self
            .helm(&["show", "chart", chart, "--repo", url, "--version", version])
            .await?;
        let line = shown.lines().find_map(|line| line.strip_prefix("version: "));
        line.map(str::to_owned).context("a chart without a version")
    }

    async fn package(&self, chart: &str, version: &str) -> Result<()> {
        if !self.workshop.path().join(chart).exists() {
            self.helm(&["create", chart]).await?;
        }
        self.helm(&[
            "package",
            chart,
            "--version",
            version,
            "--destination",
            "packages",
        ])
        .await
        .map(drop)
    }

    async fn publish(&self) -> Result<()> {
        self.helm(&["repo", "index", "packages"]).await?;
        for entry in std::fs::read_dir(self.packages())? {
            let name = entry?.file_name();
            if name != INDEX && !self.folder.join(&name).exists() {
                self.copy(&name)?;
            }
        }
        self.copy(INDEX.as_ref())
    }

    /// Helm writes in place, but a reader must never see half a file.
    fn copy(&self, name: &OsStr) -> Result<()> {
        let partial = self.folder.join(".partial");
        std::fs::copy(self.packages().join(name), &partial)
            .and_then(|_| std::fs::rename(partial, self.folder.join(name)))
            .with_context(|| format!("cannot publish {}", name.display()))
    }

    async fn helm(&self, arguments: &[&str]) -> Result<String> {
        let workshop = self.workshop.path();
        let mut command = Command::new(&self.helm);
        command.args(arguments).current_dir(workshop);
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(home, workshop.join(".helm"));
        }
        run(command, "", DEADLINE).await?.ok()
    }

    fn packages(&self) -> PathBuf {
        self.workshop.path().join("packages")
    }
}

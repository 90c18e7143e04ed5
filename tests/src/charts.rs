//! Chart repositories as Helm makes them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::helm::Helm;
use crate::tools::Tools;

const INDEX: &str = "index.yaml";
const PACKAGES: &str = "packages";

/// A folder with `index.yaml` and the archives that it names, fit to be served as it is.
#[derive(Debug)]
pub struct ChartRepo {
    helm: Helm,
    folder: PathBuf,
    /// Charts and packages in the making, and Helm's own caches.
    workshop: TempDir,
}

impl ChartRepo {
    /// Makes a repository of these charts and versions.
    pub async fn build(tools: &Tools, folder: &Path, charts: &[(&str, &[&str])]) -> Result<Self> {
        // Beside what is served, so that it goes with it even where nobody drops this.
        let beside = folder.parent().context("no folder beside the charts")?;
        std::fs::create_dir_all(beside)?;
        let workshop = TempDir::with_prefix_in("charts-", beside)?;
        let repo = Self {
            helm: Helm::new(tools, workshop.path()),
            folder: folder.to_owned(),
            workshop,
        };
        std::fs::create_dir_all(folder)?;
        std::fs::create_dir(repo.packages())?;
        for (chart, versions) in charts {
            for version in *versions {
                repo.helm.package(chart, version, PACKAGES).await?;
            }
        }
        repo.publish().await?;
        Ok(repo)
    }

    /// Adds one version; the index changes in one step, after its archive is there.
    pub async fn add_version(&self, chart: &str, version: &str) -> Result<()> {
        self.helm.package(chart, version, PACKAGES).await?;
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
        let arguments = [chart, "--repo", url, "--version", version];
        self.helm.choice(&arguments).await
    }

    async fn publish(&self) -> Result<()> {
        self.helm.run(&["repo", "index", PACKAGES]).await?;
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

    fn packages(&self) -> PathBuf {
        self.workshop.path().join(PACKAGES)
    }
}

//! Chart repositories that Helm creates.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::helm::Helm;
use crate::tools::Tools;

const INDEX: &str = "index.yaml";
const PACKAGES: &str = "packages";

/// A folder with `index.yaml` and the archives that it lists, ready to be served.
#[derive(Debug)]
pub struct ChartRepo {
    helm: Helm,
    folder: PathBuf,
    /// Chart sources, packages that are not published yet, and Helm's caches.
    build_folder: TempDir,
}

impl ChartRepo {
    /// Creates a repository with these charts and versions.
    pub async fn build(tools: &Tools, folder: &Path, charts: &[(&str, &[&str])]) -> Result<Self> {
        // Next to the served folder, so that it is removed with it even if this value is never dropped.
        let parent = folder
            .parent()
            .context("the folder of the charts has no parent")?;
        std::fs::create_dir_all(parent)?;
        let build_folder = TempDir::with_prefix_in("charts-", parent)?;
        let repo = Self {
            helm: Helm::new(tools, build_folder.path()),
            folder: folder.to_owned(),
            build_folder,
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

    /// Adds one version; the index changes atomically, after the archive is in the folder.
    pub async fn add_version(&self, chart: &str, version: &str) -> Result<()> {
        self.helm.package(chart, version, PACKAGES).await?;
        self.publish().await
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The version that Helm itself resolves for a chart and the range `version` in the repository at `url`.
    ///
    /// # Errors
    /// If it finds none.
    pub async fn resolve_with_helm(&self, url: &str, chart: &str, version: &str) -> Result<String> {
        let arguments = [chart, "--repo", url, "--version", version];
        self.helm.resolve(&arguments).await
    }

    async fn publish(&self) -> Result<()> {
        self.helm.index(PACKAGES).await?;
        for entry in std::fs::read_dir(self.packages())? {
            let name = entry?.file_name();
            if name != INDEX && !self.folder.join(&name).exists() {
                self.copy(&name)?;
            }
        }
        self.copy(INDEX.as_ref())
    }

    /// Helm writes in place, but a client must never read an incomplete file.
    fn copy(&self, name: &OsStr) -> Result<()> {
        let partial = self.folder.join(".partial");
        std::fs::copy(self.packages().join(name), &partial)
            .and_then(|_| std::fs::rename(partial, self.folder.join(name)))
            .with_context(|| format!("cannot publish {}", name.display()))
    }

    fn packages(&self) -> PathBuf {
        self.build_folder.path().join(PACKAGES)
    }
}

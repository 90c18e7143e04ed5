//! The Helm command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;

use crate::command::run;
use crate::files::entries;
use crate::tools::Tools;

/// Helm packages or pushes a chart in a tenth of a second.
const DEADLINE: Duration = Duration::from_secs(30);

/// The name and version of a chart.
const METADATA: &str = "Chart.yaml";

/// Name, version and files of a chart; one that `helm create` makes has no files here.
type ChartKey = (String, String, Vec<(String, String)>);
/// The names and the contents of archives.
type Archives = BTreeMap<PathBuf, Vec<u8>>;

/// Files that Helm has written in this process, by what it has made them of. Many tests have the same ones, and each run of Helm takes more
/// of the processor than all else that such a test does to start.
type Written<K> = Mutex<BTreeMap<K, Vec<u8>>>;

static PACKAGES: Written<ChartKey> = Mutex::new(BTreeMap::new());
static INDEXES: Written<Archives> = Mutex::new(BTreeMap::new());

/// Helm in a folder that also holds its caches and settings.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    folder: PathBuf,
}

impl Helm {
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
        let archive = self.folder.join(destination).join(archive_name(chart, version));
        let package = async {
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
        };
        once(&PACKAGES, key(chart, version, &[]), &archive, package).await
    }

    /// Packages a version of a chart that has these files into the folder, and writes the index of all charts in it. `Chart.yaml` need
    /// not be among the files.
    ///
    /// # Errors
    /// If a file cannot be written, or Helm fails.
    pub async fn publish(&self, chart: &str, version: &str, files: &[(&str, &str)]) -> Result<()> {
        let package = self.package_files(chart, version, files);
        if files.iter().any(|(path, _)| *path == METADATA) {
            // It may have another name or version, and so has its archive.
            package.await?;
        } else {
            let archive = self.folder.join(archive_name(chart, version));
            once(&PACKAGES, key(chart, version, files), &archive, package).await?;
        }
        self.index(".").await
    }

    /// Writes the index of the archives in `folder`.
    ///
    /// # Errors
    /// If an archive cannot be read, or Helm fails.
    pub async fn index(&self, folder: &str) -> Result<()> {
        let path = self.folder.join(folder);
        let archives = archives(&path)?;
        let index = async { self.run(&["repo", "index", folder]).await.map(drop) };
        once(&INDEXES, archives, &path.join("index.yaml"), index).await
    }

    async fn package_files(&self, chart: &str, version: &str, files: &[(&str, &str)]) -> Result<()> {
        let sources = self.folder.join(format!("{chart}-{version}"));
        if sources.exists() {
            std::fs::remove_dir_all(&sources)?;
        }
        let folder = sources.join(chart);
        let metadata = format!("apiVersion: v2\nname: {chart}\nversion: {version}\n");
        for (path, content) in [(METADATA, &*metadata)].iter().chain(files) {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(&folder))?;
            std::fs::write(path, content)?;
        }
        let folder = folder.to_str().context("the path of the chart is not UTF-8")?;
        self.run(&["package", folder]).await?;
        Ok(std::fs::remove_dir_all(&sources)?)
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

fn archive_name(chart: &str, version: &str) -> String {
    format!("{chart}-{version}.tgz")
}

fn key(chart: &str, version: &str, files: &[(&str, &str)]) -> ChartKey {
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    (chart.to_owned(), version.to_owned(), files.collect())
}

/// The archives that `helm repo index` finds in a folder: those in it, and those in its folders.
fn archives(folder: &Path) -> Result<Archives> {
    let mut paths = entries(folder)?;
    let folders: Vec<_> = paths.iter().filter(|path| path.is_dir()).cloned().collect();
    for inner in folders {
        paths.extend(entries(&inner)?);
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tgz"));
    let archive = |path: PathBuf| {
        let content = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok((path.strip_prefix(folder)?.to_owned(), content))
    };
    paths.into_iter().map(archive).collect()
}

/// Writes a file that is known, or runs `write`, which writes it.
async fn once<K: Ord>(
    known: &Written<K>,
    key: K,
    file: &Path,
    write: impl Future<Output = Result<()>>,
) -> Result<()> {
    let content = locked(known).get(&key).cloned();
    if let Some(content) = content {
        return Ok(std::fs::write(file, content)?);
    }
    write.await?;
    let content = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    locked(known).insert(key, content);
    Ok(())
}

fn locked<K>(known: &Written<K>) -> MutexGuard<'_, BTreeMap<K, Vec<u8>>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

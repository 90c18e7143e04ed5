//! The programs that the tests run, built from `tests/tools` and `agent/helm`: the control plane, Helm, a registry, Prometheus,
//! Alertmanager and a collector of traces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::Mutex;

/// The folder that holds the programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tools {
    directory: PathBuf,
}

impl Tools {
    /// Builds missing programs, which takes about ten minutes the first time and no time afterwards.
    ///
    /// Progress goes to stderr. There is no deadline: a slow machine is not an error.
    pub async fn prepare() -> Result<Self> {
        let directory = build("cluster").await?;
        Ok(Self { directory })
    }

    /// The folder itself, for a `PATH`.
    pub fn folder(&self) -> &Path {
        &self.directory
    }

    /// The etcd server.
    pub fn etcd(&self) -> PathBuf {
        self.directory.join("etcd")
    }

    /// The Kubernetes API server.
    pub fn kube_apiserver(&self) -> PathBuf {
        self.directory.join("kube-apiserver")
    }

    /// The Kubernetes controller manager.
    pub fn kube_controller_manager(&self) -> PathBuf {
        self.directory.join("kube-controller-manager")
    }

    /// kubectl of the same version as the API server.
    pub fn kubectl(&self) -> PathBuf {
        self.directory.join("kubectl")
    }

    /// Helm, which creates the charts and indexes that tests serve.
    pub fn helm(&self) -> PathBuf {
        self.directory.join("helm")
    }

    /// The reference OCI registry.
    pub fn registry(&self) -> PathBuf {
        self.directory.join("registry")
    }
}

/// Prometheus and promtool.
#[derive(Clone, Debug)]
pub struct Monitoring {
    directory: PathBuf,
}

impl Monitoring {
    /// Builds missing programs, which takes some minutes the first time and no time afterwards.
    pub async fn prepare() -> Result<Self> {
        let directory = build("monitoring").await?;
        Ok(Self { directory })
    }

    /// promtool, which checks metrics and tests alerts.
    pub fn promtool(&self) -> PathBuf {
        self.directory.join("promtool")
    }

    /// The Prometheus server.
    pub fn prometheus(&self) -> PathBuf {
        self.directory.join("prometheus")
    }
}

/// The Alertmanager.
///
/// # Errors
/// If it cannot be built; the first time that takes some minutes.
pub async fn alertmanager() -> Result<PathBuf> {
    Ok(build("alertmanager").await?.join("alertmanager"))
}

/// The programs of a node: the kubelet and kube-proxy, the scheduler, containerd, a DNS server, and kube-router for network policies. The
/// result is the folders that hold them.
///
/// # Errors
/// If one cannot be built; the first time that takes some minutes.
pub async fn node() -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for set in ["node", "containerd", "coredns", "kube-router"] {
        folders.push(build(set).await?);
    }
    Ok(folders)
}

/// The Helm of the agent, built from `agent/helm`.
///
/// # Errors
/// If it cannot be built; the first time that takes some minutes.
pub async fn agent_helm() -> Result<PathBuf> {
    Ok(build("agent").await?.join("helmops-helm"))
}

/// The receiver of the OpenTelemetry Collector, built from `tests/tools/collector`.
///
/// # Errors
/// If it cannot be built; the first time that takes a minute.
pub async fn collector() -> Result<PathBuf> {
    Ok(build("collector").await?.join("otlp-collector"))
}

/// Builds the missing programs of a set, and returns their folder: once in this process.
async fn build(set: &'static str) -> Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::const_new(BTreeMap::new());
    let mut built = BUILT.lock().await;
    if let Some(directory) = built.get(set) {
        return Ok(directory.clone());
    }
    let directory = run_build(set).await?;
    built.insert(set, directory.clone());
    Ok(directory)
}

async fn run_build(set: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/build");
    let output = Command::new(&script)
        .arg(set)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot run {}", script.display()))?;
    ensure!(
        output.status.success(),
        "{} {set} failed ({}); see its messages above",
        script.display(),
        output.status
    );
    let stdout = String::from_utf8(output.stdout)?;
    let directory = stdout
        .lines()
        .last()
        .with_context(|| format!("{} {set} printed no folder", script.display()))?;
    Ok(directory.into())
}

//! etcd, kube-apiserver and kube-controller-manager on loopback, with their files in a temporary folder.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures::future::{FutureExt, select_all};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::helmops::Part;
use crate::kubelet::Kubelet;
use crate::permissions::usage::UsageRecorder;
use crate::process::Process;
use crate::tools::Tools;
use crate::wait::eventually;
use crate::{credentials, kubeconfig, prepared, probe, programs};

/// Three seconds on an idle machine; twenty times that for a busy one.
const START_DEADLINE: Duration = Duration::from_mins(1);
/// Killing the programs and removing the folder takes a tenth of a second. If the used permissions are recorded, the audit log
/// of all tests is read first, by a debug build, on a machine that may be busy.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_mins(1);
/// Files that a killed program was writing may appear while the folder is being removed.
const REMOVE_DEADLINE: Duration = Duration::from_secs(2);
/// Set to any value, it keeps the folder of the control plane.
const KEEP: &str = "HELMOPS_KEEP";
/// Records the metadata of all requests, which name the used permissions.
const METADATA_POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": true,
    "rules": [{"level": "Metadata"}]
}"#;
/// Records the request bodies of Bundles too.
const AUDIT_POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": true,
    "rules": [
        {"level": "Request", "resources": [{"group": "fleet.cattle.io", "resources": ["bundles"]}]},
        {"level": "Metadata"}
    ]
}"#;

/// The data that etcd starts with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Data {
    /// None.
    #[default]
    Empty,
    /// That of a control plane with the same manifests, made if there is none yet: a start takes half of the time. UIDs are the same too.
    Prepared,
}

/// The memory of kube-apiserver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Memory {
    /// A limit that is enough for tests. With many objects, all of its time would go into collecting garbage.
    #[default]
    Limited,
    /// What it needs: it collects garbage as by default.
    Unlimited,
}

/// Options of a control plane.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Write an audit log to audit.log in the folder of the control plane: all requests, and the bodies of those for Bundles.
    #[arg(long)]
    pub audit_log: bool,
    /// The data that etcd starts with.
    #[arg(long, value_enum, default_value_t)]
    pub data: Data,
    /// Apply the objects in this file or folder before the controllers start; can be given several times.
    ///
    /// The garbage collector discovers new kinds only every 30 seconds. It knows these from the start.
    #[arg(long, value_name = "PATH")]
    pub manifests: Vec<PathBuf>,
    /// The memory of kube-apiserver.
    #[arg(long, value_enum, default_value_t)]
    pub memory: Memory,
    /// Install helmops from its manifests, and run its processes and the agent of this cluster.
    #[arg(long)]
    pub helmops: bool,
    /// Add a simulated node: pods are scheduled, and run as their annotations choose.
    #[arg(long)]
    pub nodes: bool,
}

impl Options {
    /// Everything that is applied before the controllers start.
    fn all_manifests(&self) -> Vec<PathBuf> {
        let mut manifests = self.manifests.clone();
        if self.helmops {
            manifests.extend(Part::paths(&[Part::Base, Part::Standalone]));
        }
        manifests
    }

    /// These options as arguments of `testbed`.
    pub fn arguments(&self) -> Vec<String> {
        let audit_log = self.audit_log.then(|| "--audit-log".to_owned());
        let manifests = self.manifests.iter();
        let manifests = manifests.map(|path| format!("--manifests={}", path.display()));
        let helmops = self.helmops.then(|| "--helmops".to_owned());
        let nodes = self.nodes.then(|| "--nodes".to_owned());
        let prepared = (self.data == Data::Prepared).then(|| "--data=prepared".to_owned());
        let memory = (self.memory == Memory::Unlimited).then(|| "--memory=unlimited".to_owned());
        let flags = helmops.into_iter().chain(nodes).chain(prepared).chain(memory);
        audit_log.into_iter().chain(manifests).chain(flags).collect()
    }
}

/// The programs of a control plane, and other processes with the same lifetime.
#[derive(Debug)]
pub struct ControlPlane {
    processes: Vec<Process>,
    cluster: Cluster,
    directory: TempDir,
    keep: bool,
    usage: Option<UsageRecorder>,
    kubelet: Option<Kubelet>,
}

impl ControlPlane {
    /// Creates an empty folder, and starts nothing.
    pub fn new(tools: Tools) -> Result<Self> {
        let keep = std::env::var_os(KEEP).is_some();
        let directory = tempfile::Builder::new()
            .prefix("helmops-testbed-")
            .disable_cleanup(keep)
            .tempdir()
            .context("cannot create a temporary folder")?;
        let path = directory.path().to_owned();
        if keep {
            eprintln!("testbed: {} will be kept", path.display());
        }
        let cluster = Cluster {
            kubeconfig: path.join("admin.kubeconfig"),
            url: String::new(),
            etcd: String::new(),
            directory: path,
            tools,
            pid: std::process::id(),
            charts: None,
        };
        Ok(Self {
            processes: Vec::new(),
            cluster,
            directory,
            keep,
            usage: UsageRecorder::from_env()?,
            kubelet: None,
        })
    }

    /// Starts the programs and waits until the API server is ready; the controllers are ready about a second later.
    ///
    /// # Errors
    /// With the name of the program that failed and the end of its log. [`ControlPlane::stop`] must still be called.
    pub async fn start(&mut self, options: &Options) -> Result<()> {
        let manifests = options.all_manifests();
        if options.data == Data::Prepared {
            prepared::copy(&self.cluster.tools, &manifests, &self.data()).await?;
            self.start_api_server(options).await?;
        } else {
            self.start_api_server(options).await?;
            self.install(&manifests).await?;
        }
        self.start_controllers()?;
        if options.nodes {
            self.kubelet = Some(Kubelet::start(&self.cluster).await?);
        }
        Ok(())
    }

    /// Installs manifests without the controllers, stops the programs, and returns the folder with the data of etcd.
    pub(crate) async fn fill(&mut self, manifests: &[PathBuf]) -> Result<PathBuf> {
        self.start_api_server(&Options::default()).await?;
        self.install(manifests).await?;
        self.kill().await?;
        Ok(self.data())
    }

    /// Its address and credentials.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Sets the URL of the chart repository that runs with it.
    pub fn announce_charts(&mut self, url: Option<String>) {
        self.cluster.charts = url;
    }

    /// Ties a process to the control plane: each ends when the other ends.
    pub fn adopt(&mut self, process: Process) {
        self.processes.push(process);
    }

    /// Waits until one of the programs ends, which is an error, and returns it.
    pub async fn failure(&mut self) -> anyhow::Error {
        let ends = self.processes.iter_mut().map(|process| {
            let never = std::future::pending::<Result<()>>();
            process.until(never).boxed()
        });
        match select_all(ends).await.0 {
            Err(error) => error,
            Ok(()) => anyhow!("a program ended"),
        }
    }

    /// Kills the programs, waits until they are gone, and removes the folder.
    pub async fn stop(mut self) -> Result<()> {
        // In reverse order, so that no program logs the loss of another one.
        drop(self.kubelet.take());
        self.kill().await?;
        let recorded = self.record_permissions();
        let removed = self.remove_folder().await;
        recorded.and(removed)
    }

    async fn kill(&mut self) -> Result<()> {
        for process in self.processes.iter_mut().rev() {
            process.kill().await?;
        }
        Ok(())
    }

    /// The folder with the data of etcd.
    fn data(&self) -> PathBuf {
        programs::data(&self.cluster.directory)
    }

    fn record_permissions(&mut self) -> Result<()> {
        let log = self.cluster.audit_log();
        match self.usage.take() {
            Some(usage) if log.exists() => usage.record(&log).context("cannot record the used permissions"),
            _ => Ok(()),
        }
    }

    async fn remove_folder(&self) -> Result<()> {
        if self.keep {
            return Ok(());
        }
        eventually("the removal of the folder", REMOVE_DEADLINE, async || {
            Ok(std::fs::remove_dir_all(self.directory.path())?)
        })
        .await
    }

    /// Returns the URL of etcd.
    async fn start_etcd(&mut self) -> Result<String> {
        let Cluster { tools, directory, .. } = &self.cluster;
        let log = self.cluster.log("etcd");
        let client = probe::client(None)?;
        let started = Process::start_on_ports(
            "etcd",
            &log,
            |[port, peer_port]| programs::etcd(tools, directory, port, peer_port),
            async |[port, _]| {
                let url = format!("http://127.0.0.1:{port}/readyz");
                probe::ready(&client, &url, START_DEADLINE).await
            },
        );
        let (process, [port, _]) = started.await?;
        self.adopt(process);
        Ok(format!("http://127.0.0.1:{port}"))
    }

    async fn start_api_server(&mut self, options: &Options) -> Result<()> {
        self.cluster.etcd = self.start_etcd().await?;
        let Cluster {
            tools,
            directory,
            etcd,
            ..
        } = &self.cluster;
        let names = ["127.0.0.1", "localhost"];
        let tokens = credentials::write(directory, &names, &[credentials::ADMINISTRATOR])?;
        let policy = directory.join("audit-policy.json");
        let content = if options.audit_log {
            AUDIT_POLICY
        } else {
            METADATA_POLICY
        };
        std::fs::write(&policy, content)?;
        let log = self.cluster.log("kube-apiserver");
        let ca = self.cluster.ca()?;
        let client = probe::client(Some(&ca))?;
        let started = Process::start_on_ports(
            "kube-apiserver",
            &log,
            |[port]| {
                let mut command = programs::api_server(tools, directory, etcd, port);
                if options.memory == Memory::Unlimited {
                    programs::collect_garbage_by_default(&mut command);
                }
                if options.audit_log || self.usage.is_some() {
                    programs::audit(&mut command, &policy, &self.cluster.audit_log());
                }
                command
            },
            async |[port]| {
                let url = format!("https://127.0.0.1:{port}/readyz");
                probe::ready(&client, &url, START_DEADLINE).await
            },
        );
        let (process, [port]) = started.await?;
        self.adopt(process);
        self.cluster.url = format!("https://127.0.0.1:{port}");
        let admin = kubeconfig::render(&self.cluster.url, &ca, &tokens.concat());
        std::fs::write(&self.cluster.kubeconfig, admin).context("cannot write a kubeconfig")
    }

    async fn install(&self, manifests: &[PathBuf]) -> Result<()> {
        if manifests.is_empty() {
            return Ok(());
        }
        let kubectl = self.cluster.kubectl();
        kubectl.apply_files(manifests).await?;
        let established = [
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            "crds",
            "--all",
        ];
        kubectl.run(&established).await?.ok().map(drop)
    }

    fn start_controllers(&mut self) -> Result<()> {
        const NAME: &str = "kube-controller-manager";
        let Cluster {
            tools,
            directory,
            kubeconfig,
            ..
        } = &self.cluster;
        let command = programs::controller_manager(tools, directory, kubeconfig);
        let process = Process::start(NAME, command, &self.cluster.log(NAME))?;
        self.adopt(process);
        Ok(())
    }
}

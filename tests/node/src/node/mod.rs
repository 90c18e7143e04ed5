//! The programs of the node, from inside of the machine: how each is started, and that all are ready.

pub mod cgroup;
mod programs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helmops_bed::cluster::Cluster;
use helmops_bed::command::run;
use helmops_bed::credentials;
use helmops_bed::kubeconfig;
use helmops_bed::probe;
use helmops_bed::process::Process;
use helmops_bed::tools::Tools;
use helmops_bed::wait::eventually;
use jiff::Timestamp;
use serde_json::Value;
use tokio::process::Command;

use crate::images::{self, REPOSITORIES, TAG};
use crate::machine::IMAGES;

pub use self::programs::Program;

/// Where the kubelet shows its health.
const KUBELET: &str = "http://127.0.0.1:10248/healthz";
const SOON: Duration = Duration::from_mins(1);
/// A first start pulls up the whole cluster on a machine that may be busy.
const START: Duration = Duration::from_mins(2);
/// Names and addresses of the API server: of the node, and of its Service.
const NAMES: [&str; 6] = [
    "10.89.0.2",
    "10.96.0.1",
    "127.0.0.1",
    "localhost",
    "kubernetes.default.svc",
    "kubernetes.default",
];
/// The users with a kubeconfig: name, group, and name of the file.
const USERS: [(&str, &str, &str); 4] = [
    (
        credentials::ADMINISTRATOR.0,
        credentials::ADMINISTRATOR.1,
        "admin",
    ),
    ("system:node:node1", "system:nodes", "kubelet"),
    ("system:kube-scheduler", "", "kube-scheduler"),
    ("system:kube-proxy", "", "kube-proxy"),
];

/// A node that runs.
pub struct Node {
    pub cluster: Cluster,
    state: PathBuf,
    processes: BTreeMap<Program, Process>,
    /// When it was switched on.
    pub started: Timestamp,
}

impl Node {
    /// Starts everything, and waits until DNS and the repository of charts are ready.
    ///
    /// # Errors
    /// If a part is not ready in time.
    pub async fn start(state: &Path) -> Result<Self> {
        let start = Instant::now();
        let cluster = cluster(state).await?;
        configure(state, &cluster)?;
        let mut node = Self {
            cluster,
            state: state.to_owned(),
            processes: BTreeMap::new(),
            started: Timestamp::now(),
        };
        for program in [Program::Etcd, Program::Containerd, Program::ApiServer] {
            node.start_program(program)?;
        }
        node.import_images().await?;
        node.start_program(Program::Kubelet)?;
        node.until_api_server(START).await?;
        for program in [Program::ControllerManager, Program::Scheduler, Program::KubeProxy] {
            node.start_program(program)?;
        }
        let objects = include_str!("../../config/cluster.yaml").replace("STATE", &state.to_string_lossy());
        let kubectl = node.cluster.kubectl();
        kubectl.apply(&objects).await?.ok()?;
        eventually("the node", START, async || {
            let node = kubectl.get("node/node1").await?.context("it is not registered")?;
            ensure!(is_true(&node, "Ready"), "it is not ready");
            Ok(())
        })
        .await?;
        for deployment in ["kube-system/coredns", "charts/charts", "charts/sink"] {
            node.until_available(deployment).await?;
        }
        println!("the node is ready: {:.1} s", start.elapsed().as_secs_f64());
        Ok(node)
    }

    /// Starts a program; its output is in a file of its name.
    pub fn start_program(&mut self, program: Program) -> Result<()> {
        let command = program.command(&self.state, &self.cluster);
        let log = self.cluster.log(program.name());
        let process = Process::start(program.name(), command, &log)?;
        self.processes.insert(program, process);
        Ok(())
    }

    /// Kills a program, as a crash does.
    pub async fn kill(&mut self, program: Program) -> Result<()> {
        let mut process = self.processes.remove(&program).context("it does not run")?;
        process.kill().await
    }

    pub async fn restart(&mut self, program: Program) -> Result<()> {
        self.kill(program).await?;
        self.start_program(program)
    }

    pub async fn until_api_server(&self, deadline: Duration) -> Result<()> {
        let kubectl = self.cluster.kubectl();
        eventually("the API server", deadline, async || {
            kubectl.api()?.text("readyz").await.map(drop)
        })
        .await
    }

    /// Waits until the kubelet and containerd respond.
    pub async fn until_kubelet(&self) -> Result<()> {
        let client = probe::client(None)?;
        probe::ready(&client, KUBELET, SOON).await?;
        eventually("containerd", SOON, async || ctr(&["version"]).await).await
    }

    /// Waits until all replicas of a Deployment, `namespace/name`, are ready and of its last generation.
    pub async fn until_available(&self, deployment: &str) -> Result<()> {
        let (namespace, name) = deployment.split_once('/').context("no namespace")?;
        let kubectl = self.cluster.kubectl().in_namespace(namespace);
        let name = format!("deployment/{name}");
        let arguments = ["rollout", "status", &name, "--timeout=120s"];
        kubectl.run(&arguments).await?.ok().map(drop)
    }

    async fn import_images(&self) -> Result<()> {
        eventually("containerd", SOON, async || ctr(&["version"]).await).await?;
        let folder = self.state.join(IMAGES);
        for archive in files_below(&folder)? {
            let name = archive.strip_prefix(&folder)?.to_string_lossy().into_owned();
            let name = format!("--index-name={}", name.trim_end_matches(images::ARCHIVE));
            ctr(&["images", "import", &name, &archive.to_string_lossy()]).await?;
        }
        Ok(())
    }

    /// Gives the images of helmops one more tag, as a newer release has.
    pub async fn tag_images(&self, tag: &str) -> Result<()> {
        for repository in REPOSITORIES {
            let [known, new] = [TAG, tag].map(|tag| format!("{repository}:{tag}"));
            ctr(&["images", "tag", "--force", &known, &new]).await?;
        }
        Ok(())
    }
}

/// A condition of an object.
pub fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let mut conditions = object.pointer("/status/conditions")?.as_array()?.iter();
    conditions.find(|one| one["type"] == kind)
}

/// Whether a condition of an object is true.
pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

async fn ctr(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ctr");
    command.args(["--address=/run/containerd/containerd.sock", "--namespace=k8s.io"]);
    command.args(arguments);
    run(command, "", SOON).await?.ok().map(drop)
}

/// The files of a folder and of all folders in it.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// The credentials of the cluster, which stay the same after a boot.
async fn cluster(state: &Path) -> Result<Cluster> {
    let cluster = Cluster {
        kubeconfig: state.join("admin.kubeconfig"),
        url: "https://10.89.0.2:6443".to_owned(),
        directory: state.to_owned(),
        tools: Tools::prepare().await?,
        pid: std::process::id(),
        etcd: "http://127.0.0.1:2379".to_owned(),
        charts: None,
    };
    if cluster.kubeconfig.exists() {
        return Ok(cluster);
    }
    let users: Vec<_> = USERS.iter().map(|(user, group, _)| (*user, *group)).collect();
    let tokens = credentials::write(state, &NAMES, &users)?;
    for ((_, _, name), token) in USERS.iter().zip(tokens) {
        let text = kubeconfig::render(&cluster.url, &cluster.ca()?, &token);
        std::fs::write(state.join(format!("{name}.kubeconfig")), text)?;
    }
    Ok(cluster)
}

/// Writes the configuration of the programs.
fn configure(state: &Path, cluster: &Cluster) -> Result<()> {
    let place = state.to_string_lossy();
    for (name, text) in [
        ("containerd.toml", include_str!("../../config/containerd.toml")),
        ("kubelet.yaml", include_str!("../../config/kubelet.yaml")),
        ("kube-proxy.yaml", include_str!("../../config/kube-proxy.yaml")),
        (
            "cni-conf/10-bridge.conflist",
            include_str!("../../config/bridge.conflist"),
        ),
    ] {
        std::fs::write(cluster.directory.join(name), text.replace("STATE", &place))?;
    }
    Ok(())
}

//! Two control planes: a management cluster with helmops, and an empty workload cluster. The containers of the agent do not run, since
//! the simulated node of the workload cluster runs none. [`Agent`] is its process in place of the container: with the command,
//! flags, environment, ServiceAccount, permissions and Secret that `cluster join` has installed, and with nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::command::{self, Output};
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::{self, Part, Running};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::node::{self, Pod};
use helmops_bed::test_bed::{TestBed, binary};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{SOON, run};

/// Longer than every wait of the commands in the tests.
const DEADLINE: Duration = Duration::from_mins(2);
pub const WORKSPACE: &str = "fleet-default";
/// The namespace of the agent.
pub const SYSTEM: &str = "cattle-fleet-system";
/// Keeps a pod until the process of the agent has ended, as the kubelet does for containers.
const HOLD: &str = "example.com/process";

pub struct TwoClusters {
    pub management: TestBed,
    pub workload: TestBed,
    pub charts: ChartServer,
    kubeconfig: PathBuf,
    _controller: Running,
}

/// The process of the agent.
pub struct Agent {
    pod: Pod,
    /// The pod of the Deployment that it stands for.
    name: String,
}

impl TwoClusters {
    /// Both clusters. The first one has the controller, a workspace, and a chart repository with the chart `web`.
    pub async fn start() -> Self {
        Self::start_with(&[Part::Standalone], &|_, _| {}).await
    }

    /// The same, and clusters may register themselves.
    pub async fn registering() -> Self {
        Self::start_with(&[Part::Standalone, Part::Registration], &|_, command| {
            command.env("HELMOPS_CLUSTER_REGISTRATION", "true");
        })
        .await
    }

    /// The same with other parts of helmops, and with a controller that `configure` gives additional flags.
    pub async fn start_with(parts: &[Part], configure: &dyn Fn(&TestBed, &mut Command)) -> Self {
        let management = helmops::control_plane_with(parts, false).await.unwrap();
        let nodes = Options {
            nodes: true,
            ..Options::default()
        };
        let workload = management.start_beside(&nodes).await.unwrap();
        let kubectl = management.kubectl();
        run(&kubectl, &["create", "namespace", WORKSPACE]).await;
        let command = |program: &Path| {
            let mut command = management.command(program);
            configure(&management, &mut command);
            command
        };
        let controller = helmops::start_standalone_controller(&management, "controller", &command).await;
        let folder = management.directory.join("charts");
        let charts = ChartRepo::build(&management.tools, &folder, &[("web", &["0.1.0", "0.2.0"])]).await;
        let charts = ChartServer::http(charts.unwrap().folder()).await.unwrap();
        let kubeconfig = merged(&management, &workload).unwrap();
        Self {
            kubeconfig,
            charts,
            _controller: controller.unwrap(),
            workload,
            management,
        }
    }

    /// Runs `kubectl helmop` with these arguments, in the context of the management cluster and the workspace.
    pub async fn helmop(&self, arguments: &str) -> Output {
        helmop(&self.management, &self.kubeconfig, arguments).await
    }

    /// The same; it must succeed.
    pub async fn succeeds(&self, arguments: &str) -> String {
        self.helmop(arguments).await.ok().unwrap()
    }

    /// The same; it must fail with this exit code. Returns standard error.
    pub async fn fails(&self, arguments: &str, code: i32) -> String {
        let output = self.helmop(arguments).await;
        assert_eq!(
            output.status.code(),
            Some(code),
            "{}\n{}",
            output.stdout,
            output.stderr
        );
        output.stderr
    }

    /// kubectl for the workspace of the management cluster.
    pub fn workspace(&self) -> Kubectl {
        self.management.kubectl().in_namespace(WORKSPACE)
    }

    /// kubectl for the namespace of the agent.
    pub fn system(&self) -> Kubectl {
        self.workload.kubectl().in_namespace(SYSTEM)
    }

    /// Waits for the Deployment of the agent and its pod, and runs its process.
    pub async fn run_agent(&self, name: &str) -> Agent {
        let pod = eventually("a pod of the agent", DEADLINE, async || {
            let names = self.pods().await?;
            names.first().cloned().context("there is none")
        })
        .await
        .unwrap();
        let hold = json!({ "metadata": { "finalizers": [HOLD] } }).to_string();
        run(
            &self.system(),
            &["patch", "pod", &pod, "--type=merge", "--patch", &hold],
        )
        .await;
        let command = |program: &Path| self.workload.command(program);
        Agent {
            pod: node::run_agent_pod(&self.workload, SYSTEM, name, &command)
                .await
                .unwrap(),
            name: pod,
        }
    }

    async fn pods(&self) -> Result<Vec<String>> {
        let get = [
            "get",
            "pods",
            "--selector=app.kubernetes.io/name=helmops-agent",
            "--output=name",
        ];
        let names = self.system().run(&get).await?.ok()?;
        Ok(names
            .lines()
            .map(|name| name.trim_start_matches("pod/").to_owned())
            .collect())
    }

    /// Ends the process when its pod is deleted, as the kubelet does.
    pub async fn end_with_its_pod(&self, mut agent: Agent) {
        let system = self.system();
        eventually("the pod to be deleted", DEADLINE, async || {
            let pod = system
                .get(&format!("pod/{}", agent.name))
                .await?
                .context("it is gone")?;
            ensure!(pod["metadata"]["deletionTimestamp"].is_string(), "it is there");
            Ok(())
        })
        .await
        .unwrap();
        agent.pod.running.process.terminate(SOON).await.unwrap();
        let free = json!({ "metadata": { "finalizers": null } }).to_string();
        run(
            &system,
            &["patch", "pod", &agent.name, "--type=merge", "--patch", &free],
        )
        .await;
    }
}

/// A kubeconfig with the contexts `management`, whose namespace is the workspace, and `edge`.
fn merged(management: &TestBed, workload: &TestBed) -> Result<PathBuf> {
    let mut all = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "management" });
    let mut lists = [
        ("clusters", Vec::new()),
        ("users", Vec::new()),
        ("contexts", Vec::new()),
    ];
    for (name, bed) in [("management", management), ("edge", workload)] {
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&bed.kubeconfig)?)?;
        for (list, entries) in &mut lists {
            config[*list][0]["name"] = json!(name);
            entries.push(config[*list][0].take());
        }
        let context = json!({ "cluster": name, "user": name, "namespace": WORKSPACE });
        lists[2].1.last_mut().context("no context")?["context"] = context;
    }
    for (list, entries) in lists {
        all[list] = json!(entries);
    }
    let path = management.directory.join("both.kubeconfig");
    std::fs::write(&path, all.to_string())?;
    Ok(path)
}

/// Runs `kubectl helmop` with arguments that are separated by spaces.
pub async fn helmop(bed: &TestBed, kubeconfig: &Path, arguments: &str) -> Output {
    let kubectl = helmop_command(bed, kubeconfig, arguments);
    let output = command::run(kubectl, "", DEADLINE).await.unwrap();
    // Shown if the test fails.
    eprintln!("$ kubectl helmop {arguments}\n{}{}", output.stdout, output.stderr);
    output
}

/// The same, for a command that does not end by itself.
pub fn helmop_command(bed: &TestBed, kubeconfig: &Path, arguments: &str) -> Command {
    let plugin = binary("kubectl-helmop").unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut kubectl = Command::new(bed.tools.kubectl());
    kubectl
        .arg("helmop")
        .args(arguments.split_whitespace())
        .env("PATH", format!("{}:{path}", plugin.parent().unwrap().display()))
        .env("KUBECONFIG", kubeconfig)
        .env("LC_ALL", "C.UTF-8");
    kubectl
}

//! The processes of helmops, outside of the cluster and with the ServiceAccounts of their pods.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tokio::process::Command;

use super::manifests::{LOCAL_AGENT, NAMESPACE, deployment};
use crate::cluster::Cluster;
use crate::process::Process;
use crate::service_account::service_account_kubeconfig;
use crate::test_bed;
use crate::tools::agent_helm;
use crate::{node, probe};

/// All processes are ready within a tenth of a second; a busy machine takes longer.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// Repositories and endpoints of tests are on this machine, which processes send no requests to by default.
const ALLOW_LOOPBACK: [&str; 2] = ["--allow-cidrs", "127.0.0.0/8,::1/128"];

/// A process of helmops and its addresses.
#[derive(Debug)]
pub struct Running {
    pub process: Process,
    /// Base URL of its admin port, with the metrics.
    pub admin: String,
    /// Base URL of the port for the kubelet's probes.
    pub probes: String,
}

/// The receiver and its address.
#[derive(Debug)]
pub struct ReceiverProcess {
    pub running: Running,
    /// Base URL of its port for registries.
    pub url: String,
}

/// A program of helmops. Its ServiceAccount has the same name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub name: &'static str,
    /// The namespace of its ServiceAccount.
    pub namespace: &'static str,
    /// The file of the manifests with its Deployment, whose environment variables it gets.
    pub deployment: Option<&'static str>,
    /// Whether it has another port than those for metrics and probes, `--bind-address`.
    pub has_port: bool,
}

impl Program {
    /// Starts a replica, and waits for `up` on its admin port. Returns its other port too, if it has one.
    pub async fn start(
        &self,
        cluster: &Cluster,
        replica: &str,
        command: &dyn Fn(&Path) -> Command,
        up: impl AsyncFn(u16) -> Result<()>,
    ) -> Result<(Running, u16)> {
        let kubeconfig = service_account_kubeconfig(cluster, self.namespace, self.name).await?;
        let program = test_bed::binary(self.name)?;
        let environment = match self.deployment {
            Some(file) => node::environment(&deployment(file)?, replica)?,
            None => Vec::new(),
        };
        let (process, [admin, probes, other]) = Process::start_on_ports(
            replica,
            &cluster.log(replica),
            |[admin, probes, other]| {
                let mut command = command(&program);
                command
                    .envs(environment.clone())
                    .args(["--log-format", "text", "--metrics-bind-address", &local(admin)])
                    .args(["--health-probe-bind-address", &local(probes)])
                    .arg("--kubeconfig")
                    .arg(&kubeconfig);
                if self.has_port {
                    command.args(["--bind-address", &local(other)]);
                }
                command
            },
            async |[admin, ..]| up(admin).await,
        )
        .await?;
        let running = Running {
            process,
            admin: format!("http://{}", local(admin)),
            probes: format!("http://{}", local(probes)),
        };
        Ok((running, other))
    }
}

/// Starts the controller. `command` creates the command for a program.
pub async fn start_controller(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Running> {
    let controller = Program {
        name: "helmops-controller",
        namespace: NAMESPACE,
        deployment: Some("base/controller/controller.yaml"),
        has_port: false,
    };
    let (running, _) = controller.start(cluster, name, command, ready).await?;
    Ok(running)
}

/// The same, with all controllers: helmops without Fleet.
pub async fn start_standalone_controller(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Running> {
    let command = |program: &Path| {
        let mut command = command(program);
        command.args(["--controllers", "helmop,bundle"]);
        command
    };
    start_controller(cluster, name, &command).await
}

/// Starts the agent of the management cluster itself. `command` creates the command for a program.
pub async fn start_local_agent(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Running> {
    let agent = Program {
        name: "helmops-agent",
        namespace: LOCAL_AGENT,
        deployment: Some("agent/base/agent.yaml"),
        has_port: false,
    };
    let helm = agent_helm().await?;
    let folder = cluster.directory.join(name);
    let command = |program: &Path| {
        let mut command = command(program);
        command
            .args(["--local", "fleet-local/local"])
            .args(["--namespace", LOCAL_AGENT, "--agent-scope", LOCAL_AGENT])
            .args(["--pod-name", name])
            .args(ALLOW_LOOPBACK)
            .arg("--helm")
            .arg(&helm)
            .arg("--work-dir")
            .arg(folder.join("work"))
            .arg("--cache-dir")
            .arg(folder.join("cache"));
        command
    };
    let (running, _) = agent.start(cluster, name, &command, ready).await?;
    Ok(running)
}

/// Starts the notifier. `command` creates the command for a program.
pub async fn start_notifier(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Running> {
    let notifier = Program {
        name: "helmops-notifier",
        namespace: NAMESPACE,
        deployment: Some("notifications/notifier.yaml"),
        has_port: false,
    };
    let command = |program: &Path| {
        let mut command = command(program);
        command.args(ALLOW_LOOPBACK);
        command
    };
    let (running, _) = notifier.start(cluster, name, &command, ready).await?;
    Ok(running)
}

/// Starts the process that receives requests of registries. `command` creates the command for a program.
pub async fn start_receiver(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<ReceiverProcess> {
    let receiver = Program {
        name: "helmops-receiver",
        namespace: NAMESPACE,
        deployment: None,
        has_port: true,
    };
    let command = |program: &Path| {
        let mut command = command(program);
        command.args(["--namespace", NAMESPACE]);
        command
    };
    let (running, http) = receiver.start(cluster, name, &command, ready).await?;
    Ok(ReceiverProcess {
        running,
        url: format!("http://{}", local(http)),
    })
}

/// Waits until a process is alive, according to its admin port.
pub async fn alive(port: u16) -> Result<()> {
    let client = probe::client(None)?;
    probe::ready(&client, &format!("http://{}/livez", local(port)), READY_DEADLINE).await
}

/// Waits until a process is ready, according to its admin port.
pub(super) async fn ready(port: u16) -> Result<()> {
    let client = probe::client(None)?;
    probe::ready(&client, &format!("http://{}/readyz", local(port)), READY_DEADLINE).await
}

/// An address on this machine.
pub(super) fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

//! helmops in a control plane: its released manifests, and its processes with their own ServiceAccounts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::chart_server::ChartServer;
use crate::charts::ChartRepo;
use crate::cluster::Cluster;
use crate::command::run;
use crate::control_plane::Options;
use crate::kubectl::Kubectl;
use crate::private_ca::PrivateCa;
use crate::process::Process;
use crate::serve::{Started, Step};
use crate::service_account::service_account_kubeconfig;
use crate::test_bed::{self, TestBed};
use crate::tools::{Tools, agent_helm};
use crate::wait::eventually;
use crate::{node, probe};

/// Both processes are ready within a tenth of a second; a busy machine takes longer.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// The API server loads a new webhook configuration within a second.
const REGISTERED_DEADLINE: Duration = Duration::from_secs(30);
/// The webhook configurations of the manifests.
pub const CONFIGURATIONS: [&str; 2] = ["mutatingwebhook.yaml", "validatingwebhook.yaml"];
/// The namespace that the manifests install helmops in.
pub const NAMESPACE: &str = "helmops-system";
/// The namespace that the manifests install the agent of the management cluster itself in.
pub const LOCAL_AGENT: &str = "cattle-fleet-local-system";
/// The objects that the agent needs if it runs outside of the cluster.
const AGENT_OBJECTS: [&str; 6] = [
    "Namespace",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];
/// The namespace of the other examples: Fleet's workspace for clusters other than its own.
const EXAMPLES_NAMESPACE: &str = "fleet-default";

/// Versions of the chart `web` in the repository that [`step`] serves, as documented in README.md.
const EXAMPLE_VERSIONS: [&str; 3] = ["0.1.0", "0.2.0", "1.0.0"];

/// A process of helmops and its addresses.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub process: Process,
    /// Base URL of its admin port, with the metrics.
    pub admin: String,
    /// Base URL of the port for the kubelet's probes.
    pub probes: String,
}

/// The webhook and its address.
#[derive(Debug)]
pub struct Webhook {
    /// The process.
    pub running: Running,
    /// Base URL of its webhooks.
    pub url: String,
    /// The CA of its certificate, PEM.
    pub ca: String,
}

/// A webhook that manages its own certificate, and its address.
#[derive(Debug)]
pub struct ManagedWebhook {
    /// The process.
    pub running: Running,
    /// The address of its webhooks.
    pub https: SocketAddr,
}

/// Folder of the manifests.
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests")
}

/// A control plane with the CRDs, namespace and roles of helmops.
pub async fn control_plane(audit_log: bool) -> Result<TestBed> {
    let options = Options {
        audit_log,
        // The garbage collector knows only the kinds immediately that exist when it starts.
        crds: vec![
            manifests().join("crd/bases"),
            manifests().join("crd/notifications"),
        ],
        ..Options::default()
    };
    let bed = TestBed::start(&options).await?;
    apply_manifests(&bed.kubectl()).await?;
    Ok(bed)
}

/// A control plane with a simulated node, and with the CRDs, namespaces and roles of helmops without Fleet and of its agent.
pub async fn local_control_plane(audit_log: bool) -> Result<TestBed> {
    let options = Options {
        audit_log,
        crds: vec![
            manifests().join("crd/bases"),
            manifests().join("crd/notifications"),
            manifests().join("standalone/crds"),
        ],
        nodes: true,
        ..Options::default()
    };
    let bed = TestBed::start(&options).await?;
    apply_local(&bed).await?;
    Ok(bed)
}

/// Applies what `manifests/local` installs, besides the processes, and the Cluster of the example.
pub async fn apply_local(cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.kubectl();
    apply_manifests(&kubectl).await?;
    apply_standalone(&kubectl).await?;
    for object in objects(&cluster.tools, "agent/local").await? {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if AGENT_OBJECTS.contains(&kind) {
            kubectl.apply(&object.to_string()).await?.ok()?;
        }
    }
    apply_files(&kubectl, &["examples/local-cluster.yaml"]).await
}

/// Starts the agent of the management cluster itself with its ServiceAccount. `command` creates the command for a program.
pub async fn start_local_agent(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Running> {
    let kubeconfig = service_account_kubeconfig(cluster, LOCAL_AGENT, "helmops-agent").await?;
    let program = test_bed::binary("helmops-agent")?;
    let helm = agent_helm().await?;
    let environment = node::environment(&deployment("agent/base/agent.yaml")?, name)?;
    let folder = cluster.directory.join(name);
    let (process, [admin, probes]) = Process::start_on_ports(
        name,
        &cluster.log(name),
        |[admin, probes]| {
            let mut command = command(&program);
            command
                .envs(environment.clone())
                .args(["--log-format", "text", "--local", "fleet-local/local"])
                .args(["--namespace", LOCAL_AGENT, "--agent-scope", LOCAL_AGENT])
                .args(["--metrics-bind-address", &local(admin)])
                .args(["--health-probe-bind-address", &local(probes)])
                .args(["--allow-cidrs", "127.0.0.0/8,::1/128", "--pod-name", name])
                .arg("--helm")
                .arg(&helm)
                .arg("--work-dir")
                .arg(folder.join("work"))
                .arg("--cache-dir")
                .arg(folder.join("cache"))
                .arg("--kubeconfig")
                .arg(&kubeconfig);
            command
        },
        async |[admin, _]| ready(admin).await,
    )
    .await?;
    Ok(Running {
        process,
        admin: format!("http://{}", local(admin)),
        probes: format!("http://{}", local(probes)),
    })
}

/// Applies the CRDs, the namespace and the roles.
pub async fn apply_manifests(kubectl: &Kubectl) -> Result<()> {
    apply_files(
        kubectl,
        &[
            "crd/bases",
            "crd/notifications",
            "base/namespace.yaml",
            "base/rbac.yaml",
        ],
    )
    .await
}

/// Applies the additional CRDs and roles for the delivery of Bundles to clusters.
pub async fn apply_standalone(kubectl: &Kubectl) -> Result<()> {
    let files = [
        "standalone/crds",
        "standalone/rbac.yaml",
        "standalone/agents.yaml",
    ];
    apply_files(kubectl, &files).await
}

/// The objects that a folder of the manifests installs.
pub async fn objects(tools: &Tools, folder: &str) -> Result<Vec<Value>> {
    let mut command = Command::new(tools.kubectl());
    command.arg("kustomize").arg(manifests().join(folder));
    let built = run(command, "", READY_DEADLINE).await?.ok()?;
    Ok(serde_saphyr::from_multiple(&built)?)
}

async fn apply_files(kubectl: &Kubectl, files: &[&str]) -> Result<()> {
    for file in files {
        let source = source(&manifests().join(file));
        kubectl.run(&["apply", "--server-side", &source]).await?.ok()?;
    }
    Ok(())
}

/// The flag of kubectl for a file, a folder of files, or a kustomization.
pub fn source(path: &Path) -> String {
    let flag = if path.join("kustomization.yaml").exists() {
        "kustomize"
    } else {
        "filename"
    };
    format!("--{flag}={}", path.display())
}

/// Installs helmops, and starts its processes, the agent and a chart repository, which run as long as the control plane.
pub fn step() -> Step {
    Box::new(|cluster| {
        async move {
            let command = |program: &Path| Command::new(program);
            apply_local(cluster).await?;
            let create = ["create", "namespace", EXAMPLES_NAMESPACE];
            cluster.kubectl().run(&create).await?.ok()?;
            let webhook = start_webhook(cluster, "webhook", &command).await?;
            register_webhook(&cluster.kubectl(), &webhook).await?;
            let controller = start_standalone_controller(cluster, "controller", &command).await?;
            let agent = start_local_agent(cluster, "agent", &command).await?;
            let folder = cluster.directory.join("charts");
            let charts = ChartRepo::build(&cluster.tools, &folder, &[("web", &EXAMPLE_VERSIONS)]).await?;
            Ok(Started {
                processes: vec![webhook.running.process, controller.process, agent.process],
                charts: Some(ChartServer::http(charts.folder()).await?),
            })
        }
        .boxed_local()
    })
}

/// Starts the controller with its ServiceAccount. `command` creates the command for a program.
pub async fn start_controller(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Running> {
    let kubeconfig = service_account_kubeconfig(cluster, NAMESPACE, "helmops-controller").await?;
    let program = test_bed::binary("helmops-controller")?;
    let environment = node::environment(&deployment("base/controller/controller.yaml")?, name)?;
    let (process, [admin, probes]) = Process::start_on_ports(
        name,
        &cluster.log(name),
        |[admin, probes]| {
            let mut command = command(&program);
            command
                .envs(environment.clone())
                .args(["--log-format", "text", "--metrics-bind-address", &local(admin)])
                .args(["--health-probe-bind-address", &local(probes)])
                .arg("--kubeconfig")
                .arg(&kubeconfig);
            command
        },
        async |[admin, _]| ready(admin).await,
    )
    .await?;
    Ok(Running {
        process,
        admin: format!("http://{}", local(admin)),
        probes: format!("http://{}", local(probes)),
    })
}

/// Applies what `manifests/notifications` installs, besides the processes.
pub async fn apply_notifications(kubectl: &Kubectl) -> Result<()> {
    apply_files(
        kubectl,
        &["notifications/rbac.yaml", "notifications/receiver/rbac.yaml"],
    )
    .await
}

/// Starts the notifier with its ServiceAccount, which may send requests to this machine. `command` creates the command for a program.
pub async fn start_notifier(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Running> {
    let kubeconfig = service_account_kubeconfig(cluster, NAMESPACE, "helmops-notifier").await?;
    let program = test_bed::binary("helmops-notifier")?;
    let environment = node::environment(&deployment("notifications/notifier.yaml")?, name)?;
    let (process, [admin, probes]) = Process::start_on_ports(
        name,
        &cluster.log(name),
        |[admin, probes]| {
            let mut command = command(&program);
            command
                .envs(environment.clone())
                .args(["--log-format", "text", "--metrics-bind-address", &local(admin)])
                .args(["--health-probe-bind-address", &local(probes)])
                .args(["--allow-cidrs", "127.0.0.0/8,::1/128"])
                .arg("--kubeconfig")
                .arg(&kubeconfig);
            command
        },
        async |[admin, _]| ready(admin).await,
    )
    .await?;
    Ok(Running {
        process,
        admin: format!("http://{}", local(admin)),
        probes: format!("http://{}", local(probes)),
    })
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

/// The Deployment in a file of the manifests.
fn deployment(file: &str) -> Result<Value> {
    let content = std::fs::read_to_string(manifests().join(file))?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&content)?;
    let is_deployment = |object: &Value| object.get("kind") == Some(&json!("Deployment"));
    let found = objects.into_iter().find(is_deployment);
    found.with_context(|| format!("{file} contains no Deployment"))
}

/// The receiver and its address.
#[derive(Debug)]
pub struct ReceiverProcess {
    /// The process.
    pub running: Running,
    /// Base URL of its port for registries.
    pub url: String,
}

/// Starts the process that receives requests of registries, with its ServiceAccount.
pub async fn start_receiver(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<ReceiverProcess> {
    let kubeconfig = service_account_kubeconfig(cluster, NAMESPACE, "helmops-receiver").await?;
    let program = test_bed::binary("helmops-receiver")?;
    let (process, [http, admin, probes]) = Process::start_on_ports(
        name,
        &cluster.log(name),
        |[http, admin, probes]| {
            let mut command = command(&program);
            command
                .args(["--log-format", "text", "--metrics-bind-address", &local(admin)])
                .args(["--health-probe-bind-address", &local(probes)])
                .args(["--bind-address", &local(http)])
                .args(["--namespace", NAMESPACE])
                .arg("--kubeconfig")
                .arg(&kubeconfig);
            command
        },
        async |[_, admin, _]| ready(admin).await,
    )
    .await?;
    Ok(ReceiverProcess {
        running: Running {
            process,
            admin: format!("http://{}", local(admin)),
            probes: format!("http://{}", local(probes)),
        },
        url: format!("http://{}", local(http)),
    })
}

/// Starts the webhook with its ServiceAccount and a certificate of a new CA.
pub async fn start_webhook(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Webhook> {
    let ca = PrivateCa::new("helmops webhook")?;
    let tls = cluster.directory.join(format!("{name}-tls"));
    std::fs::create_dir_all(&tls)?;
    let issued = ca.issue(&["127.0.0.1"])?;
    let (certificate, key) = (tls.join("tls.crt"), tls.join("tls.key"));
    std::fs::write(&certificate, issued.certificate)?;
    std::fs::write(&key, issued.key)?;
    let command = |program: &Path| {
        let mut command = command(program);
        command
            .args(["--tls-source", "files", "--tls-cert-file"])
            .arg(&certificate)
            .arg("--tls-private-key-file")
            .arg(&key);
        command
    };
    let (running, https) = start_webhook_process(cluster, name, &command, ready).await?;
    Ok(Webhook {
        running,
        url: format!("https://{}", local(https)),
        ca: ca.pem().to_owned(),
    })
}

/// Starts the webhook with its ServiceAccount, and with a certificate that it manages itself, also for 127.0.0.1. It is alive
/// on return, and becomes ready when the API server trusts it.
pub async fn start_managed_webhook(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<ManagedWebhook> {
    let command = |program: &Path| {
        let mut command = command(program);
        command.args(["--tls-extra-names", "127.0.0.1", "--namespace", NAMESPACE]);
        command
    };
    let (running, https) = start_webhook_process(cluster, name, &command, alive).await?;
    Ok(ManagedWebhook {
        running,
        https: ([127, 0, 0, 1], https).into(),
    })
}

/// Starts the webhook with its ServiceAccount, waits for `up` on its admin port, and returns the port of its webhooks.
async fn start_webhook_process(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
    up: impl AsyncFn(u16) -> Result<()>,
) -> Result<(Running, u16)> {
    let kubeconfig = service_account_kubeconfig(cluster, NAMESPACE, "helmops-webhook").await?;
    let program = test_bed::binary("helmops-webhook")?;
    let (process, [https, admin, probes]) = Process::start_on_ports(
        name,
        &cluster.log(name),
        |[https, admin, probes]| {
            let mut command = command(&program);
            command
                .args(["--log-format", "text", "--metrics-bind-address", &local(admin)])
                .args(["--health-probe-bind-address", &local(probes)])
                .args(["--bind-address", &local(https)])
                .arg("--kubeconfig")
                .arg(&kubeconfig);
            command
        },
        async |[_, admin, _]| up(admin).await,
    )
    .await?;
    let running = Running {
        process,
        admin: format!("http://{}", local(admin)),
        probes: format!("http://{}", local(probes)),
    };
    Ok((running, https))
}

/// Applies the webhook configurations of the manifests, with the address of a process outside of the cluster instead of the
/// Service, and waits until the API server calls it.
pub async fn register_webhook(kubectl: &Kubectl, webhook: &Webhook) -> Result<()> {
    for file in CONFIGURATIONS {
        let configuration = configuration(file, webhook)?;
        kubectl.apply(&configuration.to_string()).await?.ok()?;
    }
    until_called(kubectl).await
}

/// The same for a webhook that injects its CA bundle itself.
pub async fn register_managed_webhook(kubectl: &Kubectl, webhook: &ManagedWebhook) -> Result<()> {
    let url = format!("https://{}", webhook.https);
    for file in CONFIGURATIONS {
        let configuration = configuration_without_bundle(file, &url)?;
        kubectl.apply(&configuration.to_string()).await?.ok()?;
    }
    until_called(kubectl).await
}

async fn until_called(kubectl: &Kubectl) -> Result<()> {
    eventually("a call of the webhook", REGISTERED_DEADLINE, async || {
        ensure_called(kubectl).await
    })
    .await
}

/// Checks that the API server calls the webhook, with a dry run.
///
/// # Errors
/// If it does not, or gets no response.
pub async fn ensure_called(kubectl: &Kubectl) -> Result<()> {
    let invalid = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": { "name": "never-stored", "namespace": "default" },
    });
    let create = ["create", "--dry-run=server", "--filename=-"];
    let output = kubectl
        .in_namespace("default")
        .run_with_input(&create, &invalid.to_string())
        .await?;
    ensure!(
        output.stderr.contains("helm options are empty"),
        "the API server responded {:?}",
        output.stderr
    );
    Ok(())
}

/// A webhook configuration of the manifests, for a webhook outside of the cluster.
pub fn configuration(file: &str, webhook: &Webhook) -> Result<Value> {
    let mut configuration = configuration_without_bundle(file, &webhook.url)?;
    let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &webhook.ca);
    for client in client_configs(&mut configuration) {
        if let Some(client) = client.as_object_mut() {
            client.insert("caBundle".to_owned(), json!(ca));
        }
    }
    Ok(configuration)
}

/// The same, for a webhook that injects its CA bundle itself.
pub fn configuration_without_bundle(file: &str, url: &str) -> Result<Value> {
    let path = manifests().join("base").join(file);
    let yaml = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut configuration: Value = serde_saphyr::from_str(&yaml)?;
    for client in client_configs(&mut configuration) {
        let path = client.pointer("/service/path").and_then(Value::as_str);
        *client = json!({ "url": format!("{url}{}", path.context("clientConfig has no service.path")?) });
    }
    Ok(configuration)
}

/// The `clientConfig` of each webhook of a configuration.
fn client_configs(configuration: &mut Value) -> impl Iterator<Item = &mut Value> {
    let hooks = configuration
        .pointer_mut("/webhooks")
        .and_then(Value::as_array_mut);
    hooks
        .into_iter()
        .flatten()
        .filter_map(|hook| hook.pointer_mut("/clientConfig"))
}

/// Waits until a process is alive, according to its admin port.
pub async fn alive(port: u16) -> Result<()> {
    let client = probe::client(None)?;
    probe::ready(&client, &format!("http://{}/livez", local(port)), READY_DEADLINE).await
}

async fn ready(port: u16) -> Result<()> {
    let client = probe::client(None)?;
    probe::ready(&client, &format!("http://{}/readyz", local(port)), READY_DEADLINE).await
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

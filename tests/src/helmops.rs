//! helmops in a control plane: its manifests as shipped, its processes as their own service accounts.

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
use crate::tools::Tools;
use crate::wait::eventually;
use crate::{node, probe};

/// Both processes are ready in a tenth of a second; a busy machine takes longer.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// The API server notices a new webhook configuration within a second.
const REGISTERED_DEADLINE: Duration = Duration::from_secs(30);
/// The shipped webhook configurations.
pub const CONFIGURATIONS: [&str; 2] = ["mutatingwebhook.yaml", "validatingwebhook.yaml"];
/// Where the manifests put helmops.
pub const NAMESPACE: &str = "helmops-system";
/// Where the shipped examples live: Fleet's own workspace for clusters other than its own.
const EXAMPLES_NAMESPACE: &str = "fleet-default";

/// Versions of the chart `web` in the repository that [`step`] serves, as README.md says.
const EXAMPLE_VERSIONS: [&str; 3] = ["0.1.0", "0.2.0", "1.0.0"];

/// A process of helmops and where it is reached.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub process: Process,
    /// Base URL of its admin port, with the metrics.
    pub admin: String,
    /// Base URL of the port for the kubelet's probes.
    pub probes: String,
}

/// The webhook, and how to reach it.
#[derive(Debug)]
pub struct Webhook {
    /// The process.
    pub running: Running,
    /// Base URL of its webhooks.
    pub url: String,
    /// The authority of its certificate, PEM.
    pub ca: String,
}

/// A webhook that keeps its own certificate, and where it serves.
#[derive(Debug)]
pub struct Managed {
    /// The process.
    pub running: Running,
    /// Where its webhooks are.
    pub https: SocketAddr,
}

/// Folder of the shipped manifests.
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests")
}

/// A control plane with helmops' definitions, namespace and roles in it. `testbed` is the program of that name.
pub async fn control_plane(testbed: &Path, audit_log: bool) -> Result<TestBed> {
    let options = Options {
        audit_log,
        // The garbage collector knows kinds at once that are there when it starts.
        crds: vec![manifests().join("crd/bases")],
        ..Options::default()
    };
    let bed = TestBed::start(testbed, &options).await?;
    apply_manifests(&bed.kubectl()).await?;
    Ok(bed)
}

/// Applies the definitions, the namespace and the roles.
pub async fn apply_manifests(kubectl: &Kubectl) -> Result<()> {
    apply_files(kubectl, &["crd/bases", "base/namespace.yaml", "base/rbac.yaml"]).await
}

/// Applies what brings Bundles to clusters besides: definitions and roles.
pub async fn apply_standalone(kubectl: &Kubectl) -> Result<()> {
    apply_files(kubectl, &["standalone/crds", "standalone/rbac.yaml"]).await
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
        let path = manifests().join(file);
        let path = path.to_str().context("a path that is not UTF-8")?;
        kubectl
            .run(&["apply", "--server-side", "--filename", path])
            .await?
            .ok()?;
    }
    Ok(())
}

/// Installs helmops, and starts both processes and a chart repository, which then live as long as the control plane.
pub fn step() -> Step {
    Box::new(|cluster| {
        async move {
            let command = |program: &Path| Command::new(program);
            apply_manifests(&cluster.kubectl()).await?;
            let create = ["create", "namespace", EXAMPLES_NAMESPACE];
            cluster.kubectl().run(&create).await?.ok()?;
            let webhook = start_webhook(cluster, "webhook", &command).await?;
            register_webhook(&cluster.kubectl(), &webhook).await?;
            let controller = start_controller(cluster, "controller", &command).await?;
            let folder = cluster.directory.join("charts");
            let charts = ChartRepo::build(&cluster.tools, &folder, &[("web", &EXAMPLE_VERSIONS)]).await?;
            Ok(Started {
                processes: vec![webhook.running.process, controller.process],
                charts: Some(ChartServer::http(charts.folder()).await?),
            })
        }
        .boxed_local()
    })
}

/// Starts the controller as its service account. `command` makes the command for a program.
pub async fn start_controller(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Running> {
    let kubeconfig = service_account_kubeconfig(cluster, NAMESPACE, "helmops-controller").await?;
    let program = test_bed::binary("helmops-controller")?;
    let environment = node::environment(&controller()?, name)?;
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

/// The shipped Deployment of the controller.
fn controller() -> Result<Value> {
    let file = std::fs::read_to_string(manifests().join("base/controller/controller.yaml"))?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&file)?;
    let is_deployment = |object: &Value| object.get("kind") == Some(&json!("Deployment"));
    objects
        .into_iter()
        .find(is_deployment)
        .context("no Deployment of the controller")
}

/// Starts the webhook as its service account, with a certificate of a new authority.
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

/// Starts the webhook as its service account, with a certificate that it keeps itself, also for 127.0.0.1. It is alive, and
/// ready when the API server trusts it.
pub async fn start_managed_webhook(
    cluster: &Cluster,
    name: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Managed> {
    let command = |program: &Path| {
        let mut command = command(program);
        command.args(["--tls-extra-names", "127.0.0.1", "--namespace", NAMESPACE]);
        command
    };
    let (running, https) = start_webhook_process(cluster, name, &command, alive).await?;
    Ok(Managed {
        running,
        https: ([127, 0, 0, 1], https).into(),
    })
}

/// Starts the webhook as its service account, waits until it is `up` by its admin port, and gives the port of its webhooks.
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

/// Applies the shipped webhook configurations, with the address of a process outside of the cluster in place of the
/// Service, and waits until the API server asks it.
pub async fn register_webhook(kubectl: &Kubectl, webhook: &Webhook) -> Result<()> {
    for file in CONFIGURATIONS {
        let configuration = configuration(kubectl, file, webhook).await?;
        kubectl.apply(&configuration.to_string()).await?.ok()?;
    }
    until_asked(kubectl).await
}

/// The same for a webhook that injects its bundle itself.
pub async fn register_managed_webhook(kubectl: &Kubectl, webhook: &Managed) -> Result<()> {
    let url = format!("https://{}", webhook.https);
    for file in CONFIGURATIONS {
        let configuration = configuration_without_bundle(kubectl, file, &url).await?;
        kubectl.apply(&configuration.to_string()).await?.ok()?;
    }
    until_asked(kubectl).await
}

async fn until_asked(kubectl: &Kubectl) -> Result<()> {
    eventually("the webhook to be asked", REGISTERED_DEADLINE, async || {
        asked(kubectl).await
    })
    .await
}

/// Whether the API server asks the webhook, by a request that changes nothing.
///
/// # Errors
/// Where it does not, or gets no answer.
pub async fn asked(kubectl: &Kubectl) -> Result<()> {
    let refused = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": { "name": "never-stored", "namespace": "default" },
    });
    let create = ["create", "--dry-run=server", "--filename=-"];
    let output = kubectl
        .in_namespace("default")
        .run_with_input(&create, &refused.to_string())
        .await?;
    ensure!(
        output.stderr.contains("helm options are empty"),
        "it said {}",
        output.stderr
    );
    Ok(())
}

/// A shipped webhook configuration for a webhook outside of the cluster.
pub async fn configuration(kubectl: &Kubectl, file: &str, webhook: &Webhook) -> Result<Value> {
    let mut configuration = configuration_without_bundle(kubectl, file, &webhook.url).await?;
    let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &webhook.ca);
    for client in clients(&mut configuration) {
        if let Some(client) = client.as_object_mut() {
            client.insert("caBundle".to_owned(), json!(ca));
        }
    }
    Ok(configuration)
}

/// The same, for a webhook that injects its bundle itself.
pub async fn configuration_without_bundle(kubectl: &Kubectl, file: &str, url: &str) -> Result<Value> {
    let path = manifests().join("base").join(file);
    let path = path.to_str().context("a path that is not UTF-8")?;
    let shipped = kubectl
        .run(&["create", "--dry-run=client", "--output=json", "--filename", path])
        .await?
        .ok()?;
    let mut configuration: Value = serde_json::from_str(&shipped)?;
    for client in clients(&mut configuration) {
        let path = client.pointer("/service/path").and_then(Value::as_str);
        *client = json!({ "url": format!("{url}{}", path.context("no path")?) });
    }
    Ok(configuration)
}

/// How each webhook of a configuration is reached.
fn clients(configuration: &mut Value) -> impl Iterator<Item = &mut Value> {
    let hooks = configuration
        .pointer_mut("/webhooks")
        .and_then(Value::as_array_mut);
    hooks
        .into_iter()
        .flatten()
        .filter_map(|hook| hook.pointer_mut("/clientConfig"))
}

/// Waits until a process is alive, by its admin port.
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

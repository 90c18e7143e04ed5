//! Replaces the nodes that the control plane does not have: runs pods of the Deployments in the manifests as processes of this
//! machine, and routes the Services to them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::helmops::{LOCAL_AGENT, NAMESPACE, Running};
use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::service_account::service_account_kubeconfig;
use crate::tools::agent_helm;
use crate::wait::eventually;
use crate::{helmops, test_bed};

/// The controller manager creates pods within a second.
const CREATED: Duration = Duration::from_secs(30);

/// The chart servers of tests are on this machine. The controller does not connect to loopback addresses by default.
const ALLOW_LOOPBACK: [&str; 2] = ["HELMOPS_ALLOW_CIDRS", "127.0.0.0/8,::1/128"];

/// A pod of a Deployment.
#[derive(Debug)]
pub struct Pod {
    pub running: Running,
    /// The address of its webhooks, if it has any.
    pub https: SocketAddr,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    service_account_name: String,
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<EnvVar>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvVar {
    name: String,
    #[serde(default)]
    value: String,
    value_from: Option<Value>,
}

impl Container {
    fn environment(&self, namespace: &str, pod: &str) -> Result<Vec<(String, String)>> {
        let variables = self.env.iter();
        let mut environment = variables
            .map(|variable| Ok((variable.name.clone(), variable.value(namespace, pod)?)))
            .collect::<Result<Vec<_>>>()?;
        environment.push(ALLOW_LOOPBACK.map(str::to_owned).into());
        Ok(environment)
    }
}

impl EnvVar {
    fn value(&self, namespace: &str, pod: &str) -> Result<String> {
        let Some(source) = &self.value_from else {
            return Ok(self.value.clone());
        };
        let path = source.pointer("/fieldRef/fieldPath").and_then(Value::as_str);
        match path.with_context(|| format!("unsupported valueFrom of {}: {source}", self.name))? {
            "metadata.name" => Ok(pod.to_owned()),
            "metadata.namespace" => Ok(namespace.to_owned()),
            other => anyhow::bail!("unsupported fieldPath of {}: {other}", self.name),
        }
    }
}

/// Runs one pod of a Deployment, with its command, arguments, environment and ServiceAccount, on free ports, and waits until
/// it is alive. `command` creates the command for a program.
pub async fn run_pod(
    cluster: &Cluster,
    deployment: &str,
    pod: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Pod> {
    run_pod_in(cluster, NAMESPACE, deployment, pod, &[], command).await
}

/// Runs one pod of the agent of the management cluster itself.
pub async fn run_local_agent_pod(
    cluster: &Cluster,
    pod: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Pod> {
    run_agent_pod(cluster, LOCAL_AGENT, pod, command).await
}

/// Runs one pod of the agent that is installed in a namespace, with the command, flags, environment and ServiceAccount of its
/// Deployment. Its Helm and its folders are on this machine.
pub async fn run_agent_pod(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Pod> {
    let helm = agent_helm().await?;
    let folder = cluster.directory.join(pod);
    // The volumes of a pod exist when it starts.
    for volume in ["work", "cache"] {
        std::fs::create_dir_all(folder.join(volume))?;
    }
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let flags = [
        flag("helm", &helm),
        flag("work-dir", &folder.join("work")),
        flag("cache-dir", &folder.join("cache")),
    ];
    run_pod_in(cluster, namespace, "helmops-agent", pod, &flags, command).await
}

/// Runs one pod of the agent of the management cluster itself with exactly the arguments of its Deployment: Helm and the volumes are
/// at the paths that these have.
pub async fn run_whole_local_agent_pod(
    cluster: &Cluster,
    pod: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Pod> {
    run_pod_in(cluster, LOCAL_AGENT, "helmops-agent", pod, &[], command).await
}

/// The same in another namespace, with flags that take precedence over those of the Deployment.
async fn run_pod_in(
    cluster: &Cluster,
    namespace: &str,
    deployment: &str,
    pod: &str,
    flags: &[String],
    command: &dyn Fn(&Path) -> Command,
) -> Result<Pod> {
    let object = format!("deployment/{deployment}");
    let found = cluster.kubectl().in_namespace(namespace).get(&object).await?;
    let found = found.with_context(|| format!("there is no {object}"))?;
    let (container, account) = container(&found).context(object)?;
    let [program] = container.command.as_slice() else {
        anyhow::bail!("{deployment} has the command {:?}", container.command);
    };
    let program = test_bed::binary(program.trim_start_matches('/'))?;
    let kubeconfig = service_account_kubeconfig(cluster, namespace, &account).await?;
    let environment = container.environment(namespace, pod)?;
    let (process, [https, admin, probes]) = Process::start_on_ports(
        pod,
        &cluster.log(pod),
        |[https, admin, probes]| {
            let mut command = command(&program);
            command
                .args(&container.args)
                .args(flags)
                .envs(environment.clone())
                // Replaces what the kubelet and the network of a cluster provide.
                .env("KUBECONFIG", &kubeconfig)
                .env("HELMOPS_BIND_ADDRESS", format!("127.0.0.1:{https}"))
                .env("HELMOPS_METRICS_BIND_ADDRESS", format!("127.0.0.1:{admin}"))
                .env("HELMOPS_HEALTH_PROBE_BIND_ADDRESS", format!("127.0.0.1:{probes}"));
            command
        },
        async |[_, admin, _]| helmops::alive(admin).await,
    )
    .await?;
    Ok(Pod {
        running: Running {
            process,
            admin: format!("http://127.0.0.1:{admin}"),
            probes: format!("http://127.0.0.1:{probes}"),
        },
        https: ([127, 0, 0, 1], https).into(),
    })
}

/// The environment variables that a Deployment sets for a pod with this name.
pub(crate) fn environment(deployment: &Value, pod: &str) -> Result<Vec<(String, String)>> {
    container(deployment)?.0.environment(NAMESPACE, pod)
}

/// The only container of a Deployment's pods, and their ServiceAccount.
fn container(deployment: &Value) -> Result<(Container, String)> {
    let spec = deployment.pointer("/spec/template/spec");
    let mut spec = PodSpec::deserialize(spec.context("the Deployment has no pod template")?)?;
    let container = spec.containers.pop();
    ensure!(spec.containers.is_empty(), "the pod has more than one container");
    let container = container.context("the pod has no container")?;
    Ok((container, spec.service_account_name))
}

/// Routes requests of the API server for the Service of the webhook to a pod. The port 443 of the Service is not available on
/// this machine, so the configurations get the port of the pod.
pub async fn route_service_to(kubectl: &Kubectl, pod: &Pod) -> Result<()> {
    let service = json!({ "spec": { "type": "ExternalName", "externalName": pod.https.ip() } }).to_string();
    let patch = [
        "patch",
        "service",
        "helmops-webhook",
        "--namespace",
        NAMESPACE,
        "--patch",
        &service,
    ];
    kubectl.run(&patch).await?.ok()?;
    for (kind, webhooks) in [
        ("mutatingwebhookconfiguration", 1),
        ("validatingwebhookconfiguration", 2),
    ] {
        let object = format!("{kind}/helmops");
        let port = |index: usize| {
            let field = format!("/webhooks/{index}/clientConfig/service/port");
            json!({ "op": "add", "path": field, "value": pod.https.port() })
        };
        let port = Value::Array((0..webhooks).map(port).collect());
        kubectl
            .run(&["patch", &object, "--type=json", "--patch", &port.to_string()])
            .await?
            .ok()?;
    }
    Ok(())
}

/// Sets the status of all pods to ready, as the kubelet does.
pub async fn mark_pods_ready(kubectl: &Kubectl) -> Result<()> {
    let kubectl = kubectl.in_namespace(NAMESPACE);
    let status =
        json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let status = status.to_string();
    eventually("all pods to be created", CREATED, async || {
        let desired = fields(&kubectl, "deployments", "{.spec.replicas}").await?;
        let desired = desired
            .iter()
            .map(|number| Ok(number.parse::<usize>()?))
            .sum::<Result<usize>>()?;
        let pods = fields(&kubectl, "pods", "{.metadata.name}").await?;
        ensure!(pods.len() == desired, "{} of {desired} pods", pods.len());
        for pod in pods {
            let patch = ["patch", "pod", &pod, "--subresource=status", "--patch", &status];
            kubectl.run(&patch).await?.ok()?;
        }
        Ok(())
    })
    .await
}

/// A field of each object of a kind.
async fn fields(kubectl: &Kubectl, kind: &str, field: &str) -> Result<Vec<String>> {
    let format = format!("jsonpath={{range .items[*]}}{field}{{\"\\n\"}}{{end}}");
    let printed = kubectl.run(&["get", kind, "--output", &format]).await?.ok()?;
    Ok(printed.lines().map(str::to_owned).collect())
}

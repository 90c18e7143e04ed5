//! A node that a control plane here does not have: it runs what the shipped Deployments ask for as processes of this machine,
//! and leads the shipped Services to them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::helmops::{NAMESPACE, Running};
use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::service_account::service_account_kubeconfig;
use crate::wait::eventually;
use crate::{helmops, test_bed};

/// The controller manager makes pods within a second.
const MADE: Duration = Duration::from_secs(30);

/// Chart servers here are on this machine, which the controller does not connect to by default.
const CHARTS_NEAR_BY: [&str; 2] = ["HELMOPS_ALLOW_CIDRS", "127.0.0.0/8,::1/128"];

/// A pod of a Deployment.
#[derive(Debug)]
pub struct Pod {
    /// Its process.
    pub running: Running,
    /// Where its webhooks are, if it has any.
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
    env: Vec<Variable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
    value_from: Option<Value>,
}

impl Container {
    fn environment(&self, pod: &str) -> Result<Vec<(String, String)>> {
        let variables = self.env.iter();
        let mut environment = variables
            .map(|variable| Ok((variable.name.clone(), variable.value(pod)?)))
            .collect::<Result<Vec<_>>>()?;
        environment.push(CHARTS_NEAR_BY.map(str::to_owned).into());
        Ok(environment)
    }
}

impl Variable {
    fn value(&self, pod: &str) -> Result<String> {
        let Some(from) = &self.value_from else {
            return Ok(self.value.clone());
        };
        let path = from.pointer("/fieldRef/fieldPath").and_then(Value::as_str);
        match path.with_context(|| format!("{} is from {from}", self.name))? {
            "metadata.name" => Ok(pod.to_owned()),
            "metadata.namespace" => Ok(NAMESPACE.to_owned()),
            other => anyhow::bail!("{} is from {other}", self.name),
        }
    }
}

/// Runs one pod of a Deployment, with its command, arguments, environment and ServiceAccount, on ports of its own; it is
/// alive. `command` makes the command for a program.
pub async fn run_pod(
    cluster: &Cluster,
    deployment: &str,
    pod: &str,
    command: &dyn Fn(&Path) -> Command,
) -> Result<Pod> {
    let object = format!("deployment/{deployment}");
    let found = cluster.kubectl().in_namespace(NAMESPACE).get(&object).await?;
    let found = found.with_context(|| format!("no {object}"))?;
    let (container, account) = container(&found).context(object)?;
    let [program] = container.command.as_slice() else {
        anyhow::bail!("{deployment} has the command {:?}", container.command);
    };
    let program = test_bed::binary(program.trim_start_matches('/'))?;
    let kubeconfig = service_account_kubeconfig(cluster, NAMESPACE, &account).await?;
    let environment = container.environment(pod)?;
    let (process, [https, admin, probes]) = Process::start_on_ports(
        pod,
        &cluster.log(pod),
        |[https, admin, probes]| {
            let mut command = command(&program);
            command
                .args(&container.args)
                .envs(environment.clone())
                // In place of what the kubelet and the network of a cluster bring.
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

/// What a Deployment gives to a pod of this name in its environment.
pub(crate) fn environment(deployment: &Value, pod: &str) -> Result<Vec<(String, String)>> {
    container(deployment)?.0.environment(pod)
}

/// The only container of a Deployment's pods, and their ServiceAccount.
fn container(deployment: &Value) -> Result<(Container, String)> {
    let spec = deployment.pointer("/spec/template/spec");
    let mut spec = PodSpec::deserialize(spec.context("a Deployment without pods")?)?;
    let container = spec.containers.pop();
    ensure!(spec.containers.is_empty(), "a pod with more than one container");
    let container = container.context("a pod without a container")?;
    Ok((container, spec.service_account_name))
}

/// Leads the webhook's Service to a pod, as the API server asks it. The port of the Service, 443, is not to be had here, so
/// the configurations name that of the pod.
pub async fn lead_to(kubectl: &Kubectl, pod: &Pod) -> Result<()> {
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
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let object = format!("{kind}/helmops");
        let port = json!([{
            "op": "add", "path": "/webhooks/0/clientConfig/service/port", "value": pod.https.port(),
        }]);
        kubectl
            .run(&["patch", &object, "--type=json", "--patch", &port.to_string()])
            .await?
            .ok()?;
    }
    Ok(())
}

/// Tells of all pods that they are ready, as a kubelet would.
pub async fn tell_ready(kubectl: &Kubectl) -> Result<()> {
    let kubectl = kubectl.in_namespace(NAMESPACE);
    let status =
        json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let status = status.to_string();
    eventually("all pods to be made", MADE, async || {
        let wanted = fields(&kubectl, "deployments", "{.spec.replicas}").await?;
        let wanted = wanted
            .iter()
            .map(|number| Ok(number.parse::<usize>()?))
            .sum::<Result<usize>>()?;
        let pods = fields(&kubectl, "pods", "{.metadata.name}").await?;
        ensure!(pods.len() == wanted, "{} of {wanted} pods", pods.len());
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

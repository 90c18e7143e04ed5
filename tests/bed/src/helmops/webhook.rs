//! The webhook in a control plane, and its configurations for a process outside of the cluster.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use super::manifests::{NAMESPACE, manifests};
use super::processes::{Program, Running, alive, local, ready};
use crate::api::GROUP;
use crate::cluster::Cluster;
use crate::kubectl::Kubectl;
use crate::private_ca::PrivateCa;
use crate::wait::eventually;

/// The API server loads a new webhook configuration within a second.
const REGISTERED_DEADLINE: Duration = Duration::from_secs(30);
/// The webhook configurations of the manifests.
pub const CONFIGURATIONS: [&str; 2] = ["mutatingwebhook.yaml", "validatingwebhook.yaml"];
const WEBHOOK: Program = Program {
    name: "helmops-webhook",
    namespace: NAMESPACE,
    deployment: None,
    has_port: true,
};

/// The webhook and its address.
#[derive(Debug)]
pub struct Webhook {
    pub running: Running,
    /// Base URL of its webhooks.
    pub url: String,
    /// The CA of its certificate, PEM.
    pub ca: String,
}

/// A webhook that manages its own certificate, and its address.
#[derive(Debug)]
pub struct ManagedWebhook {
    pub running: Running,
    pub https: SocketAddr,
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
    let (running, https) = WEBHOOK.start(cluster, name, &command, ready).await?;
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
    let (running, https) = WEBHOOK.start(cluster, name, &command, alive).await?;
    Ok(ManagedWebhook {
        running,
        https: ([127, 0, 0, 1], https).into(),
    })
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
    let path = format!("{GROUP}/namespaces/default/helmops?dryRun=All");
    let denied = kubectl.api()?.call(Method::POST, &path, invalid).await;
    let response = denied.unwrap_or_else(|error| format!("{error:#}"));
    ensure!(
        response.contains("helm options are empty"),
        "the API server responded {response:?}"
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

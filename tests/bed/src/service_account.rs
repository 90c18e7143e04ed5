//! Requests as a ServiceAccount, with only the permissions of its roles.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, value_at};
use crate::cluster::Cluster;
use crate::helmops::NAMESPACE;
use crate::kubeconfig;
use crate::kubectl::Kubectl;
use crate::private_ca::LIFETIME;

/// A busy machine takes its time for a request.
const DELAY: Duration = Duration::from_mins(5);

/// Writes a kubeconfig with a new token of this ServiceAccount; the file is removed with the control plane. Nothing renews the token, so
/// it lasts as long as the certificates: by default it would end after an hour.
///
/// # Errors
/// If there is no such account, or the API server grants a token for a shorter time.
pub async fn service_account_kubeconfig(cluster: &Cluster, namespace: &str, name: &str) -> Result<PathBuf> {
    let spec = json!({ "expirationSeconds": LIFETIME.as_secs() });
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    let path = format!("api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let created = Api::new(cluster)?.call(Method::POST, &path, request).await?;
    let created: Value = serde_json::from_str(&created)?;
    let token = value_at(&created, "/status/token");
    let token = token.as_str().context("no token")?;
    let end = value_at(&created, "/status/expirationTimestamp");
    let end: Timestamp = end.as_str().context("no expiration")?.parse()?;
    // An API server may limit what is requested (--service-account-max-token-expiration).
    ensure!(
        end > Timestamp::now() + LIFETIME - DELAY,
        "the token of {namespace}/{name} ends at {end} already"
    );
    let content = kubeconfig::render(&cluster.url, &cluster.ca()?, token);
    let path = cluster.directory.join(format!("{namespace}-{name}.kubeconfig"));
    std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Whether a ServiceAccount of helmops has the permission for an action such as `list secrets` in the namespace of kubectl,
/// according to the API server.
pub async fn may(kubectl: &Kubectl, name: &str, action: &str) -> Result<bool> {
    let account = format!("--as=system:serviceaccount:{NAMESPACE}:{name}");
    let mut arguments = vec!["auth", "can-i", &account];
    arguments.extend(action.split(' '));
    let output = kubectl.run(&arguments).await?;
    match output.stdout.trim() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => bail!("{action}: {}", output.stderr.trim()),
    }
}

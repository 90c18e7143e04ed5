//! Requests as a ServiceAccount, with only the permissions of its roles.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, value_at};
use crate::cluster::Cluster;
use crate::helmops::NAMESPACE;
use crate::kubeconfig;
use crate::kubectl::Kubectl;

/// Writes a kubeconfig with a new token of this ServiceAccount; the file is removed with the control plane.
pub async fn service_account_kubeconfig(cluster: &Cluster, namespace: &str, name: &str) -> Result<PathBuf> {
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let path = format!("api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let created = Api::new(cluster)?.call(Method::POST, &path, request).await?;
    let created: Value = serde_json::from_str(&created)?;
    let token = value_at(&created, "/status/token");
    let token = token.as_str().context("no token")?;
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

//! Acting as a service account, with no more rights than its roles give.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;
use crate::helmops::NAMESPACE;
use crate::kubeconfig;
use crate::kubectl::Kubectl;

/// Writes a kubeconfig with a fresh token of this service account; it lives as long as the control plane.
pub async fn service_account_kubeconfig(cluster: &Cluster, namespace: &str, name: &str) -> Result<PathBuf> {
    let kubectl = cluster.kubectl().in_namespace(namespace);
    let token = kubectl.run(&["create", "token", name]).await?.ok()?;
    let content = kubeconfig::render(&cluster.url, &cluster.ca()?, token.trim());
    let path = cluster.directory.join(format!("{namespace}-{name}.kubeconfig"));
    std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Whether a service account of helmops may do something in the namespace of kubectl, such as `list secrets`, by what the API
/// server says.
pub async fn may(kubectl: &Kubectl, name: &str, what: &str) -> Result<bool> {
    let account = format!("--as=system:serviceaccount:{NAMESPACE}:{name}");
    let mut arguments = vec!["auth", "can-i", &account];
    arguments.extend(what.split(' '));
    let answer = kubectl.run(&arguments).await?;
    match answer.stdout.trim() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => bail!("{what}: {}", answer.stderr.trim()),
    }
}

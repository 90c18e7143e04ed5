//! Acting as a service account, with no more rights than its roles give.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::kubeconfig;

/// Writes a kubeconfig with a fresh token of this service account; it lives as long as the control plane.
pub async fn service_account_kubeconfig(cluster: &Cluster, namespace: &str, name: &str) -> Result<PathBuf> {
    let kubectl = cluster.kubectl().in_namespace(namespace);
    let token = kubectl.run(&["create", "token", name]).await?.ok()?;
    let content = kubeconfig::render(&cluster.url, &cluster.ca()?, token.trim());
    let path = cluster.directory.join(format!("{namespace}-{name}.kubeconfig"));
    std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

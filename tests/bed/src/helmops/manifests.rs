//! The manifests, and how the tests install them without the pods.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::command::run;
use crate::kubectl::Kubectl;
use crate::tools::Tools;

/// `kubectl kustomize` takes a fraction of a second; a busy machine takes longer.
const BUILD_DEADLINE: Duration = Duration::from_secs(30);
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

/// A part of helmops, as its manifests install it, without the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What all installations have: CRDs, the namespace and roles.
    Base,
    /// The additional CRDs and roles for the delivery of Bundles to clusters.
    Standalone,
    /// The additional roles for the import of clusters by their kubeconfigs.
    Import,
    /// The roles for clusters that register themselves.
    Registration,
    /// The roles of the notifier and the receiver.
    Notifications,
}

impl Part {
    const fn files(self) -> &'static [&'static str] {
        match self {
            Self::Base => &[
                "crd/bases",
                "crd/notifications",
                "base/namespace.yaml",
                "base/rbac.yaml",
            ],
            Self::Standalone => &[
                "standalone/crds",
                "standalone/rbac.yaml",
                "standalone/agents.yaml",
            ],
            Self::Import => &["import/rbac.yaml"],
            Self::Registration => &["registration/rbac.yaml"],
            Self::Notifications => &["notifications/rbac.yaml", "notifications/receiver/rbac.yaml"],
        }
    }

    /// The files and folders of parts, in the order in which they are applied.
    pub fn paths(parts: &[Self]) -> Vec<PathBuf> {
        let files = parts.iter().flat_map(|part| part.files());
        files.map(|file| manifests().join(file)).collect()
    }
}

/// Folder of the manifests.
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests")
}

/// Applies what `manifests/agent/local` installs, besides the process, and the Cluster of the example.
pub async fn apply_local_agent(cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.kubectl();
    let mut objects = objects(&cluster.tools, "agent/local").await?;
    objects.retain(|object| {
        let kind = object.get("kind").and_then(Value::as_str);
        kind.is_some_and(|kind| AGENT_OBJECTS.contains(&kind))
    });
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    kubectl.apply(&list.to_string()).await?.ok()?;
    let cluster = manifests().join("examples/local-cluster.yaml");
    kubectl.apply_files(&[cluster]).await
}

/// Applies parts to a control plane that runs.
pub async fn apply(kubectl: &Kubectl, parts: &[Part]) -> Result<()> {
    kubectl.apply_files(&Part::paths(parts)).await
}

/// The objects that a folder of the manifests installs.
pub async fn objects(tools: &Tools, folder: &str) -> Result<Vec<Value>> {
    let mut command = Command::new(tools.kubectl());
    command.arg("kustomize").arg(manifests().join(folder));
    let built = run(command, "", BUILD_DEADLINE).await?.ok()?;
    Ok(serde_saphyr::from_multiple(&built)?)
}

/// The Deployment in a file of the manifests.
pub(super) fn deployment(file: &str) -> Result<Value> {
    let content = std::fs::read_to_string(manifests().join(file))?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&content)?;
    let is_deployment = |object: &Value| object.get("kind") == Some(&json!("Deployment"));
    let found = objects.into_iter().find(is_deployment);
    found.with_context(|| format!("{file} contains no Deployment"))
}

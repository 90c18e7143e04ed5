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

/// Folder of the manifests.
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests")
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

/// Applies what `manifests/notifications` installs, besides the processes.
pub async fn apply_notifications(kubectl: &Kubectl) -> Result<()> {
    apply_files(
        kubectl,
        &["notifications/rbac.yaml", "notifications/receiver/rbac.yaml"],
    )
    .await
}

/// The objects that a folder of the manifests installs.
pub async fn objects(tools: &Tools, folder: &str) -> Result<Vec<Value>> {
    let mut command = Command::new(tools.kubectl());
    command.arg("kustomize").arg(manifests().join(folder));
    let built = run(command, "", BUILD_DEADLINE).await?.ok()?;
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

/// The Deployment in a file of the manifests.
pub(super) fn deployment(file: &str) -> Result<Value> {
    let content = std::fs::read_to_string(manifests().join(file))?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&content)?;
    let is_deployment = |object: &Value| object.get("kind") == Some(&json!("Deployment"));
    let found = objects.into_iter().find(is_deployment);
    found.with_context(|| format!("{file} contains no Deployment"))
}

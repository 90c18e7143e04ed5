//! Installs helmops as docs/install.md says, with kubectl and with Helm.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_bed::wait::eventually;

use super::{SYSTEM, Site};
use crate::images::{REPOSITORIES, TAG};
use crate::node::{files_below, is_true};

const SOON: Duration = Duration::from_mins(1);
/// The Deployments of `manifests/local` and `manifests/notifications`.
const DEPLOYMENTS: [&str; 5] = [
    "helmops-system/helmops-webhook",
    "helmops-system/helmops-controller",
    "cattle-fleet-local-system/helmops-agent",
    "helmops-system/helmops-notifier",
    "helmops-system/helmops-receiver",
];
const LOCAL_CLUSTER: &str = "manifests/examples/local-cluster.yaml";

impl Site {
    /// "Write a kustomization.yaml beside the checkout": everything of this cluster, with the tag of the images. A limit is that of the
    /// memory of the agent, in MiB.
    pub async fn install(&self, tag: &str, limit: Option<u64>) -> Result<()> {
        let folder = self.folder();
        let checkout = folder.join("helmops");
        if !checkout.exists() {
            std::fs::create_dir(&checkout)?;
            copy(&manifests(), &checkout.join("manifests"))?;
        }
        let [helmops, agent] = REPOSITORIES;
        let kustomization = format!(
            "resources:\n  - helmops/manifests/local\n  - helmops/manifests/notifications\nimages:\n  \
             - {{ name: helmops, newName: {helmops}, newTag: \"{tag}\" }}\n  \
             - {{ name: helmops-agent, newName: {agent}, newTag: \"{tag}\" }}\n"
        );
        let patch = limit.map(|mib| {
            format!(
                "patches:\n  - target: {{ kind: Deployment, name: helmops-agent }}\n    patch: |\n      \
                 - {{ op: replace, path: /spec/template/spec/containers/0/resources, value: {{ limits: {{ memory: {mib}Mi }} }} }}\n"
            )
        });
        let kustomization = kustomization + &patch.unwrap_or_default();
        std::fs::write(folder.join("kustomization.yaml"), kustomization)?;
        self.run(&["apply", "--server-side", "-k", &folder.to_string_lossy()])
            .await?;
        self.register().await?;
        for deployment in DEPLOYMENTS {
            self.node.until_available(deployment).await?;
        }
        Ok(())
    }

    /// The same with Helm, which waits until all is ready.
    pub async fn install_with_helm(&self) -> Result<()> {
        let [helmops, agent] = REPOSITORIES;
        let chart = manifests();
        let (repository, agent) = (
            format!("image.repository={helmops}"),
            format!("agent.image.repository={agent}"),
        );
        let tags = format!("image.tag={TAG},agent.image.tag={TAG}");
        let arguments = [
            "install",
            "helmops",
            &chart.to_string_lossy(),
            "--namespace",
            SYSTEM,
            "--create-namespace",
            "--wait",
            "--timeout=25s",
            "--set=standalone=true,agent.local=true",
            "--set",
            &repository,
            "--set",
            &agent,
            "--set",
            &tags,
        ];
        self.helm(&arguments).await.map(drop)
    }

    /// Registers the cluster with itself.
    pub async fn register(&self) -> Result<()> {
        let file = local_cluster();
        self.run(&["apply", "--server-side", "-f", &file.to_string_lossy()])
            .await
            .map(drop)
    }

    /// Waits until the Cluster is ready.
    pub async fn until_registered(&self) -> Result<()> {
        eventually("Cluster local", SOON, async || {
            let cluster = self.get("fleet-local", "cluster/local").await?;
            is_true(&cluster, "Ready")
                .then_some(())
                .context("it is not ready")
        })
        .await
    }

    /// "Without Fleet": deletes the HelmOps, the Cluster, and what both installations have in common.
    pub async fn withdraw(&self) -> Result<()> {
        self.run(&["delete", "helmops", "--all", "--all-namespaces"])
            .await?;
        let waited = [
            "wait",
            "bundles,bundledeployments",
            "--all",
            "--all-namespaces",
            "--for=delete",
            "--timeout=2m",
        ];
        self.run(&waited).await?;
        let file = local_cluster();
        self.run(&["delete", "-f", &file.to_string_lossy(), "--ignore-not-found"])
            .await
            .map(drop)
    }

    /// Then everything else, with kubectl.
    pub async fn uninstall(&self) -> Result<()> {
        for folder in ["notifications", "local"] {
            let folder = manifests().join(folder);
            self.run(&["delete", "-k", &folder.to_string_lossy(), "--ignore-not-found"])
                .await?;
        }
        Ok(())
    }

    /// Then everything else, with Helm.
    pub async fn uninstall_with_helm(&self) -> Result<()> {
        self.helm(&["uninstall", "helmops", "--namespace", SYSTEM])
            .await?;
        self.run(&["delete", "namespace", SYSTEM]).await?;
        let folders = [manifests().join("crd"), manifests().join("standalone/crds")];
        self.run(&["delete", "-k", &folders[0].to_string_lossy()]).await?;
        self.run(&["delete", "-f", &folders[1].to_string_lossy()])
            .await
            .map(drop)
    }

    /// The objects of the whole cluster, and its namespaces, whose names have helmops or Fleet in them.
    pub async fn left(&self) -> Result<Vec<String>> {
        let kinds = "crd,clusterrole,clusterrolebinding,priorityclass,validatingwebhookconfiguration,\
                     mutatingwebhookconfiguration,namespace";
        let names = self.run(&["get", kinds, "--output=name"]).await?;
        let names = names
            .lines()
            .filter(|name| name.contains("helmops") || name.contains("fleet"));
        Ok(names.map(str::to_owned).collect())
    }
}

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests")
}

fn local_cluster() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(LOCAL_CLUSTER)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in files_below(from)? {
        let target = to.join(file.strip_prefix(from)?);
        std::fs::create_dir_all(target.parent().unwrap_or(to))?;
        std::fs::copy(file, target)?;
    }
    Ok(())
}

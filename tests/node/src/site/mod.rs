//! helmops on the node: how it is installed, its pods, and HelmOps of charts in a repository of the cluster.

mod admission_loop;
mod helmop;
mod install;
mod pods;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use helmops_bed::api::Api;
use helmops_bed::helm::Helm;
use helmops_bed::kubectl::Kubectl;
use serde_json::Value;

use crate::node::Node;

pub use self::admission_loop::{AdmissionLoop, create, probe};
pub use self::helmop::NAMESPACE;
pub use self::pods::container;

/// Where the agent of the cluster itself runs.
pub const AGENT_NAMESPACE: &str = "cattle-fleet-local-system";
/// Where the other processes run.
pub const SYSTEM: &str = "helmops-system";

/// The node with helmops.
pub struct Site {
    pub node: Node,
    /// As administrator.
    pub kubectl: Kubectl,
    /// In the folder of the charts.
    helm: Helm,
    state: PathBuf,
}

impl Site {
    pub fn new(node: Node, state: &Path) -> Self {
        Self {
            kubectl: node.cluster.kubectl(),
            helm: Helm::new(&node.cluster.tools, &state.join("charts")),
            state: state.to_owned(),
            node,
        }
    }

    pub fn api(&self) -> Result<Api> {
        self.kubectl.api()
    }

    /// What a run of kubectl prints.
    ///
    /// # Errors
    /// If it fails; with what it prints.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl.run(arguments).await?.ok()
    }

    /// An object, `kind/name`.
    ///
    /// # Errors
    /// If it does not exist.
    pub async fn get(&self, namespace: &str, object: &str) -> Result<Value> {
        let found = self.kubectl.in_namespace(namespace).get(object).await?;
        found.with_context(|| format!("{namespace} has no {object}"))
    }

    /// An error as long as an object, `kind/name`, exists.
    pub async fn gone(&self, namespace: &str, object: &str) -> Result<()> {
        let found = self.kubectl.in_namespace(namespace).get(object).await?;
        ensure!(found.is_none(), "{namespace} still has {object}");
        Ok(())
    }

    /// What Helm prints.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        self.helm.run(arguments).await
    }

    /// A folder for files of the administrator.
    pub fn folder(&self) -> PathBuf {
        self.state.join("site")
    }
}

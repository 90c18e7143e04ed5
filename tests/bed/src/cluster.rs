//! The address and credentials of a running control plane.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::credentials;
use crate::kubectl::Kubectl;
use crate::tools::Tools;

/// What `testbed serve` prints, as one line of JSON, when the control plane is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cluster {
    /// A kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
    /// The API server.
    pub url: String,
    /// Holds the logs and all other files of the control plane; removed with it.
    pub directory: PathBuf,
    pub tools: Tools,
    /// The `testbed serve` that owns it.
    pub pid: u32,
    pub etcd: String,
    /// The URL of the chart repository that runs with it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charts: Option<String>,
}

impl Cluster {
    /// kubectl as administrator.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(self)
    }

    /// The CA certificate of the API server, PEM.
    pub fn ca(&self) -> Result<String> {
        let path = self.directory.join(credentials::CA);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The log file of the program `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// The audit log, one event per line, if the control plane writes one.
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }
}

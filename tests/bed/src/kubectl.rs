//! kubectl, as users and scripts run it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::{Output, run};
use crate::tools::Tools;

/// Much longer than the slowest call of the tests, a `kubectl wait`.
const DEADLINE: Duration = Duration::from_mins(1);

/// kubectl for one kubeconfig and, optionally, one namespace.
#[derive(Clone, Debug)]
pub struct Kubectl {
    path: PathBuf,
    kubeconfig: PathBuf,
    namespace: Option<String>,
}

impl Kubectl {
    /// For the namespace of the kubeconfig, or `default`.
    pub fn new(tools: &Tools, kubeconfig: &Path) -> Self {
        Self {
            path: tools.kubectl(),
            kubeconfig: kubeconfig.to_owned(),
            namespace: None,
        }
    }

    /// The same, for another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..self.clone()
        }
    }

    /// The same, with the credentials of another kubeconfig.
    #[must_use]
    pub fn with_kubeconfig(&self, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            ..self.clone()
        }
    }

    /// Runs kubectl with these arguments.
    ///
    /// # Errors
    /// If it cannot be started or does not end. A failure of kubectl itself is reported by [`Output::ok`].
    pub async fn run(&self, arguments: &[&str]) -> Result<Output> {
        self.run_with_input(arguments, "").await
    }

    /// Runs kubectl with these arguments and this standard input.
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<Output> {
        run(self.command(arguments).into(), input, DEADLINE).await
    }

    /// `kubectl apply` of one or more YAML documents.
    pub async fn apply(&self, yaml: &str) -> Result<Output> {
        self.run_with_input(&["apply", "--filename=-"], yaml).await
    }

    /// An object such as `helmop/nginx`, or `None` if it does not exist.
    pub async fn get(&self, object: &str) -> Result<Option<Value>> {
        let arguments = ["get", object, "--output=json", "--ignore-not-found"];
        let json = self.run(&arguments).await?.ok()?;
        if json.is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&json).with_context(|| format!("kubectl printed no JSON for {object}"))
    }

    /// The command itself, for callers that cannot be async.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        // kubectl caches discovery by the address of the API server, and another one may have used this port.
        command
            .arg("--cache-dir")
            .arg(self.kubeconfig.with_extension("cache"));
        if let Some(namespace) = &self.namespace {
            command.arg("--namespace").arg(namespace);
        }
        command.args(arguments);
        command
    }
}

impl AsRef<Self> for Kubectl {
    fn as_ref(&self) -> &Self {
        self
    }
}

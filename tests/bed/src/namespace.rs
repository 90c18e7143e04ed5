//! A namespace for one test.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::api::Api;
use crate::cluster::Cluster;
use crate::kubectl::Kubectl;
use crate::random;

/// The resources to print if a test fails, in this order.
const SHOWN_ON_FAILURE: [&str; 3] = ["helmops", "bundles", "events"];

/// A namespace that is deleted, without waiting, when this value is dropped.
///
/// If it is dropped by a panic, the objects of the namespace are printed first.
#[derive(Debug)]
pub struct TestNamespace {
    name: String,
    kubectl: Kubectl,
    /// Whether it was there before.
    is_foreign: bool,
}

impl TestNamespace {
    /// Creates the namespace `prefix-<random>`.
    pub async fn create(cluster: &Cluster, prefix: &str) -> Result<Self> {
        let name = format!("{prefix}-{}", random::word());
        let kubectl = cluster.kubectl().in_namespace(&name);
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"helmops.dev/test": prefix}},
        });
        let api = Api::new(cluster)?;
        api.call(Method::POST, "api/v1/namespaces", namespace).await?;
        Ok(Self {
            name,
            kubectl,
            is_foreign: false,
        })
    }

    /// A namespace that a controller has created. It is not deleted when this value is dropped.
    pub fn existing(cluster: &Cluster, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kubectl: cluster.kubectl().in_namespace(name),
            is_foreign: true,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// kubectl with the credentials of the administrator, for this namespace.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Deletes it without waiting until it is gone; on a thread of its own, since [`Drop`] cannot wait in the runtime of the test.
    fn delete(&self) -> Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let path = format!("api/v1/namespaces/{}", self.name);
        runtime.block_on(self.kubectl.api()?.call(Method::DELETE, &path, Value::Null))?;
        Ok(())
    }

    fn show(&self) {
        for kind in SHOWN_ON_FAILURE {
            let output = self.kubectl.command(&["get", kind, "--output=yaml"]).output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            eprintln!("--- {kind} in {}\n{}---", self.name, text.unwrap_or_default());
        }
    }
}

impl AsRef<Kubectl> for TestNamespace {
    fn as_ref(&self) -> &Kubectl {
        &self.kubectl
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show();
        }
        if self.is_foreign {
            return;
        }
        // Best effort: the control plane of a test ends with the test. A process of kubectl would cost a tenth of a second.
        std::thread::scope(|threads| threads.spawn(|| self.delete()).join().ok());
    }
}

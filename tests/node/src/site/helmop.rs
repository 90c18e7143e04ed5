//! HelmOps of charts that the cluster serves, and what shows that they are deployed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Site;
use crate::node::{condition, files_below, is_true};

/// Where HelmOps for the cluster itself are.
pub const NAMESPACE: &str = "fleet-local";
/// The repository of charts, through its Service.
const REPOSITORY: &str = "http://charts.charts.svc";

impl Site {
    /// Publishes a version of a chart of the folder `charts`.
    pub async fn publish(&self, chart: &str, version: &str) -> Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts").join(chart);
        let files = files(&folder)?;
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        self.helm.publish(chart, version, &files).await
    }

    /// Applies a HelmOp of the chart `web`; `change` is merged into its specification. Charts come into a namespace of its name.
    pub async fn apply(&self, name: &str, change: &Value) -> Result<()> {
        let mut spec = json!({
            "namespace": name,
            "pollingInterval": "15s",
            "helm": { "repo": REPOSITORY, "chart": "web", "version": "0.x", "releaseName": "web" },
            "correctDrift": { "enabled": true },
            "targets": [{ "clusterSelector": {} }],
        });
        merge(&mut spec, change);
        let helmop = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1",
            "kind": "HelmOp",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": spec,
        });
        let kubectl = self.kubectl.in_namespace(NAMESPACE);
        kubectl.apply(&helmop.to_string()).await?.ok().map(drop)
    }

    pub async fn delete(&self, names: &[&str]) -> Result<()> {
        let arguments = [
            &["delete", "--namespace=fleet-local", "--wait=false", "helmops"],
            names,
        ]
        .concat();
        self.run(&arguments).await.map(drop)
    }

    /// An error unless a HelmOp is ready; with its message.
    pub async fn ready(&self, name: &str) -> Result<()> {
        let helmop = self.get(NAMESPACE, &format!("helmop/{name}")).await?;
        ensure!(is_true(&helmop, "Ready"), "it is not ready: {}", message(&helmop));
        Ok(())
    }

    /// The message of the condition `Ready` of a HelmOp.
    pub async fn message(&self, name: &str) -> Result<String> {
        Ok(message(&self.get(NAMESPACE, &format!("helmop/{name}")).await?))
    }

    /// An error unless the message of a HelmOp has all parts.
    pub async fn says(&self, name: &str, parts: &[&str]) -> Result<()> {
        let message = self.message(name).await?;
        let missing = parts.iter().find(|part| !message.contains(**part));
        ensure!(missing.is_none(), "{missing:?} is not in {message:?}");
        Ok(())
    }

    /// An error unless Helm has deployed this version of the chart `web` in a namespace.
    pub async fn deployed(&self, namespace: &str, version: &str) -> Result<()> {
        let list = self
            .helm(&["list", "--namespace", namespace, "--output=json"])
            .await?;
        let list: Value = serde_json::from_str(&list)?;
        let is_it =
            |release: &Value| release["chart"] == format!("web-{version}") && release["status"] == "deployed";
        let found = list.as_array().is_some_and(|releases| releases.iter().any(is_it));
        ensure!(found, "it is not deployed: {list}");
        Ok(())
    }

    /// Changes the ConfigMap of the release in `shop` beside Helm.
    pub async fn drift(&self) -> Result<()> {
        let patch = r#"--patch={"data":{"greeting":"changed"}}"#;
        self.run(&[
            "patch",
            "--namespace=shop",
            "configmap/web",
            "--type=merge",
            patch,
        ])
        .await
        .map(drop)
    }

    /// An error unless that change was corrected.
    pub async fn corrected(&self) -> Result<()> {
        let found = self.get("shop", "configmap/web").await?;
        ensure!(
            found["data"]["greeting"] == "hello",
            "the greeting is {}",
            found["data"]["greeting"]
        );
        Ok(())
    }

    /// What the Service of the chart `web` in a namespace responds.
    pub async fn answer(&self, namespace: &str) -> Result<String> {
        let service = self.get(namespace, "service/web").await?;
        let address = service["spec"]["clusterIP"]
            .as_str()
            .context("it has no address")?;
        let client = helmops_bed::probe::client(None)?;
        helmops_bed::probe::get(&client, &format!("http://{address}/")).await
    }
}

fn message(helmop: &Value) -> String {
    let message = condition(helmop, "Ready").and_then(|ready| ready["message"].as_str());
    message.unwrap_or_default().to_owned()
}

/// Merges a change into a value: objects by key, anything else is replaced.
fn merge(value: &mut Value, change: &Value) {
    match (value, change) {
        (Value::Object(value), Value::Object(change)) => {
            for (key, change) in change {
                merge(value.entry(key).or_insert(Value::Null), change);
            }
        }
        (value, change) => *value = change.clone(),
    }
}

/// The files of a chart with their paths in it.
fn files(chart: &Path) -> Result<Vec<(String, String)>> {
    let read = |path: PathBuf| {
        let inside = path.strip_prefix(chart)?.to_string_lossy().into_owned();
        Ok((inside, std::fs::read_to_string(&path)?))
    };
    files_below(chart)?.into_iter().map(read).collect()
}

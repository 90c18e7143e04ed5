//! The BundleDeployments that the agent reconciles.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bed::random;
use helmops_bed::wait::eventually;
use helmops_core::targeting::identity::values_hash;
use helmops_release::record::secret_name;
use reqwest::Method;
use serde_json::{Value, json};

use super::Fixture;
use crate::harness::{SOON, condition, message, until};

const GROUP: &str = "apis/fleet.cattle.io/v1alpha1";

impl Fixture {
    /// The name of a BundleDeployment of this test, which is also that of its release.
    pub fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.word)
    }

    /// The spec of a BundleDeployment of the chart `web`, with `over` merged over it. The deployment ID follows from the options, unless
    /// `over` has one.
    pub fn spec(&self, version: &str, over: &Value) -> Value {
        let mut spec = json!({
            "options": {
                "defaultNamespace": self.apps.name(),
                "helm": { "repo": self.charts.url(), "chart": "web", "version": version },
            },
            "helmChartOptions": {},
        });
        json_patch::merge(&mut spec, over);
        let mut options = spec["options"].clone();
        for field in ["correctDrift", "diff", "ignore"] {
            options.as_object_mut().unwrap().remove(field);
        }
        let mut hasher = DefaultHasher::new();
        (options.to_string(), spec["valuesHash"].to_string()).hash(&mut hasher);
        let id = format!(":{:016x}", hasher.finish());
        for field in ["deploymentID", "stagedDeploymentID"] {
            if spec[field].is_null() {
                spec[field] = json!(id);
            }
        }
        spec["stagedOptions"] = spec["options"].clone();
        spec
    }

    /// Creates or replaces a BundleDeployment of a version of the chart `web`.
    pub async fn deploy(&self, name: &str, version: &str, over: &Value) {
        self.put(&self.name(name), self.spec(version, over)).await;
    }

    /// Creates or replaces a BundleDeployment.
    pub async fn put(&self, name: &str, spec: Value) {
        self.put_of("fleet-default", name, spec).await;
    }

    /// Creates or replaces a BundleDeployment of a Bundle in another namespace.
    pub async fn put_of(&self, bundle_namespace: &str, name: &str, spec: Value) {
        let collection = format!("{GROUP}/namespaces/{}/bundledeployments", self.upstream.name());
        let object = format!("{collection}/{name}");
        eventually("the BundleDeployment to be written", SOON, async || {
            let labels = json!({ "fleet.cattle.io/bundle-name": name, "fleet.cattle.io/bundle-namespace": bundle_namespace });
            let mut written = json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
                "metadata": { "name": name, "labels": labels }, "spec": spec,
            });
            match self.api.find(&object).await? {
                Some(found) => {
                    let version = &found["metadata"]["resourceVersion"];
                    written["metadata"]["resourceVersion"] = version.clone();
                    // The status is not changed by this.
                    self.api.call(Method::PUT, &object, written).await
                }
                None => self.api.call(Method::POST, &collection, written).await,
            }
        })
        .await
        .unwrap();
    }

    /// Writes the values of a BundleDeployment, and returns their hash for its spec.
    pub async fn values(&self, name: &str, values: &str) -> String {
        let data = json!({ "values": STANDARD.encode(values), "stagedValues": STANDARD.encode(values) });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": self.name(name) }, "data": data });
        self.upstream
            .kubectl()
            .apply(&secret.to_string())
            .await
            .unwrap()
            .ok()
            .unwrap();
        values_hash(values.as_bytes(), values.as_bytes())
    }

    /// Deletes a BundleDeployment.
    pub async fn delete(&self, name: &str) {
        let name = self.name(name);
        self.api
            .delete(self.upstream.name(), "bundledeployments", &name)
            .await
            .unwrap();
    }

    /// Waits until `check` accepts a BundleDeployment.
    pub async fn until(&self, name: &str, check: impl Fn(&Value) -> Result<()>) -> Value {
        until(
            &self.upstream,
            &format!("bundledeployment/{}", self.name(name)),
            check,
        )
        .await
    }

    /// Waits until what is wanted is deployed and ready, and returns the BundleDeployment.
    pub async fn until_ready(&self, name: &str) -> Value {
        self.until(name, |found| {
            is_applied(found)?;
            let ready = condition(found, "Ready").context("no condition Ready")?;
            ensure!(ready["status"] == "True", "it is {ready}");
            Ok(())
        })
        .await
    }

    /// Waits until what is wanted is deployed as this revision.
    pub async fn until_revision(&self, name: &str, revision: u64) -> Value {
        let release = format!("{}/{}:{revision}", self.apps.name(), self.name(name));
        self.until(name, |found| {
            is_applied(found)?;
            ensure!(
                found["status"]["release"] == release,
                "it is {}",
                found["status"]["release"]
            );
            Ok(())
        })
        .await
    }

    /// Waits until a condition is `False` with a message that contains all of these, and returns the message.
    pub async fn until_error(&self, name: &str, r#type: &str, parts: &[&str]) -> String {
        let found = self
            .until(name, |found| {
                let condition = condition(found, r#type).context("no such condition")?;
                ensure!(condition["status"] == "False", "it is {condition}");
                let message = condition["message"].as_str().unwrap_or_default();
                let missing = parts.iter().find(|part| !message.contains(**part));
                ensure!(missing.is_none(), "{missing:?} is not in {message}");
                Ok(())
            })
            .await;
        message(&found, r#type)
    }

    /// Deploys something else and waits for it: a change before this has been handled, or will not be.
    pub async fn barrier(&self) {
        let name = self.barrier_without_removal().await;
        self.delete(&name).await;
        let secret = format!("secret/{}", secret_name(&self.name(&name), 1));
        self.until_none(&secret).await;
    }

    /// The same where nothing is uninstalled.
    pub async fn barrier_without_removal(&self) -> String {
        let name = format!("barrier-{}", random::word());
        self.deploy(&name, "1.0.0", &json!({})).await;
        self.until_ready(&name).await;
        name
    }
}

fn is_applied(found: &Value) -> Result<()> {
    let (wanted, applied) = (
        &found["spec"]["deploymentID"],
        &found["status"]["appliedDeploymentID"],
    );
    ensure!(
        wanted == applied,
        "{applied} is deployed instead of {wanted}: {}",
        found["status"]["conditions"]
    );
    Ok(())
}

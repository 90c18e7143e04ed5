//! The control planes that tests use, and waiting for the state of objects.

pub mod agent;
pub mod artifact;
pub mod beside_fleet;
pub mod denial;
pub mod joined;
pub mod own;
pub mod standalone;
pub mod whole;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

/// A reconciliation takes milliseconds; the machine may be busy with other tests and other builds.
pub const SOON: Duration = Duration::from_mins(1);

pub fn helmop(name: &str, spec: &Value) -> String {
    json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "metadata": { "name": name }, "spec": spec })
        .to_string()
}

pub fn condition<'o>(object: &'o Value, r#type: &str) -> Option<&'o Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == r#type)
}

/// Runs kubectl, which must succeed, and returns what it prints.
pub async fn run(kubectl: impl AsRef<Kubectl>, arguments: &[&str]) -> String {
    kubectl.as_ref().run(arguments).await.unwrap().ok().unwrap()
}

/// Waits until `check` accepts an object.
pub async fn until(
    kubectl: impl AsRef<Kubectl>,
    object: &str,
    check: impl Fn(&Value) -> Result<()>,
) -> Value {
    let kubectl = kubectl.as_ref();
    eventually(object, SOON, async || {
        let found = kubectl.get(object).await?.context("there is none")?;
        check(&found)?;
        Ok(found)
    })
    .await
    .unwrap()
}

/// Waits until there is no such object.
pub async fn until_none(kubectl: impl AsRef<Kubectl>, object: &str) {
    let kubectl = kubectl.as_ref();
    eventually(&format!("{object} to be removed"), SOON, async || {
        ensure!(kubectl.get(object).await?.is_none(), "it is there");
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits until a Bundle has this version.
pub async fn until_version(kubectl: impl AsRef<Kubectl>, name: &str, version: &str) -> Value {
    until(kubectl, &format!("bundle/{name}"), |bundle| {
        let found = &bundle["spec"]["helm"]["version"];
        ensure!(found == version, "its version is {found}");
        Ok(())
    })
    .await
}

/// Waits until the condition of that type of a HelmOp has this reason, and returns its message.
pub async fn until_reason(kubectl: impl AsRef<Kubectl>, name: &str, r#type: &str, reason: &str) -> String {
    let helmop = until(kubectl, &format!("helmop/{name}"), |helmop| {
        let condition = condition(helmop, r#type).context("no condition of this type")?;
        ensure!(condition["reason"] == reason, "it is {condition}");
        Ok(())
    })
    .await;
    message(&helmop, r#type)
}

/// The message of the condition of that type.
pub fn message(object: &Value, r#type: &str) -> String {
    let condition = condition(object, r#type).unwrap();
    condition["message"].as_str().unwrap_or_default().to_owned()
}

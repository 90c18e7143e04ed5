//! The control plane that tests share, with the webhook and the default controllers in it. Each test has a namespace of its own.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use helmops_bed::charts::ChartRepo;
use helmops_bed::helmops::{self, Running, Webhook};
use helmops_bed::namespace::TestNamespace;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::TestBed;
use serde_json::{Value, json};

use super::{condition, helmop, message, until, until_none};

/// The control plane, both processes of helmops and a chart repository.
pub struct Suite {
    pub bed: TestBed,
    pub webhook: Webhook,
    pub controller: Running,
    /// `alpine` 0.1.0 and 0.2.0, `nginx` 1.1.0; made by Helm.
    pub charts: ChartRepo,
}

/// The suite. It ends soon after the last test that uses it.
pub async fn suite() -> InUse<Suite> {
    static SUITE: Shared<Suite> = Shared::new();
    SUITE.get(start).await.unwrap()
}

async fn start() -> Result<Suite> {
    let bed = helmops::control_plane(false).await?;
    let command = |program: &Path| {
        let mut command = bed.command(program);
        // The default minimum protects registries; tests need not wait for it.
        command.env("HELMOPS_MIN_POLLING_INTERVAL", "1s");
        command
    };
    let webhook = helmops::start_webhook(&bed, "webhook", &command).await?;
    helmops::register_webhook(&bed.kubectl(), &webhook).await?;
    let controller = helmops::start_controller(&bed, "controller", &command).await?;
    let folder = bed.directory.join("charts");
    let versions: &[(&str, &[&str])] = &[("alpine", &["0.1.0", "0.2.0"]), ("nginx", &["1.1.0"])];
    let charts = ChartRepo::build(&bed.tools, &folder, versions).await?;
    Ok(Suite {
        bed,
        webhook,
        controller,
        charts,
    })
}

/// Creates or changes a HelmOp.
pub async fn apply(namespace: &TestNamespace, name: &str, spec: &Value) {
    let applied = namespace.kubectl().apply(&helmop(name, spec)).await.unwrap();
    applied.ok().unwrap();
}

/// Creates or changes the Secret `access`.
pub async fn secret(namespace: &TestNamespace, data: Value) {
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "access" }, "stringData": data });
    let applied = namespace.kubectl().apply(&secret.to_string()).await.unwrap();
    applied.ok().unwrap();
}

/// Waits until a HelmOp is refused for this reason in its current generation, and returns the message.
pub async fn until_refused(namespace: &TestNamespace, name: &str, reason: &str) -> String {
    let helmop = until(namespace, &format!("helmop/{name}"), |helmop| {
        let accepted = condition(helmop, "Accepted").context("no condition")?;
        ensure!(
            accepted["status"] == "False" && accepted["reason"] == reason,
            "it is {accepted}"
        );
        ensure_observed(helmop)
    })
    .await;
    let ready = condition(&helmop, "Ready").unwrap();
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!(reason)),
        "a refused HelmOp is never ready"
    );
    message(&helmop, "Accepted")
}

/// Waits until a HelmOp is accepted in its current generation.
pub async fn until_accepted(namespace: &TestNamespace, name: &str) -> Value {
    until(namespace, &format!("helmop/{name}"), |helmop| {
        let accepted = condition(helmop, "Accepted").context("no condition")?;
        ensure!(accepted["status"] == "True", "it is {accepted}");
        ensure_observed(helmop)
    })
    .await
}

/// Checks that the status is of the current generation.
fn ensure_observed(helmop: &Value) -> Result<()> {
    ensure!(
        helmop["status"]["observedGeneration"] == helmop["metadata"]["generation"],
        "the status is of an older generation"
    );
    Ok(())
}

/// Waits until there is no Bundle of this name.
pub async fn until_no_bundle(namespace: &TestNamespace, name: &str) {
    until_none(namespace, &format!("bundle/{name}")).await;
}

pub async fn assert_no_bundle(namespace: &TestNamespace, name: &str) {
    let found = namespace.kubectl().get(&format!("bundle/{name}")).await.unwrap();
    assert!(found.is_none(), "{found:?}");
}

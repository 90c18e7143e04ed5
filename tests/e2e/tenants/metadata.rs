//! Metadata that is nested too deeply for a strict JSON parser.

use std::time::Duration;

use anyhow::Result;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::attack::{Attack, SOON, run};
use crate::environment::{Environment, FLEET, Mode};
use crate::neighbour::{NAMESPACE, write_access};

/// Deeper than `serde_json` reads, and far less deep than an API server stores.
const DEPTH: usize = 150;

#[test]
fn deep_managed_fields_beside_fleet() {
    run(Mode::BesideFleet, "deep managedFields", deep_managed_fields);
}

#[test]
fn deep_managed_fields_standalone() {
    run(Mode::Standalone, "deep managedFields", deep_managed_fields);
}

/// With such objects stored, a running controller continues, a new one becomes ready, and no log shows objects of the same list.
async fn deep_managed_fields(attack: &mut Attack<'_>) -> Result<()> {
    for (name, labels) in [
        ("plain", json!({})),
        ("copy", json!({ "helmops.fleet.cattle.io/copy-type": "true" })),
    ] {
        for resource in ["secrets", "configmaps"] {
            attack.create_core(resource, deep(name, &labels)).await?;
        }
    }
    attack.neighbour_works().await;
    if attack.restart_controller().await? {
        attack.neighbour_works().await;
        attack.neighbour_is_in_time(neighbour_corrects_a_password).await;
    }
    Ok(())
}

fn deep(name: &str, labels: &Value) -> Value {
    let mut fields = json!({});
    for _ in 0..DEPTH {
        fields = json!({ "f:data": fields });
    }
    let entry = json!({
        "manager": "tenant", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    json!({ "metadata": { "name": name, "labels": labels, "managedFields": [entry] } })
}

/// The watch of Secrets still works: a HelmOp without its Secret would be retried after 5 seconds at the earliest.
async fn neighbour_corrects_a_password(env: &mut Environment) -> Result<Duration> {
    let repo = env.neighbour.repo.clone();
    let name = env.neighbour.create_helmop(&env.api, &repo, "late").await?;
    let path = format!("{FLEET}/namespaces/{NAMESPACE}/helmops/{name}");
    eventually("the missing Secret in the status", SOON, async || {
        let helmop = env.api.get(&path).await?;
        anyhow::ensure!(helmop["status"]["conditions"].is_array(), "no conditions");
        Ok(())
    })
    .await?;
    let kubectl = env.kubectl.in_namespace(NAMESPACE);
    write_access(&kubectl, "late", &env.neighbour.password).await?;
    let start = Instant::now();
    env.neighbour.until_deployed(&env.api, &name, SOON).await?;
    let elapsed = start.elapsed();
    kubectl.run(&["delete", "secret", "late"]).await?.ok()?;
    Ok(elapsed)
}

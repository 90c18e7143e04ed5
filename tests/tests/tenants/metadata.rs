//! Metadata that a strict JSON parser does not read to its end.

use std::time::Duration;

use anyhow::Result;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bed::{Bed, FLEET, Mode};
use crate::neighbour::{NAMESPACE, write_access};
use crate::stage::{SOON, Stage, run};

/// Deeper than what `serde_json` reads, and far less than what an API server stores.
const DEPTH: usize = 150;

#[test]
fn deep_managed_fields_beside_fleet() {
    run(Mode::BesideFleet, "deep managedFields", deep_managed_fields);
}

#[test]
fn deep_managed_fields_standalone() {
    run(Mode::Standalone, "deep managedFields", deep_managed_fields);
}

/// With such objects stored, a running controller goes on, a new one becomes ready, and no log shows what they are listed with.
async fn deep_managed_fields(stage: &mut Stage<'_>) -> Result<()> {
    for (name, labels) in [
        ("plain", json!({})),
        ("copy", json!({ "helmops.fleet.cattle.io/copy-type": "true" })),
    ] {
        for resource in ["secrets", "configmaps"] {
            stage.create_core(resource, deep(name, &labels)).await?;
        }
    }
    stage.neighbour_works().await;
    if stage.restart_controller().await? {
        stage.neighbour_works().await;
        stage.neighbour_waits(neighbour_corrects_a_password).await;
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
async fn neighbour_corrects_a_password(bed: &mut Bed) -> Result<Duration> {
    let repo = bed.neighbour.repo.clone();
    let name = bed.neighbour.create_helmop(&bed.api, &repo, "late").await?;
    let path = format!("{FLEET}/namespaces/{NAMESPACE}/helmops/{name}");
    eventually("the missing Secret in the status", SOON, async || {
        let helmop = bed.api.get(&path).await?;
        anyhow::ensure!(helmop["status"]["conditions"].is_array(), "no conditions");
        Ok(())
    })
    .await?;
    let kubectl = bed.kubectl.in_namespace(NAMESPACE);
    write_access(&kubectl, "late", &bed.neighbour.password).await?;
    let start = Instant::now();
    bed.neighbour.until_deployed(&bed.api, &name, SOON).await?;
    let elapsed = start.elapsed();
    kubectl.run(&["delete", "secret", "late"]).await?.ok()?;
    Ok(elapsed)
}

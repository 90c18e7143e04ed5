//! Many objects that are as large as they may be.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::bed::Mode;
use crate::stage::{Stage, run};

/// With their Bundles more than the memory of the controller.
const HELMOPS: usize = 140;
/// Less than the spec of a HelmOp may have, in bytes.
const VALUES: usize = 900 << 10;
/// As many Secrets as fit into several pages of a list.
const SECRETS: usize = 100;
/// Nearly as much as the API server stores of one object, in bytes.
const MANAGED_FIELDS: usize = 1_200 << 10;
/// Objects that are created at a time.
const AT_A_TIME: usize = 4;

#[test]
fn many_large_helmops_beside_fleet() {
    run(Mode::BesideFleet, "140 large HelmOps", large_helmops);
}

#[test]
fn many_large_helmops_standalone() {
    run(Mode::Standalone, "140 large HelmOps", large_helmops);
}

#[test]
fn many_large_managed_fields() {
    run(Mode::BesideFleet, "100 large managedFields", async |stage| {
        let fields: serde_json::Map<String, Value> = (0..MANAGED_FIELDS / 16)
            .map(|number| (format!("f:{number:010}"), json!({})))
            .collect();
        let entry = json!({
            "manager": "tenant", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        let secret = |number| {
            let metadata = json!({ "name": format!("large-{number}"), "managedFields": [entry] });
            stage.create_core("secrets", json!({ "metadata": metadata }))
        };
        let created = stream::iter(0..SECRETS).map(secret).buffer_unordered(AT_A_TIME);
        created.try_collect::<Vec<()>>().await?;
        with_a_new_controller(stage).await
    });
}

async fn large_helmops(stage: &mut Stage<'_>) -> Result<()> {
    let mut chart = stage.chart();
    chart["values"] = json!({ "text": "x".repeat(VALUES) });
    let spec = json!({ "helm": chart });
    {
        let (stage, spec) = (&*stage, &spec);
        let create = |number| async move {
            let name = format!("large-{number}");
            stage.create("helmops", &name, spec.clone()).await
        };
        let created = stream::iter(0..HELMOPS).map(create).buffer_unordered(AT_A_TIME);
        created.try_collect::<Vec<()>>().await?;
    }
    with_a_new_controller(stage).await
}

/// A controller that runs sees the objects one by one; one that starts lists them.
async fn with_a_new_controller(stage: &mut Stage<'_>) -> Result<()> {
    stage.neighbour_works().await;
    if stage.restart_controller().await? {
        stage.neighbour_works().await;
    }
    Ok(())
}

//! Many objects of nearly the largest size that the API server stores.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::attack::{Attack, run};
use crate::environment::Mode;

/// Together with their Bundles, they are larger than the memory of the controller.
const HELMOPS: usize = 140;
/// Slightly less than the largest spec of a HelmOp, in bytes.
const VALUES: usize = 900 << 10;
/// Enough Secrets for several pages of a list.
const SECRETS: usize = 70;
/// Nearly as much as the API server stores of one object, in bytes.
const MANAGED_FIELDS: usize = 1_200 << 10;
/// Placeholder for the name of each Secret.
const NAME: &str = "NAME";
/// Objects that are created at a time.
const AT_A_TIME: usize = 4;

/// Only one of these attacks runs at a time, in whatever mode: each of them occupies both processors with the API server.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn many_large_helmops_beside_fleet() {
    run_alone(Mode::BesideFleet, "140 large HelmOps", large_helmops);
}

#[test]
fn many_large_helmops_standalone() {
    run_alone(Mode::Standalone, "140 large HelmOps", large_helmops);
}

#[test]
fn many_large_managed_fields() {
    run_alone(Mode::BesideFleet, "70 large managedFields", async |attack| {
        let fields: serde_json::Map<String, Value> = (0..MANAGED_FIELDS / 16)
            .map(|number| (format!("f:{number:010}"), json!({})))
            .collect();
        let entry = json!({
            "manager": "tenant", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        // Serialized once: an unoptimized program spends a tenth of a second on it.
        let text = json!({ "metadata": { "name": NAME, "managedFields": [entry] } }).to_string();
        let secret = |number| {
            let object = text.replace(NAME, &format!("large-{number}"));
            attack.create_core_text("secrets", object)
        };
        let created = stream::iter(0..SECRETS).map(secret).buffer_unordered(AT_A_TIME);
        created.try_collect::<Vec<()>>().await?;
        with_a_new_controller(attack).await
    });
}

fn run_alone(mode: Mode, name: &'static str, play: impl AsyncFnOnce(&mut Attack<'_>) -> Result<()>) {
    let _guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    run(mode, name, play);
}

async fn large_helmops(attack: &mut Attack<'_>) -> Result<()> {
    let mut chart = attack.chart();
    chart["values"] = json!({ "text": "x".repeat(VALUES) });
    let spec = json!({ "helm": chart });
    {
        let (attack, spec) = (&*attack, &spec);
        let create = |number| async move {
            let name = format!("large-{number}");
            attack.create("helmops", &name, spec.clone()).await
        };
        let created = stream::iter(0..HELMOPS).map(create).buffer_unordered(AT_A_TIME);
        created.try_collect::<Vec<()>>().await?;
    }
    with_a_new_controller(attack).await
}

/// A running controller watches the objects one by one; a new one lists them.
async fn with_a_new_controller(attack: &mut Attack<'_>) -> Result<()> {
    attack.neighbour_works().await;
    if attack.restart_controller().await? {
        attack.neighbour_works().await;
    }
    Ok(())
}

//! Values templates that compute for hours or produce more text than fits into memory.

use anyhow::Result;
use serde_json::json;

use crate::attack::{Attack, run};
use crate::environment::Mode;

/// Few steps, each of which compiles an expensive pattern.
const COMPUTES: &str = r#"${ range until 160000 }${ $x := regexMatch "(\\pL{90}){90}" "x" }${ end }1"#;
/// Few steps, each of which keeps 2 MiB.
const ALLOCATES: &str =
    r#"${ $l := list }${ range until 240 }${ $l = append $l (repeat 2097152 "x") }${ end }"#;
/// More HelmOps than processors.
const HELMOPS: usize = 4;

#[test]
fn a_template_that_computes_for_hours() {
    run(Mode::Standalone, "template of much work", async |attack| {
        render(attack, COMPUTES).await
    });
}

#[test]
fn a_template_that_allocates_without_end() {
    run(Mode::Standalone, "template of much memory", async |attack| {
        render(attack, ALLOCATES).await
    });
}

async fn render(attack: &mut Attack<'_>, template: &str) -> Result<()> {
    for cluster in ["c0", "c1"] {
        attack.cluster(cluster).await?;
    }
    let mut helm = attack.chart();
    helm["templateValues"] = json!({ "a": template });
    let spec = json!({ "helm": helm, "targets": [{ "clusterSelector": {} }] });
    for number in 0..HELMOPS {
        attack
            .create("helmops", &format!("render-{number}"), spec.clone())
            .await?;
    }
    // From now on the templates are rendered. Where the first one blocks everything, the others do not get a Bundle.
    attack.until_exists("bundles", "render-0").await?;
    attack.neighbour_works().await;
    Ok(())
}

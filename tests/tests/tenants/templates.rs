//! Values templates that compute for hours or make more text than there is memory.

use anyhow::Result;
use serde_json::json;

use crate::bed::Mode;
use crate::stage::{Stage, run};

/// Few steps, each of which compiles an expensive pattern.
const COMPUTES: &str = r#"${ range until 160000 }${ $x := regexMatch "(\\pL{90}){90}" "x" }${ end }1"#;
/// Few steps, each of which keeps 2 MiB.
const ALLOCATES: &str =
    r#"${ $l := list }${ range until 240 }${ $l = append $l (repeat 2097152 "x") }${ end }"#;
/// More HelmOps than processors.
const HELMOPS: usize = 4;

#[test]
fn a_template_that_computes_for_hours() {
    run(Mode::Standalone, "template of much work", async |stage| {
        render(stage, COMPUTES).await
    });
}

#[test]
fn a_template_that_allocates_without_end() {
    run(Mode::Standalone, "template of much memory", async |stage| {
        render(stage, ALLOCATES).await
    });
}

async fn render(stage: &mut Stage<'_>, template: &str) -> Result<()> {
    for cluster in ["c0", "c1"] {
        stage.cluster(cluster).await?;
    }
    let mut helm = stage.chart();
    helm["templateValues"] = json!({ "a": template });
    let spec = json!({ "helm": helm, "targets": [{ "clusterSelector": {} }] });
    for number in 0..HELMOPS {
        stage
            .create("helmops", &format!("render-{number}"), spec.clone())
            .await?;
    }
    // From now on they are rendered; where the first one stops everything, there is no other.
    stage.until_exists("bundles", "render-0").await?;
    stage.neighbour_works().await;
    Ok(())
}

//! As many targets as the API server stores.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::bed::Mode;
use crate::stage::{Stage, run};

/// The first is what fits into an object; the definitions and the webhook may refuse the larger ones.
const NUMBERS: [usize; 7] = [40_000, 10_000, 4_000, 2_000, 1_000, 500, 100];

#[test]
fn many_targets_beside_fleet() {
    run(Mode::BesideFleet, "40,000 targets", many_targets);
}

#[test]
fn many_targets_standalone() {
    run(Mode::Standalone, "40,000 targets", many_targets);
}

async fn many_targets(stage: &mut Stage<'_>) -> Result<()> {
    let stored = create_largest(stage).await?;
    if stage.bed.mode == Mode::BesideFleet {
        stage.check(
            stored == NUMBERS[0],
            format!("only {stored} targets are stored with Fleet's definitions"),
        );
    }
    stage.neighbour_works().await;
    Ok(())
}

/// Creates a HelmOp with as many targets as are accepted, and gives their number.
async fn create_largest(stage: &mut Stage<'_>) -> Result<usize> {
    for number in NUMBERS {
        let spec = json!({ "helm": stage.chart(), "targets": targets(number) });
        let Err(error) = stage.create("helmops", "many", spec).await else {
            return Ok(number);
        };
        let text = format!("{error:#}");
        stage.check(
            text.contains("spec.targets"),
            format!("the refusal names no field: {text}"),
        );
    }
    bail!("no number of targets is accepted")
}

fn targets(number: usize) -> Value {
    let target = |number| json!({ "helm": { "version": format!("1.0.{number}") } });
    (0..number).map(target).collect()
}

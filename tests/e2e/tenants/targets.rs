//! The largest number of targets that the API server stores.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::attack::{Attack, run};
use crate::environment::Mode;

/// The first is the largest number that fits into an object; the CRD and the webhook may refuse the larger ones.
const NUMBERS: [usize; 7] = [40_000, 10_000, 4_000, 2_000, 1_000, 500, 100];

#[test]
fn many_targets_beside_fleet() {
    run(Mode::BesideFleet, "40,000 targets", many_targets);
}

#[test]
fn many_targets_standalone() {
    run(Mode::Standalone, "40,000 targets", many_targets);
}

async fn many_targets(attack: &mut Attack<'_>) -> Result<()> {
    let stored = create_largest(attack).await?;
    if attack.env.mode == Mode::BesideFleet {
        attack.check(
            stored == NUMBERS[0],
            format!("only {stored} targets are stored with Fleet's CRDs"),
        );
    }
    attack.neighbour_works().await;
    Ok(())
}

/// Creates a HelmOp with as many targets as are accepted, and returns their number.
async fn create_largest(attack: &mut Attack<'_>) -> Result<usize> {
    for number in NUMBERS {
        let spec = json!({ "helm": attack.chart(), "targets": targets(number) });
        let Err(error) = attack.create("helmops", "many", spec).await else {
            return Ok(number);
        };
        let text = format!("{error:#}");
        attack.check(
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

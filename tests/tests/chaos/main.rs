//! The leader is killed again and again while HelmOps are created, changed, polled and deleted. In the end every Bundle is
//! what its HelmOp asks for, and on the way there no version went back and nobody wrote out of turn.
//!
//! `HELMOPS_CHAOS_KILLS` says how often, and `HELMOPS_CHAOS_SEED` repeats the choices of another run.

#![expect(
    clippy::indexing_slicing,
    reason = "a test fails where something is not as told"
)]

mod driver;
mod history;
mod replicas;
mod repository;
mod settled;
mod wanted;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use helmops_tests::api::Api;
use helmops_tests::audit::{self, Write};
use helmops_tests::helmops;
use helmops_tests::random::Chance;
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;

use self::driver::Driver;
use self::replicas::Replicas;
use self::repository::Repository;

/// So many take about a minute.
const KILLS: usize = 8;
/// Two takeovers at the worst, and the work of all HelmOps once more, on a machine that is busy with other tests.
const SETTLED: Duration = Duration::from_mins(2);

#[tokio::test]
async fn whoever_dies_everything_becomes_what_is_asked_for() -> Result<()> {
    let kills = number("HELMOPS_CHAOS_KILLS")?.unwrap_or(KILLS);
    let seed = number("HELMOPS_CHAOS_SEED")?.unwrap_or_else(|| std::process::id() as usize);
    println!("chaos: HELMOPS_CHAOS_SEED={seed}");
    let start = Instant::now();
    let bed = control_plane().await?;
    let mut repository = Repository::start().await?;
    let api = Api::new(&bed)?;
    let mut chance = Chance::new(seed as u64);
    let mut driver = Driver::new(&api, Chance::new(chance.number()));
    driver.begin(&repository).await?;
    let mut replicas = Replicas::start(&bed).await?;

    let mut killing = Chance::new(chance.number());
    let over = Cell::new(false);
    let killer = async {
        let killed = replicas.kill(kills, &mut killing).await;
        over.set(true);
        killed
    };
    let users = async {
        // A round is never cut off: what has been asked for is known.
        while !over.get() {
            driver.round(&mut repository).await?;
        }
        Ok(())
    };
    let (killer, users) = tokio::join!(killer, users);
    killer.and(users)?;
    driver.end(&mut repository).await?;
    let stopped = Instant::now();
    let bundles = eventually("everything to settle", SETTLED, async || {
        settled::check(&api, &driver.wanted, &repository).await
    })
    .await?;
    let after = stopped.elapsed();

    let writes = audit::writes(&bed.audit_log())?;
    let terms = audit::terms(&writes)?;
    let versions = history::check(&writes)?;
    println!(
        "chaos: {kills} kills, {} terms; {}; {bundles} HelmOps at the end; {} versions published; {}; {versions} versions \
         written, none went back; settled in {after:.1?}, {:.0?} in all",
        terms.hands,
        driver.tally,
        repository.published(),
        figures(&writes),
        start.elapsed()
    );
    assert!(terms.hands > kills, "{} terms", terms.hands);
    Ok(())
}

async fn control_plane() -> Result<TestBed> {
    let bed = helmops::control_plane(Path::new(env!("CARGO_BIN_EXE_testbed")), true).await?;
    let kubectl = bed.kubectl();
    for namespace in driver::NAMESPACES {
        kubectl.run(&["create", "namespace", namespace]).await?.ok()?;
    }
    Ok(bed)
}

fn number(variable: &str) -> Result<Option<usize>> {
    Ok(env::var(variable).ok().map(|text| text.parse()).transpose()?)
}

/// What controllers wrote, by resource, and what they were refused, by status.
fn figures(writes: &[Write]) -> String {
    let (mut accepted, mut refused) = (BTreeMap::new(), BTreeMap::new());
    for write in writes {
        if write.is_accepted() {
            let slash = if write.subresource.is_empty() { "" } else { "/" };
            let resource = format!("{}{slash}{}", write.resource, write.subresource);
            *accepted.entry(resource).or_insert(0_u32) += 1;
        } else {
            *refused
                .entry(format!("{} {}", write.code, write.resource))
                .or_insert(0_u32) += 1;
        }
    }
    let list = |counts: BTreeMap<String, u32>| {
        let counts: Vec<_> = counts
            .iter()
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        counts.join(", ")
    };
    let all: u32 = accepted.values().sum();
    format!("{all} writes ({}), refused: {}", list(accepted), list(refused))
}

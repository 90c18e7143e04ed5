//! The leader is killed repeatedly while HelmOps are created, changed, polled and deleted. In the end every Bundle matches its
//! HelmOp; no version was ever lower than the one before, and only the holder of the Lease wrote.
//!
//! `HELMOPS_CHAOS_KILLS` is the number of kills, and `HELMOPS_CHAOS_SEED` repeats the random choices of another run.

mod desired;
mod driver;
mod history;
mod replicas;
mod repository;
mod settled;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::env;
use std::time::{Duration, Instant};

use anyhow::Result;
use helmops_bed::api::Api;
use helmops_bed::audit::{self, Write};
use helmops_bed::helmops;
use helmops_bed::random::Rng;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;

use self::driver::Driver;
use self::replicas::Replicas;
use self::repository::Repository;

/// They take about a minute.
const KILLS: usize = 8;
/// Enough for two takeovers and another reconciliation of all HelmOps, on a machine that is busy with other tests.
const SETTLED: Duration = Duration::from_mins(2);

#[tokio::test]
async fn desired_state_is_reached_although_leaders_are_killed() -> Result<()> {
    let kills = number("HELMOPS_CHAOS_KILLS")?.unwrap_or(KILLS);
    let seed = number("HELMOPS_CHAOS_SEED")?.unwrap_or_else(|| std::process::id() as usize);
    println!("chaos: HELMOPS_CHAOS_SEED={seed}");
    let start = Instant::now();
    let bed = control_plane().await?;
    let mut repository = Repository::start().await?;
    let api = Api::new(&bed)?;
    let mut rng = Rng::new(seed as u64);
    let mut driver = Driver::new(&api, Rng::new(rng.number()));
    driver.start(&repository).await?;
    let mut replicas = Replicas::start(&bed).await?;

    let mut kill_rng = Rng::new(rng.number());
    let is_done = Cell::new(false);
    let killer = async {
        let killed = replicas.kill(kills, &mut kill_rng).await;
        is_done.set(true);
        killed
    };
    let users = async {
        // A round is never aborted, so the desired state is always known.
        while !is_done.get() {
            driver.round(&mut repository).await?;
        }
        Ok(())
    };
    let (killer, users) = tokio::join!(killer, users);
    killer.and(users)?;
    driver.finish(&mut repository).await?;
    let stopped = Instant::now();
    let bundles = eventually("all HelmOps to settle", SETTLED, async || {
        settled::check(&api, &driver.desired, &repository).await
    })
    .await?;
    let after = stopped.elapsed();

    let writes = audit::writes(&bed.audit_log())?;
    let terms = audit::check_terms(&writes)?;
    let deletions = audit::deletions(&bed.audit_log(), "helmops")?;
    let versions = history::check(&writes, &deletions)?;
    println!(
        "chaos: {kills} kills, {} terms; {}; {bundles} HelmOps at the end; {} versions published; {}; {versions} versions \
         written, none lower than before; settled in {after:.1?}, {:.0?} in total",
        terms.acquisitions,
        driver.tally,
        repository.published(),
        figures(&writes),
        start.elapsed()
    );
    assert!(terms.acquisitions > kills, "{} terms", terms.acquisitions);
    Ok(())
}

async fn control_plane() -> Result<TestBed> {
    let bed = helmops::control_plane(true).await?;
    let kubectl = bed.kubectl();
    for namespace in driver::NAMESPACES {
        kubectl.run(&["create", "namespace", namespace]).await?.ok()?;
    }
    Ok(bed)
}

fn number(variable: &str) -> Result<Option<usize>> {
    Ok(env::var(variable).ok().map(|text| text.parse()).transpose()?)
}

/// The accepted writes of controllers by resource, and the rejected ones by status.
fn figures(writes: &[Write]) -> String {
    let (mut accepted, mut rejected) = (BTreeMap::new(), BTreeMap::new());
    for write in writes {
        if write.is_accepted() {
            let slash = if write.subresource.is_empty() { "" } else { "/" };
            let resource = format!("{}{slash}{}", write.resource, write.subresource);
            *accepted.entry(resource).or_insert(0_u32) += 1;
        } else {
            *rejected
                .entry(format!("{} {}", write.code, write.resource))
                .or_insert(0_u32) += 1;
        }
    }
    let list = |counts: BTreeMap<String, u32>| {
        let counts: Vec<_> = counts
            .iter()
            .map(|(key, count)| format!("{count} {key}"))
            .collect();
        counts.join(", ")
    };
    let all: u32 = accepted.values().sum();
    format!("{all} writes ({}), rejected: {}", list(accepted), list(rejected))
}

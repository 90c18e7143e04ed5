//! The agent is killed repeatedly while charts are added, changed and removed. In the end every wanted release is there, once and
//! with its last values, none that is not wanted, and none is left in the middle of an operation.
//!
//! `HELMOPS_CHAOS_KILLS` is the number of kills, and `HELMOPS_CHAOS_SEED` repeats the random choices of another run.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::env;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helmops_bed::random::Rng;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::agent::{CONFIG, Fixture};

/// They take half a minute.
const KILLS: usize = 4;
const RELEASES: usize = 20;
/// Those that are never deleted.
const KEPT: usize = 6;
/// Enough for all releases on a machine that is busy with other tests, and a backoff after an interrupted attempt.
const SETTLED: Duration = Duration::from_mins(3);
/// A hook that exists for a moment, so that installations have a middle.
const HOOK: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations: {helm.sh/hook: \"pre-install,pre-upgrade,pre-delete\", helm.sh/hook-delete-policy: hook-succeeded}\n";

fn number(variable: &str) -> Option<usize> {
    env::var(variable).ok()?.parse().ok()
}

#[tokio::test]
async fn releases_are_as_wanted_although_the_agent_is_killed() -> Result<()> {
    let kills = number("HELMOPS_CHAOS_KILLS").unwrap_or(KILLS);
    let seed = number("HELMOPS_CHAOS_SEED").unwrap_or_else(|| std::process::id() as usize);
    println!("agent chaos: HELMOPS_CHAOS_SEED={seed}");
    let start = Instant::now();
    let fixture = Fixture::new("chaos-agent").await;
    for version in ["1.0.0", "2.0.0"] {
        fixture
            .charts
            .web(version, &[("config", CONFIG), ("hook", HOOK)])
            .await;
    }
    let mut rng = Rng::new(seed as u64);
    let mut user = User {
        fixture: &fixture,
        rng: Rng::new(rng.number()),
        wanted: BTreeMap::new(),
        deletions: BTreeMap::new(),
        changes: 0,
    };
    let is_done = Cell::new(false);
    let killer = async {
        for _ in 0..kills {
            let mut agent = fixture.start().await;
            tokio::time::sleep(Duration::from_millis(300 + rng.below(3_000) as u64)).await;
            agent.process.kill().await?;
            // Meanwhile releases are removed.
            tokio::time::sleep(Duration::from_millis(rng.below(2_000) as u64)).await;
        }
        is_done.set(true);
        anyhow::Ok(fixture.start().await)
    };
    let changes = async {
        while !is_done.get() {
            user.change().await;
        }
    };
    let (agent, ()) = tokio::join!(killer, changes);
    let _agent = agent?;
    let settled = Instant::now();
    eventually("all releases to be as wanted", SETTLED, async || {
        user.check().await
    })
    .await?;
    user.check_runs();
    println!(
        "agent chaos: {kills} kills, {} changes, {} releases at the end, {} runs of Helm; settled in {:.1?}, {:.0?} in total",
        user.changes,
        user.wanted.len(),
        fixture.helm_runs().len(),
        settled.elapsed(),
        start.elapsed()
    );
    Ok(())
}

/// Adds, changes and removes BundleDeployments.
struct User<'f> {
    fixture: &'f Fixture,
    rng: Rng,
    /// The value of each wanted release.
    wanted: BTreeMap<String, String>,
    /// How often each was deleted.
    deletions: BTreeMap<String, usize>,
    changes: usize,
}

impl User<'_> {
    async fn change(&mut self) {
        self.changes += 1;
        let number = self.rng.below(RELEASES);
        let name = format!("web{number}");
        if number >= KEPT && self.wanted.contains_key(&name) && self.rng.below(4) == 0 {
            self.fixture.delete(&name).await;
            self.wanted.remove(&name);
            *self.deletions.entry(name).or_default() += 1;
        } else {
            let msg = format!("{}", self.changes);
            let version = ["1.0.0", "2.0.0"][self.rng.below(2)];
            let spec = json!({ "options": { "helm": { "values": { "msg": msg }, "maxHistory": 2 } } });
            self.fixture.deploy(&name, version, &spec).await;
            self.wanted.insert(name, msg);
        }
        tokio::time::sleep(Duration::from_millis(20 + self.rng.below(150) as u64)).await;
    }

    /// No wanted release was uninstalled or installed a second time, not even for a moment.
    fn check_runs(&self) {
        for number in 0..RELEASES {
            let name = format!("web{number}");
            let runs = self.fixture.helm_runs_of(&self.fixture.name(&name));
            let deletions = self.deletions.get(&name).copied().unwrap_or_default();
            let checked = check_runs(&runs, deletions);
            assert!(checked.is_ok(), "{name}: {checked:?}: {runs:?}");
        }
    }

    /// Whether all releases, their objects and statuses are as wanted, and nothing else is there.
    async fn check(&self) -> Result<()> {
        let fixture = self.fixture;
        let list = async |kind: &str| {
            let path = format!("api/v1/namespaces/{}/{kind}", fixture.apps.name());
            fixture.api.get(&path).await
        };
        let config_maps = list("configmaps").await?;
        let mut values = BTreeMap::new();
        for object in config_maps["items"].as_array().context("no list")? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if let Some(release) = name.strip_suffix("-config") {
                values.insert(
                    release.to_owned(),
                    object["data"]["msg"].as_str().unwrap_or_default().to_owned(),
                );
            }
            ensure!(!name.ends_with("-hook"), "{name} is left");
        }
        let wanted: BTreeMap<_, _> = self
            .wanted
            .iter()
            .map(|(name, msg)| (fixture.name(name), msg.clone()))
            .collect();
        ensure!(values == wanted, "there is {values:?} instead of {wanted:?}");
        let records = list("secrets?labelSelector=owner=helm").await?;
        let deployed = deployed(&records)?;
        ensure!(
            deployed.keys().eq(wanted.keys()) && deployed.values().all(|revisions| *revisions == 1),
            "deployed are {deployed:?}"
        );
        for name in self.wanted.keys() {
            let object = format!("bundledeployment/{}", fixture.name(name));
            let found = fixture
                .upstream
                .kubectl()
                .get(&object)
                .await?
                .context("there is none")?;
            let status = &found["status"];
            ensure!(
                status["appliedDeploymentID"] == found["spec"]["deploymentID"] && status["ready"] == true,
                "{name} is {status}"
            );
        }
        Ok(())
    }
}

/// Whether the runs of Helm for a release follow from this many deletions. A run that was interrupted is repeated by the same action, so
/// that one after the other counts as one.
fn check_runs(runs: &[String], deletions: usize) -> Result<()> {
    let mut actions = runs.to_vec();
    actions.dedup();
    let count = |action: &str| actions.iter().filter(|one| *one == action).count();
    let (installed, uninstalled) = (count("install"), count("uninstall"));
    ensure!(
        uninstalled <= deletions,
        "uninstalled {uninstalled} times, and deleted {deletions} times"
    );
    ensure!(
        installed <= uninstalled + 1,
        "installed {installed} times, and uninstalled {uninstalled} times"
    );
    Ok(())
}

#[test]
fn a_run_that_no_deletion_explains_is_found() {
    let check = |runs: &str, deletions| {
        let runs: Vec<_> = runs.split(' ').map(str::to_owned).collect();
        check_runs(&runs, deletions).is_ok()
    };
    assert!(check("install upgrade", 0));
    assert!(check("install install upgrade uninstall uninstall install", 1));
    // It was deleted while it was not installed.
    assert!(check("install", 3));
    assert!(!check("install uninstall install", 0));
    // The release was wanted again when it was uninstalled the second time.
    assert!(!check("install uninstall install uninstall install", 1));
    assert!(!check("install upgrade install", 0));
}

/// The number of deployed revisions of each release.
fn deployed(records: &Value) -> Result<BTreeMap<String, usize>> {
    let mut deployed = BTreeMap::new();
    for record in records["items"].as_array().context("no list")? {
        let labels = &record["metadata"]["labels"];
        let status = labels["status"].as_str().unwrap_or_default();
        ensure!(
            !status.starts_with("pending") && status != "uninstalling",
            "a record is {status}: {labels}"
        );
        let name = labels["name"].as_str().unwrap_or_default();
        *deployed.entry(name.to_owned()).or_insert(0) += usize::from(status == "deployed");
    }
    Ok(deployed)
}

//! The controller is killed repeatedly in the middle of rollouts, whose partitions wait for a soak, a gate and an approval. At no time are more
//! clusters unavailable than allowed, no cluster gets a version twice or before its partition may begin, and in the end every cluster has the
//! last version.
//!
//! `HELMOPS_CHAOS_KILLS` is the number of kills, and `HELMOPS_CHAOS_SEED` repeats the random choices of another run.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::api::Api;
use helmops_bed::helmops::{self, Part, Running};
use helmops_bed::random::Rng;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

/// They take a minute.
const KILLS: usize = 5;
const CLUSTERS: usize = 16;
const MAX_UNAVAILABLE: usize = 3;
/// Partitions, and those of them that wait for more than the soak of the one before.
const WAVES: usize = 3;
const GATED: usize = 1;
const APPROVED: usize = 2;
/// A second longer than the soak.
const GATE: &str = "previous.all(p, p.ready == p.clusters) && now - partition.since >= 1";
const NAMESPACE: &str = "chaos";
const DEADLINE: Duration = Duration::from_mins(2);

#[tokio::test]
async fn a_rollout_respects_max_unavailable_while_the_controller_is_killed() -> Result<()> {
    let number = |variable: &str| {
        env::var(variable)
            .ok()
            .and_then(|text| text.parse::<usize>().ok())
    };
    let kills = number("HELMOPS_CHAOS_KILLS").unwrap_or(KILLS);
    let seed = number("HELMOPS_CHAOS_SEED").unwrap_or_else(|| std::process::id() as usize);
    println!("rollout chaos: HELMOPS_CHAOS_SEED={seed}");
    let fixture = Fixture::start().await?;
    let mut rng = Rng::new(seed as u64);
    let agents = Agents {
        api: &fixture.api,
        rng: Rng::new(rng.number()),
        is_initial: Cell::new(true),
        is_done: Cell::new(false),
    };
    let (worst, killed) = tokio::join!(agents.run(), async {
        let killed = fixture.kill(kills, &agents, &mut rng).await;
        agents.is_done.set(true);
        killed
    });
    let worst = worst?;
    let versions = killed?;
    println!(
        "rollout chaos: {kills} kills in {versions} rollouts to {CLUSTERS} clusters; at most {worst} unavailable, of \
         {MAX_UNAVAILABLE} allowed"
    );
    assert!(worst > 0, "no cluster was ever updated");
    Ok(())
}

struct Fixture {
    bed: TestBed,
    api: Api,
}

impl Fixture {
    async fn start() -> Result<Self> {
        let bed = helmops::control_plane_with(&[Part::Standalone], false).await?;
        let kubectl = bed.kubectl();
        kubectl.run(&["create", "namespace", NAMESPACE]).await?.ok()?;
        let api = Api::new(&bed)?;
        let clusters = (0..CLUSTERS).map(|number| {
            json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
                "metadata": { "name": format!("c{number:02}"), "labels": { "number": number.to_string(), "wave": wave_of(number).to_string() } },
            })
        });
        api.create(NAMESPACE, "clusters", clusters.collect()).await?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "access", "namespace": NAMESPACE },
            "stringData": { "username": "u", "password": "p" },
        });
        kubectl.apply(&secret.to_string()).await?.ok()?;
        let mut partitions: Vec<_> = (0..WAVES)
            .map(|wave| json!({ "name": format!("wave-{wave}"), "clusterSelector": { "matchLabels": { "wave": wave.to_string() } } }))
            .collect();
        partitions[GATED]["gate"] = json!({ "expression": GATE });
        partitions[APPROVED]["approval"] = json!("Manual");
        let bundle = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle", "metadata": { "name": "web" },
            "spec": {
                "helm": { "chart": "web", "version": "1.0.0", "values": { "number": "global.fleet.clusterLabels.number" } },
                "helmOpOptions": { "helmOpSecretName": "access" },
                "targets": [{ "clusterSelector": {} }],
                "rolloutStrategy": {
                    "maxUnavailable": MAX_UNAVAILABLE, "partitions": partitions, "soak": "1s", "maxUnavailablePartitions": 0,
                },
            },
        });
        api.create(NAMESPACE, "bundles", vec![bundle]).await?;
        Ok(Self { bed, api })
    }

    async fn controller(&self, number: usize) -> Result<Running> {
        let command = |program: &Path| {
            let mut command = self.bed.command(program);
            command.env("HELMOPS_CONTROLLERS", "helmop,bundle");
            // Waiting for the Lease of a killed process would take longer than everything else, and has other tests.
            command.env("HELMOPS_LEADER_ELECT", "false");
            command
        };
        helmops::start_controller(&self.bed, &format!("controller-{number}"), &command).await
    }

    /// Rolls out versions until the controller was killed `kills` times. Returns the number of versions.
    async fn kill(&self, kills: usize, agents: &Agents<'_>, rng: &mut Rng) -> Result<usize> {
        let mut controller = self.controller(0).await?;
        self.until_everywhere("1.0.0").await?;
        agents.is_initial.set(false);
        let (mut killed, mut minor) = (0, 0);
        while killed < kills {
            minor += 1;
            let version = format!("1.{minor}.0");
            let patch = json!({ "spec": { "helm": { "version": version, "values": { "minor": minor } } } });
            self.api.patch(NAMESPACE, "bundles", "web", patch).await?;
            for _ in 0..=rng.below(2) {
                tokio::time::sleep(Duration::from_millis(rng.below(900) as u64)).await;
                controller.process.kill().await?;
                killed += 1;
                controller = self.controller(killed).await?;
            }
            self.until_everywhere(&version).await?;
        }
        Ok(minor)
    }

    async fn until_everywhere(&self, version: &str) -> Result<()> {
        eventually(
            &format!("version {version} on all clusters"),
            DEADLINE,
            async || {
                let found = self.api.list_all("bundledeployments", "").await?;
                let done = found
                    .iter()
                    .filter(|one| version_of(one) == version && !is_unavailable(one))
                    .count();
                ensure!(done == CLUSTERS, "{done} of {CLUSTERS}");
                let bundles = self.api.list(NAMESPACE, "bundles").await?;
                let ready = &bundles[0]["status"]["summary"]["ready"];
                ensure!(
                    *ready == json!(CLUSTERS),
                    "the summary of the Bundle counts {ready} ready"
                );
                Ok(())
            },
        )
        .await
    }
}

const fn wave_of(number: usize) -> usize {
    number % WAVES
}

fn version_of(deployment: &Value) -> &str {
    deployment["spec"]["options"]["helm"]["version"]
        .as_str()
        .unwrap_or_default()
}

fn is_unavailable(deployment: &Value) -> bool {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    spec["deploymentID"] != status["appliedDeploymentID"] || status["ready"] != true
}

/// What clusters had, in the order in which they had it.
#[derive(Default)]
struct History {
    /// The deployment IDs of each namespace of a cluster, with their versions.
    deployed: BTreeMap<String, Vec<(String, String)>>,
    /// The versions whose rollout a person has approved.
    approved: BTreeSet<String>,
}

impl History {
    /// Learns what clusters have.
    ///
    /// # Errors
    /// If a cluster has something again that it had before, or before its partition may begin.
    fn observe(&mut self, found: &[Value]) -> Result<()> {
        for deployment in found {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (namespace, id) = (
                text(&deployment["metadata"]["namespace"]),
                text(&deployment["spec"]["deploymentID"]),
            );
            let version = version_of(deployment).to_owned();
            let before = self.deployed.entry(namespace.clone()).or_default();
            if id.is_empty() || before.last().is_some_and(|(last, _)| *last == id) {
                continue;
            }
            let is_new = before.iter().all(|(known, old)| *known != id && *old != version);
            ensure!(is_new, "{namespace} gets {version} ({id}) again after {before:?}");
            before.push((id, version.clone()));
            self.ensure_may_begin(found, deployment, &version)?;
        }
        Ok(())
    }

    /// Agents never lose what they have deployed, so a gate that was open before this partition began still is.
    fn ensure_may_begin(&self, found: &[Value], deployment: &Value, version: &str) -> Result<()> {
        let wave = wave(deployment)?;
        ensure!(
            wave != APPROVED || self.approved.contains(version),
            "a cluster of partition {wave} gets {version} without approval"
        );
        for earlier in found {
            if self::wave(earlier)? < wave {
                ensure!(
                    version_of(earlier) == version && (wave != GATED || !is_unavailable(earlier)),
                    "a cluster of partition {wave} gets {version} before {}",
                    earlier["metadata"]["namespace"]
                );
            }
        }
        Ok(())
    }
}

/// The partition of the cluster of a deployment.
fn wave(deployment: &Value) -> Result<usize> {
    let name = deployment["metadata"]["labels"]["fleet.cattle.io/cluster"].as_str();
    let number = name.and_then(|name| name.trim_start_matches('c').parse().ok());
    Ok(wave_of(number.context("the BundleDeployment names no cluster")?))
}

/// The agents of all clusters: they deploy with a delay, and become ready after another one.
struct Agents<'a> {
    api: &'a Api,
    rng: Rng,
    /// Whether this is the first deployment, when no cluster is available.
    is_initial: Cell<bool>,
    is_done: Cell<bool>,
}

impl Agents<'_> {
    /// Runs until `is_done`. Returns the largest number of clusters that were unavailable at the same time.
    async fn run(&self) -> Result<usize> {
        let mut rng = self.rng.clone();
        let mut worst = 0;
        let mut history = History::default();
        let mut delays: BTreeMap<String, usize> = BTreeMap::new();
        while !self.is_done.get() {
            // The API server rejects lists of a kind whose CRD was just created.
            let Ok(found) = self.api.list_all("bundledeployments", "").await else {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            };
            let unavailable = found.iter().filter(|one| is_unavailable(one)).count();
            if !self.is_initial.get() {
                worst = worst.max(unavailable);
                ensure!(
                    unavailable <= MAX_UNAVAILABLE,
                    "{unavailable} are unavailable at the same time"
                );
            }
            history.observe(&found)?;
            self.approve(&mut history, &mut rng).await?;
            for deployment in &found {
                self.step(deployment, &mut delays, &mut rng).await?;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(worst)
    }

    /// A person approves what waits, after a while.
    async fn approve(&self, history: &mut History, rng: &mut Rng) -> Result<()> {
        let bundles = self.api.list(NAMESPACE, "bundles").await?;
        let bundle = bundles.first().context("there is no Bundle")?;
        let rollout = &bundle["status"]["rollout"];
        if rollout["waitsFor"] != "Approval" || rng.below(5) > 0 {
            return Ok(());
        }
        let (id, partition) = (&rollout["id"], &rollout["partition"]);
        let value = format!(
            "{}/{}",
            id.as_str().context("the rollout has no ID")?,
            partition.as_str().unwrap_or_default()
        );
        ensure!(
            partition == &json!(format!("wave-{APPROVED}")),
            "partition {partition} waits for an approval"
        );
        let version = bundle["spec"]["helm"]["version"].as_str().unwrap_or_default();
        history.approved.insert(version.to_owned());
        let annotations = json!({ "helmops.fleet.cattle.io/approved-rollout": value });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.api.patch(NAMESPACE, "bundles", "web", patch).await
    }

    async fn step(
        &self,
        deployment: &Value,
        delays: &mut BTreeMap<String, usize>,
        rng: &mut Rng,
    ) -> Result<()> {
        if !is_unavailable(deployment) {
            return Ok(());
        }
        let namespace = deployment["metadata"]["namespace"]
            .as_str()
            .context("the BundleDeployment has no namespace")?;
        let delay = delays.entry(namespace.to_owned()).or_insert_with(|| rng.below(6));
        if *delay > 0 {
            *delay -= 1;
            return Ok(());
        }
        delays.remove(namespace);
        let id = &deployment["spec"]["deploymentID"];
        let is_applied = *id == deployment["status"]["appliedDeploymentID"];
        let status = json!({ "appliedDeploymentID": id, "ready": is_applied, "nonModified": true });
        let patch = (
            namespace.to_owned(),
            "web".to_owned(),
            json!({ "status": status }),
        );
        self.api.patch_statuses("bundledeployments", vec![patch]).await
    }
}

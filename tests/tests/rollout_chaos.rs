//! The controller is killed again and again in the middle of roll-outs. Never are more clusters unavailable than may be, and
//! in the end every cluster has what was asked for last.
//!
//! `HELMOPS_CHAOS_KILLS` says how often, and `HELMOPS_CHAOS_SEED` repeats the choices of another run.

#![expect(
    clippy::indexing_slicing,
    reason = "a test fails where something is not as told"
)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_tests::api::Api;
use helmops_tests::helmops::{self, Running};
use helmops_tests::random::Chance;
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

/// So many take half a minute.
const KILLS: usize = 5;
const CLUSTERS: usize = 16;
const MAX_UNAVAILABLE: usize = 3;
const NAMESPACE: &str = "chaos";
const DEADLINE: Duration = Duration::from_mins(2);

#[tokio::test]
async fn a_roll_out_survives_its_controller() -> Result<()> {
    let number = |variable: &str| {
        env::var(variable)
            .ok()
            .and_then(|text| text.parse::<usize>().ok())
    };
    let kills = number("HELMOPS_CHAOS_KILLS").unwrap_or(KILLS);
    let seed = number("HELMOPS_CHAOS_SEED").unwrap_or_else(|| std::process::id() as usize);
    println!("rollout chaos: HELMOPS_CHAOS_SEED={seed}");
    let setting = Setting::start().await?;
    let mut chance = Chance::new(seed as u64);
    let agents = Agents {
        api: &setting.api,
        chance: Chance::new(chance.number()),
        is_first: Cell::new(true),
        over: Cell::new(false),
    };
    let (worst, killed) = tokio::join!(agents.work(), async {
        let killed = setting.kill(kills, &agents, &mut chance).await;
        agents.over.set(true);
        killed
    });
    let worst = worst?;
    let versions = killed?;
    println!(
        "rollout chaos: {kills} kills in {versions} roll-outs to {CLUSTERS} clusters; {worst} unavailable at the most, of \
         {MAX_UNAVAILABLE} allowed"
    );
    assert!(worst > 0, "nothing was ever rolled out");
    Ok(())
}

struct Setting {
    bed: TestBed,
    api: Api,
}

impl Setting {
    async fn start() -> Result<Self> {
        let bed = helmops::control_plane(Path::new(env!("CARGO_BIN_EXE_testbed")), false).await?;
        let kubectl = bed.kubectl();
        helmops::apply_standalone(&kubectl).await?;
        kubectl.run(&["create", "namespace", NAMESPACE]).await?.ok()?;
        let api = Api::new(&bed)?;
        let clusters = (0..CLUSTERS).map(|number| {
            json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
                "metadata": { "name": format!("c{number:02}"), "labels": { "number": number.to_string() } },
            })
        });
        api.create(NAMESPACE, "clusters", clusters.collect()).await?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "access", "namespace": NAMESPACE },
            "stringData": { "username": "u", "password": "p" },
        });
        kubectl.apply(&secret.to_string()).await?.ok()?;
        let bundle = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle", "metadata": { "name": "web" },
            "spec": {
                "helm": { "chart": "web", "version": "1.0.0", "values": { "number": "global.fleet.clusterLabels.number" } },
                "helmOpOptions": { "helmOpSecretName": "access" },
                "targets": [{ "clusterSelector": {} }],
                "rolloutStrategy": {
                    "maxUnavailable": MAX_UNAVAILABLE, "autoPartitionThreshold": 1, "autoPartitionSize": "50%",
                    "maxUnavailablePartitions": 0,
                },
            },
        });
        api.create(NAMESPACE, "bundles", vec![bundle]).await?;
        Ok(Self { bed, api })
    }

    async fn controller(&self, life: usize) -> Result<Running> {
        let command = |program: &Path| {
            let mut command = self.bed.command(program);
            command.env("HELMOPS_CONTROLLERS", "helmop,bundle");
            // Waiting for the Lease of the dead takes longer than anything else here, and is tested elsewhere.
            command.env("HELMOPS_LEADER_ELECT", "false");
            command
        };
        helmops::start_controller(&self.bed, &format!("controller-{life}"), &command).await
    }

    /// Rolls out version after version until it has killed the controller so often. Gives the number of versions.
    async fn kill(&self, kills: usize, agents: &Agents<'_>, chance: &mut Chance) -> Result<usize> {
        let mut controller = self.controller(0).await?;
        self.until_everywhere("1.0.0").await?;
        agents.is_first.set(false);
        let (mut killed, mut minor) = (0, 0);
        while killed < kills {
            minor += 1;
            let version = format!("1.{minor}.0");
            let newer = json!({ "spec": { "helm": { "version": version, "values": { "minor": minor } } } });
            self.api.patch(NAMESPACE, "bundles", "web", newer).await?;
            for _ in 0..=chance.below(2) {
                tokio::time::sleep(Duration::from_millis(chance.below(900) as u64)).await;
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
            &format!("version {version} to be everywhere"),
            DEADLINE,
            async || {
                let found = self.api.list_all("bundledeployments", "").await?;
                let done = found
                    .iter()
                    .filter(|one| version_of(one) == version && !is_unavailable(one))
                    .count();
                ensure!(done == CLUSTERS, "{done} of {CLUSTERS}");
                let bundles = self.api.list(NAMESPACE, "bundles").await?;
                let told = &bundles[0]["status"]["summary"]["ready"];
                ensure!(*told == json!(CLUSTERS), "its status counts {told}");
                Ok(())
            },
        )
        .await
    }
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

/// The agents of all clusters: they take their time to deploy, and more to become ready.
struct Agents<'a> {
    api: &'a Api,
    chance: Chance,
    /// Whether clusters are given it for the first time, when none of them is available.
    is_first: Cell<bool>,
    over: Cell<bool>,
}

impl Agents<'_> {
    /// Works until it is over. Gives the largest number of clusters that were unavailable at one time.
    async fn work(&self) -> Result<usize> {
        let mut chance = self.chance.clone();
        let mut worst = 0;
        let mut waits: BTreeMap<String, usize> = BTreeMap::new();
        while !self.over.get() {
            // The API server refuses lists of a kind that it has only just learned.
            let Ok(found) = self.api.list_all("bundledeployments", "").await else {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            };
            let unavailable = found.iter().filter(|one| is_unavailable(one)).count();
            if !self.is_first.get() {
                worst = worst.max(unavailable);
                ensure!(
                    unavailable <= MAX_UNAVAILABLE,
                    "{unavailable} are unavailable at once"
                );
            }
            for deployment in &found {
                self.step(deployment, &mut waits, &mut chance).await?;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(worst)
    }

    async fn step(
        &self,
        deployment: &Value,
        waits: &mut BTreeMap<String, usize>,
        chance: &mut Chance,
    ) -> Result<()> {
        if !is_unavailable(deployment) {
            return Ok(());
        }
        let namespace = deployment["metadata"]["namespace"]
            .as_str()
            .context("no namespace")?;
        let wait = waits
            .entry(namespace.to_owned())
            .or_insert_with(|| chance.below(6));
        if *wait > 0 {
            *wait -= 1;
            return Ok(());
        }
        waits.remove(namespace);
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

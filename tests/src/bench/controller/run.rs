//! One scenario, measured.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::scenario::{Scenario, name};
use crate::api::{Api, value_at};
use crate::bench::usage;
use crate::chart_server::ChartServer;
use crate::helmops::{self, Running};
use crate::metrics::{Metrics, api_requests};
use crate::test_bed::TestBed;
use crate::wait::eventually;

/// Far beyond what any of the scenarios takes.
const DEADLINE: Duration = Duration::from_mins(5);
const NAMESPACE: &str = "bench";
const BARE: &str = "bench-bare";

/// What a scenario took.
#[derive(Debug)]
pub struct Measured {
    /// The scenario.
    pub scenario: Scenario,
    /// From the start of the process until the last HelmOp has its status.
    pub time: Duration,
    /// The same writes by a plain client.
    pub bare: Duration,
    /// What it cost.
    pub cost: Cost,
    /// What a restart cost, with nothing to do.
    pub restart: Option<Cost>,
    /// What the time afterwards cost.
    pub afterwards: Option<Cost>,
}

/// What something cost.
#[derive(Debug)]
pub struct Cost {
    /// CPU time of the controller.
    pub cpu: Duration,
    /// Its peak memory, in KiB.
    pub peak: u32,
    /// Answers of the repository with the index in them.
    pub downloads: u64,
    /// Answers that said that nothing has changed.
    pub revalidations: u64,
    /// Writes of the controller by resource and verb.
    pub writes: BTreeMap<&'static str, u64>,
}

/// A control plane with HelmOps in it, and a repository.
struct Setting {
    bed: TestBed,
    server: ChartServer,
    api: Api,
    objects: Vec<Value>,
    _folder: TempDir,
}

/// Measures a scenario on a control plane of its own.
pub async fn measure(testbed: &Path, scenario: Scenario) -> Result<Measured> {
    let setting = Setting::new(testbed, scenario).await?;
    let started = Instant::now();
    let mut controller = setting.start("controller").await?;
    until_done(&controller.admin, scenario.helmops).await?;
    until_written(&setting.bed, scenario.helmops).await?;
    let time = started.elapsed();
    let cost = setting.cost(&controller, None).await?;
    check(&setting.api, scenario).await?;
    let (mut restart, mut afterwards) = (None, None);
    if let Some(window) = scenario.afterwards {
        let before = setting.cost(&controller, None).await?;
        controller.process.terminate(DEADLINE).await?;
        controller = setting.start("controller-2").await?;
        until_done(&controller.admin, scenario.helmops).await?;
        restart = Some(setting.cost(&controller, Some(&before)).await?);
        let mut before = setting.cost(&controller, None).await?;
        before.cpu = usage::cpu_time(controller.process.pid()?)?;
        tokio::time::sleep(window).await;
        let mut after = setting.cost(&controller, Some(&before)).await?;
        after.cpu = after.cpu.saturating_sub(before.cpu);
        afterwards = Some(after);
    }
    let bundles = setting.api.list(NAMESPACE, "bundles").await?;
    // The bare writes are alone, as the controller's were.
    drop(controller);
    let bare = bare(&setting.api, setting.objects, &bundles).await?;
    Ok(Measured {
        scenario,
        time,
        bare,
        cost,
        restart,
        afterwards,
    })
}

impl Setting {
    async fn new(testbed: &Path, scenario: Scenario) -> Result<Self> {
        let bed = helmops::control_plane(testbed, false).await?;
        for namespace in [NAMESPACE, BARE] {
            let create = ["create", "namespace", namespace];
            bed.kubectl().run(&create).await?.ok()?;
        }
        let folder = TempDir::new()?;
        let chart = scenario.publish(folder.path())?;
        let server = ChartServer::http(folder.path()).await?;
        let api = Api::new(&bed)?;
        let objects = scenario.objects(&server.url(), chart);
        api.create(NAMESPACE, "helmops", objects.clone()).await?;
        Ok(Self {
            bed,
            server,
            api,
            objects,
            _folder: folder,
        })
    }

    async fn start(&self, name: &str) -> Result<Running> {
        helmops::start_controller(&self.bed, name, &|program| self.bed.command(program)).await
    }

    /// What a controller has cost so far, or since requests and writes were as they were `before`.
    async fn cost(&self, controller: &Running, before: Option<&Cost>) -> Result<Cost> {
        let pid = controller.process.pid()?;
        let mut cost = Cost {
            cpu: usage::cpu_time(pid)?,
            peak: usage::memory(pid)?.peak,
            downloads: self.server.responses("/index.yaml", StatusCode::OK),
            revalidations: self.server.responses("/index.yaml", StatusCode::NOT_MODIFIED),
            writes: writes(&self.bed).await?,
        };
        if let Some(before) = before {
            cost.downloads -= before.downloads;
            cost.revalidations -= before.revalidations;
            for (what, count) in &mut cost.writes {
                *count -= before.writes.get(what).copied().unwrap_or_default();
            }
        }
        Ok(cost)
    }
}

async fn until_done(admin: &str, helmops: usize) -> Result<()> {
    let wanted = u32::try_from(helmops)?;
    // A scrape tells of every HelmOp, and must not be what is measured.
    let between_scrapes = Duration::from_micros(200) * wanted;
    eventually("all HelmOps to be done", DEADLINE, async || {
        tokio::time::sleep(between_scrapes).await;
        let metrics = Metrics::scrape(&format!("{admin}/metrics")).await?;
        let done = metrics.sum("helmops_reconcile_total", &[("result", "success")]);
        let done = done.unwrap_or_default();
        ensure!(done >= f64::from(wanted), "{done} of {wanted}");
        Ok(())
    })
    .await
}

/// Waits until there is a Bundle and a status for each. The controller's own count is no proof: some are looked at twice
/// before others are for the first time.
async fn until_written(bed: &TestBed, helmops: usize) -> Result<()> {
    let wanted = u64::try_from(helmops)?;
    eventually("all Bundles and statuses to be written", DEADLINE, async || {
        let writes = writes(bed).await?;
        for what in ["POST bundles", "PATCH helmops"] {
            let done = writes.get(what).copied().unwrap_or_default();
            ensure!(done >= wanted, "{done} of {wanted} {what}");
        }
        Ok(())
    })
    .await
}

/// Whether all of them have a version.
async fn check(api: &Api, scenario: Scenario) -> Result<()> {
    let helmops = api.list(NAMESPACE, "helmops").await?;
    let done = helmops
        .iter()
        .filter(|helmop| value_at(helmop, "/status/version").is_string())
        .count();
    ensure!(
        done == scenario.helmops,
        "{done} of {} HelmOps have a version",
        scenario.helmops
    );
    Ok(())
}

async fn writes(bed: &TestBed) -> Result<BTreeMap<&'static str, u64>> {
    let mut writes = BTreeMap::new();
    for (what, resource, verb) in [
        ("POST bundles", "bundles", "POST"),
        ("PUT bundles", "bundles", "PUT"),
        ("PATCH helmops", "helmops", "PATCH"),
    ] {
        writes.insert(what, api_requests(bed, resource, verb).await?);
    }
    Ok(writes)
}

/// The Bundles that the controller wrote, and a status for each HelmOp, written once more in another namespace.
async fn bare(api: &Api, objects: Vec<Value>, bundles: &[Value]) -> Result<Duration> {
    let helmops = objects.len();
    api.create(BARE, "helmops", objects).await?;
    let copy = |bundle: &Value| {
        json!({
            "apiVersion": value_at(bundle, "/apiVersion"),
            "kind": value_at(bundle, "/kind"),
            "metadata": {
                "name": value_at(bundle, "/metadata/name"),
                "labels": value_at(bundle, "/metadata/labels"),
                "annotations": value_at(bundle, "/metadata/annotations"),
            },
            "spec": value_at(bundle, "/spec"),
        })
    };
    let bundles: Vec<Value> = bundles.iter().map(copy).collect();
    ensure!(
        bundles.len() == helmops,
        "{} Bundles of {helmops} HelmOps",
        bundles.len()
    );
    let status = json!({ "status": { "version": "0.2.0", "conditions": [] } });
    let statuses = (0..helmops)
        .map(|number| (name(number), status.clone()))
        .collect();
    let started = Instant::now();
    api.create(BARE, "bundles", bundles)
        .await
        .context("bare writes")?;
    api.patch_status(BARE, "helmops", statuses)
        .await
        .context("bare writes")?;
    Ok(started.elapsed())
}

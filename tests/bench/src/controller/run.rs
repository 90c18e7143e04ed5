//! Measures one scenario.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::scenario::Scenario;
use crate::idle::last_success;
use helmops_bed::api::{Api, value_at};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::helmops::{self, Running};
use helmops_bed::metrics::{Metrics, api_requests};
use helmops_bed::test_bed::TestBed;
use helmops_bed::usage;
use helmops_bed::wait::eventually;

/// Far longer than any of the scenarios takes.
const DEADLINE: Duration = Duration::from_mins(5);
const NAMESPACE: &str = "bench";
const BARE: &str = "bench-bare";

/// The measurements of a scenario.
#[derive(Debug)]
pub struct Measured {
    pub scenario: Scenario,
    /// From the start of the process until the last reconciliation has ended.
    pub time: Duration,
    /// The same writes by a plain client.
    pub bare: Duration,
    pub cost: Cost,
    /// Cost of a restart without changes.
    pub restart: Option<Cost>,
    /// Cost of the time afterwards.
    pub afterwards: Option<Cost>,
}

#[derive(Debug)]
pub struct Cost {
    /// CPU time of the controller.
    pub cpu: Duration,
    /// Its peak memory, in KiB.
    pub peak: u32,
    /// Responses of the repository that contain the index.
    pub downloads: u64,
    /// Responses with status 304 Not Modified.
    pub revalidations: u64,
    /// Writes of the controller by resource and verb.
    pub writes: BTreeMap<&'static str, u64>,
}

/// A control plane with HelmOps in it, and a repository.
struct Environment {
    bed: TestBed,
    server: ChartServer,
    api: Api,
    objects: Vec<Value>,
    _folder: TempDir,
}

impl Measured {
    /// The time as a ratio to the time of the bare writes.
    pub fn ratio(&self) -> f64 {
        self.time.as_secs_f64() / self.bare.as_secs_f64()
    }
}

/// Measures a scenario as often as it wants, and sorts the measurements by ratio.
pub async fn measure(scenario: Scenario) -> Result<Vec<Measured>> {
    let mut runs = Vec::new();
    for _ in 0..scenario.runs {
        runs.push(measure_one(scenario).await?);
    }
    runs.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    Ok(runs)
}

/// Measures a scenario on its own control plane.
async fn measure_one(scenario: Scenario) -> Result<Measured> {
    let environment = Environment::new(scenario).await?;
    let mut controller = environment.start("controller").await?;
    // Before it, the bench creates its token.
    let started = SystemTime::now() - usage::age(controller.process.pid()?)?;
    wait_until_reconciled(&controller.admin, scenario.helmops).await?;
    wait_until_written(&environment.bed, scenario.helmops).await?;
    let time = last_success(&controller.admin).await?.duration_since(started)?;
    let cost = environment.cost(&controller, None).await?;
    check(&environment.api, scenario).await?;
    let (mut restart, mut afterwards) = (None, None);
    if let Some(window) = scenario.afterwards {
        let before = environment.cost(&controller, None).await?;
        controller.process.terminate(DEADLINE).await?;
        controller = environment.start("controller-2").await?;
        wait_until_reconciled(&controller.admin, scenario.helmops).await?;
        restart = Some(environment.cost(&controller, Some(&before)).await?);
        let mut before = environment.cost(&controller, None).await?;
        before.cpu = usage::cpu_time(controller.process.pid()?)?;
        tokio::time::sleep(window).await;
        let mut after = environment.cost(&controller, Some(&before)).await?;
        after.cpu = after.cpu.saturating_sub(before.cpu);
        afterwards = Some(after);
    }
    // Nothing else runs during the bare writes, as during the controller's.
    drop(controller);
    let bare = bare(&environment.api, environment.objects).await?;
    Ok(Measured {
        scenario,
        time,
        bare,
        cost,
        restart,
        afterwards,
    })
}

impl Environment {
    async fn new(scenario: Scenario) -> Result<Self> {
        let bed = helmops::control_plane(false).await?;
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

    /// Cost of a controller so far; with `before`, downloads, revalidations and writes are those since then.
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

async fn wait_until_reconciled(admin: &str, helmops: usize) -> Result<()> {
    let expected = u32::try_from(helmops)?;
    // A scrape reports every HelmOp, and must not affect the measurement.
    let between_scrapes = Duration::from_micros(200) * expected;
    eventually("all HelmOps to be done", DEADLINE, async || {
        tokio::time::sleep(between_scrapes).await;
        let metrics = Metrics::scrape(&format!("{admin}/metrics")).await?;
        let done = metrics.sum("helmops_reconcile_total", &[("result", "success")]);
        let done = done.unwrap_or_default();
        ensure!(done >= f64::from(expected), "{done} of {expected}");
        Ok(())
    })
    .await
}

/// Waits until there is a Bundle and a status for each HelmOp. The controller's own count is not enough: some HelmOps are
/// reconciled twice before others are reconciled once.
async fn wait_until_written(bed: &TestBed, helmops: usize) -> Result<()> {
    let expected = u64::try_from(helmops)?;
    eventually("all Bundles and statuses to be written", DEADLINE, async || {
        let writes = writes(bed).await?;
        for what in ["POST bundles", "PATCH helmops"] {
            let done = writes.get(what).copied().unwrap_or_default();
            ensure!(done >= expected, "{done} of {expected} {what}");
        }
        Ok(())
    })
    .await
}

/// Checks that all HelmOps have a version.
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

/// Writes the Bundles and the statuses of the controller again in another namespace.
async fn bare(api: &Api, objects: Vec<Value>) -> Result<Duration> {
    let (helmops, bundles) = (
        api.list(NAMESPACE, "helmops").await?,
        api.list(NAMESPACE, "bundles").await?,
    );
    ensure!(
        bundles.len() == objects.len() && helmops.len() == objects.len(),
        "{} Bundles of {} HelmOps",
        bundles.len(),
        objects.len()
    );
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
    let status = |helmop: &Value| {
        let name = value_at(helmop, "/metadata/name");
        let name = name.as_str().context("a HelmOp without a name")?;
        Ok((name.to_owned(), json!({ "status": value_at(helmop, "/status") })))
    };
    let statuses = helmops.iter().map(status).collect::<Result<_>>()?;
    let started = Instant::now();
    api.create(BARE, "bundles", bundles)
        .await
        .context("bare writes")?;
    api.patch_status(BARE, "helmops", statuses)
        .await
        .context("bare writes")?;
    Ok(started.elapsed())
}

//! One attack: what the attacker has, what is measured, and the verdict.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_tests::random;
use helmops_tests::wait::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::bed::{BEDS, Bed, FLEET, Mode, RUNTIME, UNGUARDED};
use crate::clearing::clear;
use crate::control;
use crate::leaks;
use crate::neighbour::create_cluster;
use crate::watchdog::{Seen, Watchdog};

/// What the neighbour may wait during an attack.
const BOUND: Duration = Duration::from_secs(2);
/// A baseline above it shows a machine that is busy with something else; then the neighbour may wait that much longer.
const QUIET: Duration = Duration::from_millis(500);
/// How often it is measured where a bare write was slow as well.
const MEASURED: usize = 2;
/// A bare write takes some milliseconds on a quiet machine, a tenth of what the neighbour's HelmOp does.
const SLOW_WRITE: Duration = Duration::from_millis(50);
/// HelmOps of the neighbour before and during an attack, at the least.
const SERIES: u32 = 4;
/// Probes of each process during an attack, at the least.
const PROBES: u64 = 20;
/// When to stop waiting for the neighbour, or for a controller that removes nothing.
const GIVE_UP: Duration = Duration::from_secs(10);
/// A busy machine; nothing is measured here.
pub const SOON: Duration = Duration::from_secs(30);
/// How long a number stays the same until it counts as final.
const STEADY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

/// One attack.
pub struct Stage<'b> {
    pub bed: &'b mut Bed,
    /// The attacker's namespace, without a webhook.
    pub tenant: String,
    attack: &'static str,
    namespaces: Vec<String>,
    baseline: Duration,
    slowest: Duration,
    watchdogs: Vec<Watchdog>,
    /// By process, over all of its starts.
    figures: BTreeMap<&'static str, Seen>,
    complaints: Vec<String>,
}

/// Runs an attack and fails if it hurt anybody.
pub fn run(mode: Mode, attack: &'static str, play: impl AsyncFnOnce(&mut Stage<'_>) -> Result<()>) {
    let outcome: Result<_> = RUNTIME.block_on(async {
        let mut beds = BEDS.lock().await;
        let mut stage = Stage::open(beds.of(mode).await?, attack).await?;
        let played = play(&mut stage).await;
        stage.close(played).await
    });
    let complaints = outcome.map_err(|error| format!("{error:#}")).unwrap();
    assert!(
        complaints.is_empty(),
        "{mode:?}, {attack}:\n  {}",
        complaints.join("\n  ")
    );
}

impl<'b> Stage<'b> {
    async fn open(bed: &'b mut Bed, attack: &'static str) -> Result<Self> {
        let baseline = baseline(bed).await?;
        let mut stage = Self {
            bed,
            tenant: String::new(),
            attack,
            namespaces: Vec::new(),
            baseline,
            slowest: Duration::ZERO,
            watchdogs: Vec::new(),
            figures: BTreeMap::new(),
            complaints: Vec::new(),
        };
        stage.tenant = stage.namespace(json!({ UNGUARDED: "true" })).await?;
        stage.watch()?;
        Ok(stage)
    }

    /// Watches the processes that run now.
    fn watch(&mut self) -> Result<()> {
        let bed = &*self.bed;
        let controller = bed.controller.as_ref().context("no controller")?;
        let watchdogs = [
            Watchdog::start("controller", controller, bed.controller_limits)?,
            Watchdog::start("webhook", &bed.webhook.running, bed.webhook_limits)?,
        ];
        self.watchdogs.extend(watchdogs);
        Ok(())
    }

    /// Creates another namespace of the attacker.
    pub async fn namespace(&mut self, labels: Value) -> Result<String> {
        let name = format!("tenant-{}", random::word());
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels },
        });
        self.bed
            .api
            .call(Method::POST, "api/v1/namespaces", namespace)
            .await?;
        self.namespaces.push(name.clone());
        Ok(name)
    }

    /// Creates an object of Fleet's kinds in the attacker's namespace.
    pub async fn create(&self, resource: &str, name: &str, spec: Value) -> Result<()> {
        let tenant = &self.tenant;
        create_in(self.bed, tenant, resource, name, spec).await
    }

    /// Creates a Secret, ConfigMap or the like in the attacker's namespace.
    pub async fn create_core(&self, resource: &str, object: Value) -> Result<()> {
        let path = format!("api/v1/namespaces/{}/{resource}", self.tenant);
        self.bed.api.call(Method::POST, &path, object).await.map(drop)
    }

    /// An object of Fleet's kinds in the attacker's namespace.
    pub async fn get(&self, resource: &str, name: &str) -> Result<Value> {
        let path = format!("{FLEET}/namespaces/{}/{resource}/{name}", self.tenant);
        self.bed.api.get(&path).await
    }

    /// Waits until there is an object of Fleet's kinds in the attacker's namespace.
    pub async fn until_exists(&self, resource: &str, name: &str) -> Result<Value> {
        let what = format!("{resource}/{name}");
        eventually(&what, SOON, async || self.get(resource, name).await).await
    }

    /// Registers a cluster in the attacker's namespace, and gives its namespace.
    pub async fn cluster(&self, name: &str) -> Result<String> {
        create_cluster(&self.bed.api, &self.tenant, name, SOON).await
    }

    /// A chart that exists, in a repository that works.
    pub fn chart(&self) -> Value {
        json!({ "repo": self.bed.charts.url(), "chart": "web", "version": "1.x" })
    }

    /// Notes what must not be.
    pub fn check(&mut self, holds: bool, complaint: impl Into<String>) {
        if !holds {
            self.complaints.push(complaint.into());
        }
    }

    /// The neighbour creates some HelmOps, one after the other.
    pub async fn neighbour_works(&mut self) {
        let repo = self.bed.neighbour.repo.clone();
        self.neighbour_works_with(&repo).await;
    }

    /// The neighbour creates some HelmOps with the chart of another repository.
    pub async fn neighbour_works_with(&mut self, repo: &str) {
        let enough = self.probes() + PROBES;
        let mut deployed = 0;
        while deployed < SERIES || self.probes() < enough {
            if !self.neighbour_deploys(repo).await {
                return;
            }
            deployed += 1;
        }
    }

    fn probes(&self) -> u64 {
        let probes = self.watchdogs.iter().map(|watchdog| watchdog.seen().probes);
        probes.min().unwrap_or_default()
    }

    /// The neighbour creates HelmOps until something else has ended, and one more.
    pub async fn neighbour_works_during<T>(&mut self, other: impl Future<Output = T>) -> T {
        let repo = self.bed.neighbour.repo.clone();
        let ended = AtomicBool::new(false);
        let work = async {
            loop {
                let is_last = ended.load(Ordering::Relaxed);
                if !self.neighbour_deploys(&repo).await || is_last {
                    return;
                }
            }
        };
        let other = async {
            let value = other.await;
            ended.store(true, Ordering::Relaxed);
            value
        };
        let (value, ()) = tokio::join!(other, work);
        value
    }

    /// Whether the neighbour has a HelmOp deployed in time.
    async fn neighbour_deploys(&mut self, repo: &str) -> bool {
        self.neighbour_waits(async |bed| {
            let Bed { neighbour, api, .. } = bed;
            neighbour.deploy(api, repo, GIVE_UP).await
        })
        .await
    }

    /// Whether the neighbour waits no longer than it may; `measure` gives the time. Where a bare write takes long at the same
    /// time, it is measured again: the machine may have been busy with something else.
    pub async fn neighbour_waits(&mut self, measure: impl AsyncFn(&mut Bed) -> Result<Duration>) -> bool {
        let bound = self.bound();
        for number in 1..=MEASURED {
            let (start, api) = (Instant::now(), self.bed.api.clone());
            let (outcome, write) = control::beside(&api, measure(self.bed)).await;
            self.slowest = self.slowest.max(start.elapsed());
            let complaint = match outcome {
                Ok(wait) if wait <= bound => return true,
                Ok(wait) => {
                    format!(
                        "the neighbour waited {wait:.1?}, more than {bound:.1?}; a bare write took {write:.1?}"
                    )
                }
                Err(error) => format!("the neighbour's HelmOp: {error:#}; a bare write took {write:.1?}"),
            };
            if write <= SLOW_WRITE || number == MEASURED {
                self.complaints.push(complaint);
                return false;
            }
            eprintln!("tenants: {}: {complaint}; again", self.attack);
        }
        false
    }

    fn bound(&self) -> Duration {
        if self.baseline < QUIET {
            BOUND
        } else {
            BOUND + self.baseline
        }
    }

    /// Restarts the controller, which must become ready.
    pub async fn restart_controller(&mut self) -> Result<bool> {
        self.stop_watching();
        let restarted = self.bed.restart_controller().await;
        let is_ready = restarted.is_ok();
        if let Err(error) = restarted {
            let text = format!("{error:#}");
            let cut: String = text.chars().take(300).collect();
            self.complaints
                .push(format!("the controller does not become ready: {cut}"));
        } else {
            self.watch()?;
        }
        Ok(is_ready)
    }

    fn stop_watching(&mut self) {
        for watchdog in &self.watchdogs {
            self.complaints.extend(watchdog.complaints());
            let (seen, figures) = (watchdog.seen(), self.figures.entry(watchdog.name).or_default());
            figures.slowest = figures.slowest.max(seen.slowest);
            figures.peak = figures.peak.max(seen.peak);
        }
        self.watchdogs.clear();
    }

    async fn close(mut self, played: Result<()>) -> Result<Vec<String>> {
        self.stop_watching();
        if let Err(error) = played {
            let text = format!("{error:#}");
            let cut: String = text.chars().take(1000).collect();
            self.complaints.push(format!("the attack stopped: {cut}"));
        }
        self.complaints.extend(leaks::search(self.bed).await?);
        self.print();
        self.clear().await?;
        Ok(self.complaints)
    }

    fn print(&self) {
        let slowest = self.figures.values().map(|seen| seen.slowest).max();
        let peaks: Vec<_> = self
            .figures
            .values()
            .map(|seen| (seen.peak >> 10).to_string())
            .collect();
        let verdict = match self.complaints.len() {
            0 => "ok".to_owned(),
            number => format!("{number} complaints"),
        };
        eprintln!(
            "tenants: {:<12} {:<34} neighbour {:>6.2} s (alone {:.2} s), /livez {:>5} ms, controller/webhook {:>8} MiB: {verdict}",
            format!("{:?}", self.bed.mode),
            self.attack,
            self.slowest.as_secs_f64(),
            self.baseline.as_secs_f64(),
            slowest.unwrap_or_default().as_millis(),
            peaks.join("/"),
        );
    }

    /// Removes what the attack left, with a new controller where the old one cannot.
    async fn clear(&mut self) -> Result<()> {
        let Bed { neighbour, api, .. } = &*self.bed;
        neighbour.clear(api).await?;
        if clear(api, &self.namespaces, GIVE_UP).await.is_err() {
            self.bed.restart_controller().await?;
            clear(&self.bed.api, &self.namespaces, SOON).await?;
        }
        for namespace in &self.namespaces {
            let path = format!("api/v1/namespaces/{namespace}");
            self.bed.api.call(Method::DELETE, &path, Value::Null).await?;
        }
        Ok(())
    }
}

/// Creates an object of Fleet's kinds.
pub async fn create_in(bed: &Bed, namespace: &str, resource: &str, name: &str, spec: Value) -> Result<()> {
    let kind = match resource {
        "helmops" => "HelmOp",
        "bundles" => "Bundle",
        "policies" => "Policy",
        other => anyhow::bail!("no kind for {other}"),
    };
    let mut object = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind, "metadata": { "name": name },
    });
    match spec {
        // A Policy has no spec.
        Value::Object(fields) if kind == "Policy" => object.as_object_mut().unwrap().extend(fields),
        spec => object["spec"] = spec,
    }
    let path = format!("{FLEET}/namespaces/{namespace}/{resource}");
    bed.api.call(Method::POST, &path, object).await.map(drop)
}

/// The slowest of some HelmOps without an attack, with new processes where the last attack left broken ones.
async fn baseline(bed: &mut Bed) -> Result<Duration> {
    let measured = match bed.controller {
        Some(_) => series(bed).await,
        None => Err(anyhow::anyhow!("no controller")),
    };
    if let Ok(slowest) = measured {
        return Ok(slowest);
    }
    bed.restart().await?;
    series(bed).await.context("without an attack")
}

async fn series(bed: &mut Bed) -> Result<Duration> {
    let Bed { neighbour, api, .. } = bed;
    let repo = neighbour.repo.clone();
    // The first one warms the way: connections, caches and the Lease of a new controller.
    neighbour.deploy(api, &repo, GIVE_UP).await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..SERIES {
        slowest = slowest.max(neighbour.deploy(api, &repo, GIVE_UP).await?);
    }
    Ok(slowest)
}

/// Waits until a number stops growing, or for as long as a test has patience.
pub async fn until_steady(mut number: impl FnMut() -> usize) {
    let end = Instant::now() + SOON;
    let (mut last, mut since) = (number(), Instant::now());
    while Instant::now() < end && (last == 0 || since.elapsed() < STEADY) {
        sleep(PAUSE).await;
        let now = number();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

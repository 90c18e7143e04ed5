//! One attack: the objects of the attacker, the measurements, and the result.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_bed::random;
use helmops_bed::wait::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cleanup::clear;
use crate::environment::{Environment, FLEET, Mode, RUNTIME, WITHOUT_WEBHOOK};
use crate::leaks;
use crate::neighbour::create_cluster;
use crate::watchdog::{Observations, Watchdog};
use crate::write_latency;

/// The longest time that the neighbour may wait during an attack.
const BOUND: Duration = Duration::from_secs(2);
/// A longer baseline shows a machine that is busy with something else. Then the neighbour may wait that much longer.
const QUIET_BASELINE: Duration = Duration::from_millis(500);
/// How often the time is measured where a bare write was slow as well.
const MEASUREMENTS: usize = 2;
/// A bare write takes some milliseconds on a quiet machine, a tenth of what the neighbour's HelmOp does.
const SLOW_WRITE: Duration = Duration::from_millis(50);
/// The minimum number of HelmOps of the neighbour before and during an attack.
const SERIES: u32 = 4;
/// The minimum number of probes of each process during an attack.
const PROBES: u64 = 20;
/// When to stop waiting for the neighbour, or for a controller that removes nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A busy machine; nothing is measured here.
pub const SOON: Duration = Duration::from_secs(30);
/// How long a number stays the same until it counts as final.
const STEADY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

pub struct Attack<'b> {
    pub env: &'b mut Environment,
    /// The attacker's namespace, without a webhook.
    pub tenant: String,
    name: &'static str,
    namespaces: Vec<String>,
    baseline: Duration,
    slowest: Duration,
    watchdogs: Vec<Watchdog>,
    /// By process, over all of its starts.
    figures: BTreeMap<&'static str, Observations>,
    violations: Vec<String>,
}

/// Runs an attack and fails if it affected the neighbour or a process.
pub fn run(mode: Mode, name: &'static str, play: impl AsyncFnOnce(&mut Attack<'_>) -> Result<()>) {
    let outcome: Result<_> = RUNTIME.block_on(async {
        let mut environment = mode.lock().await?;
        let mut attack = Attack::start(&mut environment, name).await?;
        let result = play(&mut attack).await;
        attack.finish(result).await
    });
    let violations = outcome.map_err(|error| format!("{error:#}")).unwrap();
    assert!(
        violations.is_empty(),
        "{mode:?}, {name}:\n  {}",
        violations.join("\n  ")
    );
}

impl<'b> Attack<'b> {
    async fn start(env: &'b mut Environment, name: &'static str) -> Result<Self> {
        let baseline = baseline(env).await?;
        let mut attack = Self {
            env,
            tenant: String::new(),
            name,
            namespaces: Vec::new(),
            baseline,
            slowest: Duration::ZERO,
            watchdogs: Vec::new(),
            figures: BTreeMap::new(),
            violations: Vec::new(),
        };
        attack.tenant = attack.namespace(json!({ WITHOUT_WEBHOOK: "true" })).await?;
        attack.watch()?;
        Ok(attack)
    }

    /// Watches the processes that run now.
    fn watch(&mut self) -> Result<()> {
        let env = &*self.env;
        let controller = env.controller.as_ref().context("no controller")?;
        let watchdogs = [
            Watchdog::start("controller", controller, env.controller_limits)?,
            Watchdog::start("webhook", &env.webhook.running, env.webhook_limits)?,
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
        self.env
            .api
            .call(Method::POST, "api/v1/namespaces", namespace)
            .await?;
        self.namespaces.push(name.clone());
        Ok(name)
    }

    /// Creates an object of Fleet's kinds in the attacker's namespace.
    pub async fn create(&self, resource: &str, name: &str, spec: Value) -> Result<()> {
        let tenant = &self.tenant;
        create_in(self.env, tenant, resource, name, spec).await
    }

    /// Creates a Secret, ConfigMap or the like in the attacker's namespace.
    pub async fn create_core(&self, resource: &str, object: Value) -> Result<()> {
        self.create_core_text(resource, object.to_string()).await
    }

    /// The same, of an object that is JSON already.
    pub async fn create_core_text(&self, resource: &str, object: String) -> Result<()> {
        let path = format!("api/v1/namespaces/{}/{resource}", self.tenant);
        let api = &self.env.api;
        api.call_with_text(Method::POST, &path, object).await.map(drop)
    }

    /// An object of Fleet's kinds in the attacker's namespace.
    pub async fn get(&self, resource: &str, name: &str) -> Result<Value> {
        let path = format!("{FLEET}/namespaces/{}/{resource}/{name}", self.tenant);
        self.env.api.get(&path).await
    }

    /// Waits until there is an object of Fleet's kinds in the attacker's namespace.
    pub async fn until_exists(&self, resource: &str, name: &str) -> Result<Value> {
        let what = format!("{resource}/{name}");
        eventually(&what, SOON, async || self.get(resource, name).await).await
    }

    /// Registers a cluster in the attacker's namespace, and returns its namespace.
    pub async fn cluster(&self, name: &str) -> Result<String> {
        create_cluster(&self.env.api, &self.tenant, name, SOON).await
    }

    /// A chart that exists, in a repository that works.
    pub fn chart(&self) -> Value {
        json!({ "repo": self.env.charts.url(), "chart": "web", "version": "1.x" })
    }

    /// Records a violation unless `holds`.
    pub fn check(&mut self, holds: bool, violation: impl Into<String>) {
        if !holds {
            self.violations.push(violation.into());
        }
    }

    /// The neighbour creates some HelmOps, one after the other.
    pub async fn neighbour_works(&mut self) {
        let repo = self.env.neighbour.repo.clone();
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
        let probes = self
            .watchdogs
            .iter()
            .map(|watchdog| watchdog.observations().probes);
        probes.min().unwrap_or_default()
    }

    /// The neighbour creates HelmOps until something else has ended, and one more.
    pub async fn neighbour_works_during<T>(&mut self, other: impl Future<Output = T>) -> T {
        let repo = self.env.neighbour.repo.clone();
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
        self.neighbour_is_in_time(async |env| {
            let Environment { neighbour, api, .. } = env;
            neighbour.deploy(api, repo, TIMEOUT).await
        })
        .await
    }

    /// Whether the neighbour waits no longer than it may; `measure` returns the time. Where a bare write is slow at the same
    /// time, it is measured again: the machine may have been busy with something else.
    pub async fn neighbour_is_in_time(
        &mut self,
        measure: impl AsyncFn(&mut Environment) -> Result<Duration>,
    ) -> bool {
        let bound = self.bound();
        for number in 1..=MEASUREMENTS {
            let (start, api) = (Instant::now(), self.env.api.clone());
            let (outcome, write) = write_latency::measure_during(&api, measure(self.env)).await;
            self.slowest = self.slowest.max(start.elapsed());
            let violation = match outcome {
                Ok(wait) if wait <= bound => return true,
                Ok(wait) => {
                    format!(
                        "the neighbour waited {wait:.1?}, more than {bound:.1?}; a bare write took {write:.1?}"
                    )
                }
                Err(error) => format!("the neighbour's HelmOp: {error:#}; a bare write took {write:.1?}"),
            };
            if write <= SLOW_WRITE || number == MEASUREMENTS {
                self.violations.push(violation);
                return false;
            }
            eprintln!("tenants: {}: {violation}; again", self.name);
        }
        false
    }

    fn bound(&self) -> Duration {
        if self.baseline < QUIET_BASELINE {
            BOUND
        } else {
            BOUND + self.baseline
        }
    }

    /// Restarts the controller, which must become ready.
    pub async fn restart_controller(&mut self) -> Result<bool> {
        self.stop_watching();
        let restarted = self.env.restart_controller().await;
        let is_ready = restarted.is_ok();
        if let Err(error) = restarted {
            let text = format!("{error:#}");
            let cut: String = text.chars().take(300).collect();
            self.violations
                .push(format!("the controller does not become ready: {cut}"));
        } else {
            self.watch()?;
        }
        Ok(is_ready)
    }

    fn stop_watching(&mut self) {
        for watchdog in &self.watchdogs {
            self.violations.extend(watchdog.violations());
            let (observed, figures) = (
                watchdog.observations(),
                self.figures.entry(watchdog.name).or_default(),
            );
            figures.slowest = figures.slowest.max(observed.slowest);
            figures.peak = figures.peak.max(observed.peak);
        }
        self.watchdogs.clear();
    }

    async fn finish(mut self, result: Result<()>) -> Result<Vec<String>> {
        self.stop_watching();
        if let Err(error) = result {
            let text = format!("{error:#}");
            let cut: String = text.chars().take(1000).collect();
            self.violations.push(format!("the attack stopped: {cut}"));
        }
        self.violations.extend(leaks::search(self.env).await?);
        self.print();
        self.clear().await?;
        Ok(self.violations)
    }

    fn print(&self) {
        let slowest = self.figures.values().map(|observed| observed.slowest).max();
        let peaks: Vec<_> = self
            .figures
            .values()
            .map(|observed| (observed.peak >> 10).to_string())
            .collect();
        let result = match self.violations.len() {
            0 => "ok".to_owned(),
            number => format!("{number} violations"),
        };
        eprintln!(
            "tenants: {:<12} {:<34} neighbour {:>6.2} s (baseline {:.2} s), /livez {:>5} ms, controller/webhook {:>8} MiB: {result}",
            format!("{:?}", self.env.mode),
            self.name,
            self.slowest.as_secs_f64(),
            self.baseline.as_secs_f64(),
            slowest.unwrap_or_default().as_millis(),
            peaks.join("/"),
        );
    }

    /// Deletes the objects of the attack, with a new controller where the old one cannot.
    async fn clear(&mut self) -> Result<()> {
        let Environment { neighbour, api, .. } = &*self.env;
        neighbour.clear(api).await?;
        if clear(api, &self.namespaces, TIMEOUT).await.is_err() {
            self.env.restart_controller().await?;
            clear(&self.env.api, &self.namespaces, SOON).await?;
        }
        for namespace in &self.namespaces {
            let path = format!("api/v1/namespaces/{namespace}");
            self.env.api.call(Method::DELETE, &path, Value::Null).await?;
        }
        Ok(())
    }
}

/// Creates an object of one of Fleet's kinds.
pub async fn create_in(
    env: &Environment,
    namespace: &str,
    resource: &str,
    name: &str,
    spec: Value,
) -> Result<()> {
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
    env.api.call(Method::POST, &path, object).await.map(drop)
}

/// The slowest of some HelmOps without an attack, with new processes where the last attack left broken ones.
async fn baseline(env: &mut Environment) -> Result<Duration> {
    let measured = match env.controller {
        Some(_) => series(env).await,
        None => Err(anyhow::anyhow!("no controller")),
    };
    if let Ok(slowest) = measured {
        return Ok(slowest);
    }
    env.restart().await?;
    series(env).await.context("without an attack")
}

async fn series(env: &mut Environment) -> Result<Duration> {
    let Environment { neighbour, api, .. } = env;
    let repo = neighbour.repo.clone();
    // The first one opens connections, fills caches and waits for the Lease of a new controller.
    neighbour.deploy(api, &repo, TIMEOUT).await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..SERIES {
        slowest = slowest.max(neighbour.deploy(api, &repo, TIMEOUT).await?);
    }
    Ok(slowest)
}

/// Waits until a number stops growing, for [`SOON`] at most.
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

//! Measures one scenario.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use helmops_bed::api::value_at;
use helmops_bed::helmops::Running;
use helmops_bed::{usage, wait::eventually};
use reqwest::Method;
use serde_json::Value;
use tokio::time::sleep;

use super::by_hand::{self, ByHand};
use super::drift::{self, Drift};
use super::environment::{DEADLINE, Environment, metric};
use super::meter::{Meter, Phase};
use super::scenario::{CLUSTER, RELEASES, Scenario, deployment, name, values};
use crate::idle::{last_success, wait_until_idle};

/// What may be written while nothing changes: the Lease, and the heartbeat.
const ALLOWED_WRITES: [&str; 2] = ["leases", "clusters/status"];
/// Until the last reports are written.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// A scrape takes about a millisecond, and must not affect the measurement.
const BETWEEN_SCRAPES: Duration = Duration::from_millis(50);

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long the agent is idle.
    pub idle: Duration,
    /// Number of samples of drift that is reported, and of drift that is corrected.
    pub drift: usize,
    /// Maximum number of charts that are installed by hand.
    pub by_hand: usize,
}

/// The measurements of a scenario.
#[derive(Debug)]
pub struct Measured {
    pub scenario: Scenario,
    /// A new agent without releases.
    pub empty: Phase,
    /// From the creation of the BundleDeployments until all are ready.
    pub deploy: Phase,
    /// Some time in which nothing changes.
    pub idle: Phase,
    /// From the start of another agent until it is ready.
    pub restart_ready: Duration,
    /// From the start of another agent until it has reconciled all.
    pub restart: Phase,
    pub drift: Drift,
    /// From the deletion of the BundleDeployments until all releases are removed.
    pub remove: Phase,
    /// Helm without the agent.
    pub by_hand: ByHand,
}

impl Measured {
    /// What must not happen, whatever the machine: writes or runs of Helm although nothing changes.
    pub fn problems(&self) -> Vec<String> {
        problems(self.scenario.charts, [&self.idle, &self.restart])
    }
}

fn problems<const N: usize>(charts: usize, phases: [&Phase; N]) -> Vec<String> {
    let mut problems = Vec::new();
    for phase in phases {
        let what = phase.what;
        let is_allowed = |resource: &str| ALLOWED_WRITES.contains(&resource);
        for (resource, count) in phase.writes.iter().filter(|(resource, _)| !is_allowed(resource)) {
            problems.push(format!("{charts} charts, {what}: {count} writes of {resource}"));
        }
        if phase.runs > 0.0 {
            problems.push(format!("{charts} charts, {what}: {} runs of Helm", phase.runs));
        }
    }
    problems
}

/// Measures a scenario on its own control plane, with this program of the agent.
pub async fn measure(scenario: Scenario, plan: Plan, agent: &Path) -> Result<Measured> {
    let environment = Environment::new(scenario.objects, agent).await?;
    let run = Run {
        environment: &environment,
        charts: scenario.charts,
    };
    // One half before and one after, so that a machine that becomes slower affects both sides.
    let by_hand = scenario.charts.min(plan.by_hand).div_ceil(2);
    let before = by_hand::measure(&environment, by_hand).await?;
    let mut agent = environment.start("agent").await?;
    let empty = run.empty(&agent).await?;
    let deploy = run.deploy(&agent).await?;
    let idle = run.idle(&agent, plan.idle).await?;
    agent.process.terminate(DEADLINE).await?;
    let (mut agent, restart_ready, restart) = run.restart().await?;
    let drift = drift::measure(&environment, scenario.charts, plan.drift).await?;
    let remove = run.remove(&agent).await?;
    agent.process.terminate(DEADLINE).await?;
    let after = by_hand::measure(&environment, by_hand).await?;
    Ok(Measured {
        scenario,
        empty,
        deploy,
        idle,
        restart_ready,
        restart,
        drift,
        remove,
        by_hand: before.and(after),
    })
}

struct Run<'e> {
    environment: &'e Environment,
    charts: usize,
}

impl Run<'_> {
    async fn empty(&self, agent: &Running) -> Result<Phase> {
        wait_until_idle(&agent.admin).await?;
        let meter = Meter::since_start(self.environment, agent, self.environment.writes()?)?;
        meter.phase("no charts", agent).await
    }

    async fn deploy(&self, agent: &Running) -> Result<Phase> {
        let environment = self.environment;
        for number in 0..self.charts {
            let secret = values(number);
            environment
                .object(Method::POST, CLUSTER, "secrets", secret)
                .await?;
        }
        let repo = environment.server.url();
        let deployments = (0..self.charts).map(|number| deployment(number, &repo, &environment.digest));
        let deployments = deployments.collect();
        let meter = Meter::start(environment, agent).await?;
        let api = &environment.api;
        api.create(CLUSTER, "bundledeployments", deployments).await?;
        let ready = [("state", "Ready")];
        self.until_all(agent, "helmops_agent_bundledeployments", &ready)
            .await?;
        let phase = meter.phase("until all are ready", agent).await?;
        self.check_ready().await?;
        Ok(phase)
    }

    async fn idle(&self, agent: &Running, duration: Duration) -> Result<Phase> {
        sleep(SETTLE_TIME).await;
        let meter = Meter::start(self.environment, agent).await?;
        sleep(duration).await;
        meter.phase("idle", agent).await
    }

    async fn restart(&self) -> Result<(Running, Duration, Phase)> {
        let writes = self.environment.writes()?;
        let agent = self.environment.start("agent-2").await?;
        let meter = Meter::since_start(self.environment, &agent, writes)?;
        let ready = meter.elapsed();
        let success = [("result", "success")];
        self.until_all(&agent, "helmops_reconcile_total", &success)
            .await?;
        wait_until_idle(&agent.admin).await?;
        let phase = meter.phase("restart until all are reconciled", &agent).await?;
        let started = SystemTime::now() - usage::age(agent.process.pid()?)?;
        let time = last_success(&agent.admin).await?.duration_since(started)?;
        Ok((agent, ready, Phase { time, ..phase }))
    }

    async fn remove(&self, agent: &Running) -> Result<Phase> {
        let meter = Meter::start(self.environment, agent).await?;
        for number in 0..self.charts {
            let api = &self.environment.api;
            api.delete(CLUSTER, "bundledeployments", &name(number)).await?;
        }
        let removed = [("action", "uninstall"), ("result", "success")];
        self.until_all(agent, "helmops_agent_helm_runs_total", &removed)
            .await?;
        let phase = meter.phase("until all are removed", agent).await?;
        self.check_removed().await?;
        Ok(phase)
    }

    /// Waits until a metric of the agent counts all charts.
    async fn until_all(&self, agent: &Running, name: &str, labels: &[(&str, &str)]) -> Result<()> {
        let expected = f64::from(u32::try_from(self.charts)?);
        let end = Instant::now() + DEADLINE;
        loop {
            let count = metric(agent, name, labels).await?;
            if count >= expected {
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "{name}: {count} of {expected} after {DEADLINE:?}"
            );
            sleep(BETWEEN_SCRAPES).await;
        }
    }

    /// The agent's own count is checked once.
    async fn check_ready(&self) -> Result<()> {
        let all = self.environment.api.list(CLUSTER, "bundledeployments").await?;
        let is_ready = |deployment: &&Value| {
            value_at(deployment, "/status/appliedDeploymentID") == value_at(deployment, "/spec/deploymentID")
                && value_at(deployment, "/status/ready") == true
        };
        let ready = all.iter().filter(is_ready).count();
        ensure!(ready == self.charts, "{ready} of {} are ready", self.charts);
        Ok(())
    }

    /// No record and no ConfigMap of a release is left.
    async fn check_removed(&self) -> Result<()> {
        for objects in [
            "secrets?labelSelector=owner=helm",
            "configmaps?labelSelector=app.kubernetes.io/managed-by=Helm",
        ] {
            eventually("no object of a release", DEADLINE, async || {
                let listed = self
                    .environment
                    .object(Method::GET, RELEASES, objects, Value::Null);
                let listed = listed.await?;
                let count = value_at(&listed, "/items").as_array().map_or(0, Vec::len);
                ensure!(count == 0, "{count} of {objects}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(what: &'static str, runs: f64, writes: &[(&str, u64)]) -> Phase {
        let writes = writes.iter().map(|(what, count)| ((*what).to_owned(), *count));
        Phase {
            what,
            runs,
            writes: writes.collect(),
            ..Phase::default()
        }
    }

    #[test]
    fn only_the_lease_and_the_heartbeat_may_be_written_while_nothing_changes() {
        let allowed = [("leases", 6), ("clusters/status", 1)];
        assert_eq!(problems(100, [&phase("idle", 0.0, &allowed)]), [""; 0]);
        let status = [("bundledeployments/status", 3), ("leases", 6)];
        let phases = [&phase("idle", 0.0, &status), &phase("restart", 2.0, &allowed)];
        assert_eq!(
            problems(100, phases),
            [
                "100 charts, idle: 3 writes of bundledeployments/status",
                "100 charts, restart: 2 runs of Helm"
            ]
        );
    }
}

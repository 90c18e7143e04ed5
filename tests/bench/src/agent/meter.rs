//! The cost of a phase: of the agent, and of its Helm processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use helmops_bed::helmops::Running;
use helmops_bed::usage::{self, Memory};

use super::children::{HelmMemory, Observer};
use super::environment::{Environment, metric};

/// The cost of one phase.
#[derive(Debug, Default)]
pub struct Phase {
    /// Description of the phase.
    pub what: &'static str,
    pub time: Duration,
    /// CPU time of the agent.
    pub cpu: Duration,
    /// CPU time of its Helm processes that have ended.
    pub helm_cpu: Duration,
    /// Memory of the agent at the end.
    pub memory: Memory,
    /// Peak memory of its Helm processes.
    pub helm_memory: HelmMemory,
    /// Runs of Helm.
    pub runs: f64,
    /// Duration of all runs of Helm, in seconds.
    pub run_seconds: f64,
    /// Writes of the agent and of Helm, by resource.
    pub writes: BTreeMap<String, u64>,
}

pub struct Meter<'e> {
    environment: &'e Environment,
    pid: u32,
    observer: Observer,
    started: Instant,
    cpu: Duration,
    helm_cpu: Duration,
    runs: f64,
    run_seconds: f64,
    writes: BTreeMap<String, u64>,
}

const RUN_SECONDS: &str = "helmops_agent_helm_duration_seconds_sum";
const RUNS: &str = "helmops_agent_helm_runs_total";

impl<'e> Meter<'e> {
    pub async fn start(environment: &'e Environment, agent: &Running) -> Result<Self> {
        let pid = agent.process.pid()?;
        // It takes a second to read a long log.
        let writes = environment.writes()?;
        Ok(Self {
            observer: Observer::of(pid),
            runs: metric(agent, RUNS, &[]).await?,
            run_seconds: metric(agent, RUN_SECONDS, &[]).await?,
            cpu: usage::cpu_time(pid)?,
            helm_cpu: usage::cpu_time_of_children(pid)?,
            started: Instant::now(),
            environment,
            pid,
            writes,
        })
    }

    /// The phase of an agent since its start, with the writes since `writes` was read.
    pub fn since_start(
        environment: &'e Environment,
        agent: &Running,
        writes: BTreeMap<String, u64>,
    ) -> Result<Self> {
        let pid = agent.process.pid()?;
        let now = Instant::now();
        Ok(Self {
            observer: Observer::of(pid),
            runs: 0.0,
            run_seconds: 0.0,
            cpu: Duration::ZERO,
            helm_cpu: Duration::ZERO,
            started: now.checked_sub(usage::age(pid)?).unwrap_or(now),
            environment,
            pid,
            writes,
        })
    }

    /// Time since the start of the phase.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The cost until now.
    pub async fn phase(&self, what: &'static str, agent: &Running) -> Result<Phase> {
        let (time, pid) = (self.elapsed(), self.pid);
        let cpu = usage::cpu_time(pid)?.saturating_sub(self.cpu);
        let helm_cpu = usage::cpu_time_of_children(pid)?.saturating_sub(self.helm_cpu);
        let memory = usage::memory(pid)?;
        let runs = metric(agent, RUNS, &[]).await? - self.runs;
        let run_seconds = metric(agent, RUN_SECONDS, &[]).await? - self.run_seconds;
        let mut writes = self.environment.writes()?;
        for (what, count) in &mut writes {
            *count -= self.writes.get(what).copied().unwrap_or_default();
        }
        writes.retain(|_, count| *count > 0);
        Ok(Phase {
            what,
            time,
            cpu,
            helm_cpu,
            memory,
            helm_memory: self.observer.peak(),
            runs,
            run_seconds,
            writes,
        })
    }
}

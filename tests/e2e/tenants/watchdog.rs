//! Watches one process during an attack, as the kubelet and the kernel do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_bed::helmops::Running;
use helmops_bed::probe;
use helmops_bed::usage;
use reqwest::{Client, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::limits::Limits;

/// Far more often than the kubelet probes, so that a short attack has many probes.
const PROBE_PERIOD: Duration = Duration::from_millis(100);
/// A process that allocates without bound grows by some MiB in this time.
const MEMORY_PERIOD: Duration = Duration::from_millis(10);
/// Resets the peak of a process in the kernel.
const RESET_PEAK: &str = "5";

/// Probes a process and measures its memory until it is dropped.
pub struct Watchdog {
    /// The name of the process.
    pub name: &'static str,
    limits: Limits,
    observations: Arc<Mutex<Observations>>,
    _tasks: JoinSet<()>,
}

/// What was observed of the process.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// How many probes there were.
    pub probes: u64,
    /// The slowest response of `/livez`; a missing one counts with its timeout.
    pub slowest: Duration,
    /// The peak of its memory, in KiB.
    pub peak: u32,
    /// Missing responses in a row until now.
    missed: u64,
    /// What would have restarted the container.
    restart_causes: Vec<String>,
}

impl Watchdog {
    /// Starts to watch a process; its peak is reset to its present memory.
    pub fn start(name: &'static str, running: &Running, limits: Limits) -> Result<Self> {
        let pid = running.process.pid()?;
        std::fs::write(format!("/proc/{pid}/clear_refs"), RESET_PEAK)?;
        let observations = Arc::<Mutex<Observations>>::default();
        let mut tasks = JoinSet::new();
        let client = probe::client(None)?;
        let url = format!("{}/livez", running.probes);
        tasks.spawn(probe_on(client, url, limits, Arc::clone(&observations)));
        tasks.spawn(measure_on(pid, limits, Arc::clone(&observations)));
        Ok(Self {
            name,
            limits,
            observations,
            _tasks: tasks,
        })
    }

    /// What was observed until now.
    pub fn observations(&self) -> Observations {
        lock(&self.observations).clone()
    }

    /// The violations, one line for each.
    pub fn violations(&self) -> Vec<String> {
        let observations = self.observations();
        let mut violations = observations.restart_causes;
        if observations.peak > self.limits.memory {
            let (peak, limit) = (observations.peak >> 10, self.limits.memory >> 10);
            violations.push(format!("{peak} MiB of memory, and the limit is {limit} MiB"));
        }
        let named = violations
            .into_iter()
            .map(|text| format!("{}: {text}", self.name));
        named.collect()
    }
}

async fn probe_on(client: Client, url: String, limits: Limits, observations: Arc<Mutex<Observations>>) {
    loop {
        let start = Instant::now();
        // The kubelet opens a connection for each probe.
        let request = client
            .get(&url)
            .header("connection", "close")
            .timeout(limits.timeout);
        let response = async {
            let response = request.send().await?;
            Ok::<_, reqwest::Error>((response.status(), response.text().await?))
        };
        let response = response.await;
        lock(&observations).record_probe(start.elapsed(), response, limits);
        sleep(PROBE_PERIOD).await;
    }
}

async fn measure_on(pid: u32, limits: Limits, observations: Arc<Mutex<Observations>>) {
    while let Ok(memory) = usage::memory(pid) {
        let peak = {
            let mut observations = lock(&observations);
            observations.peak = observations.peak.max(memory.peak);
            observations.peak
        };
        if peak > limits.memory {
            // As the kernel does, and before it uses up the memory of this machine.
            let _ = kill(pid);
            return;
        }
        sleep(MEMORY_PERIOD).await;
    }
}

fn kill(pid: u32) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok(kill_process(pid.context("a process id")?, Signal::KILL)?)
}

impl Observations {
    fn record_probe(
        &mut self,
        elapsed: Duration,
        response: Result<(StatusCode, String), reqwest::Error>,
        limits: Limits,
    ) {
        self.probes += 1;
        self.slowest = self.slowest.max(elapsed);
        match response {
            Ok((StatusCode::OK, _)) => self.missed = 0,
            Ok((status, text)) => self.add_restart_cause(format!("/livez: {status}: {}", text.trim())),
            Err(_) => {
                self.missed += 1;
                if self.missed >= limits.failures {
                    let (times, timeout) = (limits.failures, limits.timeout);
                    self.add_restart_cause(format!(
                        "/livez: no response within {timeout:?}, {times} times in a row"
                    ));
                }
            }
        }
    }

    /// Adds the first of each kind only.
    fn add_restart_cause(&mut self, text: String) {
        let kind = |text: &str| text.chars().take(16).collect::<String>();
        if !self.restart_causes.iter().any(|known| kind(known) == kind(&text)) {
            self.restart_causes.push(text);
        }
    }
}

/// A task that panicked while it held the lock has failed already.
fn lock(observations: &Mutex<Observations>) -> MutexGuard<'_, Observations> {
    observations.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Watches one process during an attack, as the kubelet and the kernel do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_tests::bench::usage;
use helmops_tests::helmops::Running;
use helmops_tests::probe;
use reqwest::{Client, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::limits::Limits;

/// Far more often than the kubelet, so that a short attack has many probes.
const PROBE_PERIOD: Duration = Duration::from_millis(100);
/// A process that allocates without bound gains some MiB in this time.
const MEMORY_PERIOD: Duration = Duration::from_millis(10);
/// Makes the kernel forget the peak of a process.
const RESET_PEAK: &str = "5";

/// Probes a process and measures its memory until it is dropped.
pub struct Watchdog {
    /// Which process.
    pub name: &'static str,
    limits: Limits,
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

/// What happened to the process.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How many probes there were.
    pub probes: u64,
    /// The slowest response of `/livez`; a missing one counts with its timeout.
    pub slowest: Duration,
    /// The peak of its memory, in KiB.
    pub peak: u32,
    /// Missing responses in a row until now.
    missed: u64,
    /// What would have restarted the container.
    faults: Vec<String>,
}

impl Watchdog {
    /// Starts with a peak of what the process uses now.
    pub fn start(name: &'static str, running: &Running, limits: Limits) -> Result<Self> {
        let pid = running.process.pid()?;
        std::fs::write(format!("/proc/{pid}/clear_refs"), RESET_PEAK)?;
        let seen = Arc::<Mutex<Seen>>::default();
        let mut tasks = JoinSet::new();
        let client = probe::client(None)?;
        let url = format!("{}/livez", running.probes);
        tasks.spawn(probe_on(client, url, limits, Arc::clone(&seen)));
        tasks.spawn(measure_on(pid, limits, Arc::clone(&seen)));
        Ok(Self {
            name,
            limits,
            seen,
            _tasks: tasks,
        })
    }

    /// What happened until now.
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// What is wrong, one line for each.
    pub fn complaints(&self) -> Vec<String> {
        let seen = self.seen();
        let mut complaints = seen.faults;
        if seen.peak > self.limits.memory {
            let (peak, limit) = (seen.peak >> 10, self.limits.memory >> 10);
            complaints.push(format!("{peak} MiB of memory, and the limit is {limit} MiB"));
        }
        let named = complaints
            .into_iter()
            .map(|text| format!("{}: {text}", self.name));
        named.collect()
    }
}

async fn probe_on(client: Client, url: String, limits: Limits, seen: Arc<Mutex<Seen>>) {
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
        lock(&seen).probed(start.elapsed(), response, limits);
        sleep(PROBE_PERIOD).await;
    }
}

async fn measure_on(pid: u32, limits: Limits, seen: Arc<Mutex<Seen>>) {
    while let Ok(memory) = usage::memory(pid) {
        let peak = {
            let mut seen = lock(&seen);
            seen.peak = seen.peak.max(memory.peak);
            seen.peak
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

impl Seen {
    fn probed(
        &mut self,
        elapsed: Duration,
        response: Result<(StatusCode, String), reqwest::Error>,
        limits: Limits,
    ) {
        self.probes += 1;
        self.slowest = self.slowest.max(elapsed);
        match response {
            Ok((StatusCode::OK, _)) => self.missed = 0,
            Ok((status, text)) => self.fault(format!("/livez: {status}: {}", text.trim())),
            Err(_) => {
                self.missed += 1;
                if self.missed >= limits.failures {
                    let (times, timeout) = (limits.failures, limits.timeout);
                    self.fault(format!(
                        "/livez: no response within {timeout:?}, {times} times in a row"
                    ));
                }
            }
        }
    }

    /// Keeps the first of each kind.
    fn fault(&mut self, text: String) {
        let kind = |text: &str| text.chars().take(16).collect::<String>();
        if !self.faults.iter().any(|known| kind(known) == kind(&text)) {
            self.faults.push(text);
        }
    }
}

/// A task that panicked while it held the lock has failed already.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

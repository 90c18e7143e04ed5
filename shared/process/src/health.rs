//! What `/livez` and `/readyz` report.
//!
//! A process is ready when it runs and every gate is open: not while it starts, when some gates do not exist yet, and not
//! while it stops. It is live while every loop sends heartbeats: a loop
//! without them is named in the report, and the kubelet restarts the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::lock;

/// The health of one process. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<State>);

#[derive(Debug, Default)]
struct State {
    gates: Mutex<Vec<(String, Arc<AtomicBool>)>>,
    beats: Mutex<Vec<Beat>>,
    started: AtomicBool,
    stopping: AtomicBool,
}

#[derive(Debug)]
struct Beat {
    name: String,
    max_age: Duration,
    last: Arc<Mutex<LastBeat>>,
}

/// When a heartbeat was sent last; `None` if its loop has not started.
type LastBeat = Option<Instant>;

/// A condition of readiness, such as a loaded certificate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// The condition is met.
    pub fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// The condition is not met: the process is unready.
    pub fn close(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The heartbeat of one loop.
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<Mutex<LastBeat>>);

impl Heartbeat {
    /// Records that the loop is alive. An idle loop must call this too, more often than its `max_age`.
    pub fn beat(&self) {
        *lock(&self.0) = Some(Instant::now());
    }
}

/// The result of a probe: its checks, in the order in which they were added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report(pub Vec<Check>);

/// One line of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Why it fails; `None` if it passes.
    pub failure: Option<String>,
}

impl Report {
    /// Whether every check passes.
    pub fn ok(&self) -> bool {
        self.0.iter().all(|check| check.failure.is_none())
    }
}

impl Health {
    /// Adds a readiness gate, closed. Call it when the process starts: a gate is never removed.
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        let open = Arc::new(AtomicBool::new(false));
        lock(&self.0.gates).push((name.into(), Arc::clone(&open)));
        Gate(open)
    }

    /// Adds a heartbeat, sent now for the first time, that fails `/livez` once it is older than `max_age`.
    /// Call it when the process starts: a heartbeat is never removed, even when its handle is dropped.
    pub fn heartbeat(&self, name: impl Into<String>, max_age: Duration) -> Heartbeat {
        self.add_heartbeat(name.into(), max_age, Some(Instant::now()))
    }

    /// Adds the heartbeat of a loop that starts later: the process is live until then. Otherwise as [`Self::heartbeat`].
    pub fn deferred_heartbeat(&self, name: impl Into<String>, max_age: Duration) -> Heartbeat {
        self.add_heartbeat(name.into(), max_age, None)
    }

    fn add_heartbeat(&self, name: String, max_age: Duration, last: LastBeat) -> Heartbeat {
        let last = Arc::new(Mutex::new(last));
        lock(&self.0.beats).push(Beat {
            name,
            max_age,
            last: Arc::clone(&last),
        });
        Heartbeat(last)
    }

    /// The process has started: it has every gate. Until then it is unready.
    pub fn set_started(&self) {
        self.0.started.store(true, Ordering::Release);
    }

    /// The process is shutting down: it stays unready, and missing heartbeats no longer fail `/livez`.
    pub fn set_stopping(&self) {
        self.0.stopping.store(true, Ordering::Release);
    }

    /// Whether every loop sends heartbeats. A process that is stopping is live: its loops are supposed to end,
    /// and the supervisor limits how long that takes.
    pub fn live(&self) -> Report {
        let now = Instant::now();
        let stopping = self.is_stopping();
        Report(
            lock(&self.0.beats)
                .iter()
                .map(|beat| beat.check(now, stopping))
                .collect(),
        )
    }

    /// Whether the process runs and every gate is open.
    pub fn ready(&self) -> Report {
        let failure = if self.is_stopping() {
            Some("the process is shutting down")
        } else if !self.0.started.load(Ordering::Acquire) {
            Some("the process is starting")
        } else {
            None
        };
        let running = Check {
            name: "running".to_owned(),
            failure: failure.map(str::to_owned),
        };
        let gates = lock(&self.0.gates);
        let gates = gates.iter().map(|(name, open)| Check {
            name: name.clone(),
            failure: (!open.load(Ordering::Acquire)).then(|| "not ready yet".to_owned()),
        });
        Report(std::iter::once(running).chain(gates).collect())
    }

    /// Whether the process is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Acquire)
    }
}

impl Beat {
    fn check(&self, now: Instant, stopping: bool) -> Check {
        let age = lock(&self.last).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let stale = age > self.max_age && !stopping;
        let failure = stale.then(|| {
            format!(
                "no heartbeat for {} s, at most {} s allowed",
                age.as_secs(),
                self.max_age.as_secs()
            )
        });
        Check {
            name: self.name.clone(),
            failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(report: &Report) -> Vec<&str> {
        report
            .0
            .iter()
            .filter(|c| c.failure.is_some())
            .map(|c| c.name.as_str())
            .collect()
    }

    /// A gate is added after another was opened: the process must not be ready in between.
    #[test]
    fn the_process_is_unready_until_it_has_started() {
        let health = Health::default();
        assert_eq!(failing(&health.ready()), ["running"]);
        health.gate("certificate").open();
        assert_eq!(failing(&health.ready()), ["running"]);
        health.set_started();
        assert!(health.ready().ok());
    }

    #[test]
    fn the_process_is_ready_only_while_every_gate_is_open() {
        let health = Health::default();
        health.set_started();
        assert!(health.ready().ok());
        let (certificate, cache) = (health.gate("certificate"), health.gate("cache"));
        assert_eq!(failing(&health.ready()), ["certificate", "cache"]);
        certificate.open();
        assert_eq!(failing(&health.ready()), ["cache"]);
        cache.open();
        assert!(health.ready().ok());
        certificate.close();
        assert_eq!(failing(&health.ready()), ["certificate"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_becomes_stale_and_recovers() {
        let health = Health::default();
        let beat = health.heartbeat("helmop loop", Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(health.live().ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(failing(&health.live()), ["helmop loop"]);
        beat.beat();
        assert!(health.live().ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_starts_later_is_alive_until_then() {
        let health = Health::default();
        let beat = health.deferred_heartbeat("leader election", Duration::from_secs(30));
        tokio::time::advance(Duration::from_mins(5)).await;
        assert!(health.live().ok());
        beat.beat();
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(failing(&health.live()), ["leader election"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopping_process_is_unready_but_live() {
        let health = Health::default();
        health.set_started();
        health.gate("certificate").open();
        let _beat = health.heartbeat("helmop loop", Duration::from_secs(30));
        health.set_stopping();
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(failing(&health.ready()), ["running"]);
        assert!(health.live().ok());
    }
}

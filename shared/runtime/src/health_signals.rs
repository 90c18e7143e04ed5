//! How the loops of a process report that they are ready and alive.

use std::time::Duration;

use helmops_process::{Gate, Health, Heartbeat};

/// The interval of the heartbeat.
const INTERVAL: Duration = Duration::from_secs(5);
/// The loops hang if there is no heartbeat for this time, however slow the machine is.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The health of the loops.
#[derive(Debug)]
pub struct HealthSignals {
    synced: Gate,
    heartbeat: Heartbeat,
}

impl HealthSignals {
    /// Registers the gate for readiness, and the heartbeat for liveness, which counts from the start of the loops.
    pub fn new(health: &Health) -> Self {
        Self {
            synced: health.gate("caches"),
            heartbeat: health.deferred_heartbeat("loops", TIMEOUT),
        }
    }

    /// The caches are synced: the process is ready.
    pub fn caches_synced(&self) {
        self.synced.open();
    }

    /// Beats until the future is dropped. It belongs into the task of the loops, so that it stops if they hang.
    pub async fn beat(&self) {
        loop {
            self.heartbeat.beat();
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

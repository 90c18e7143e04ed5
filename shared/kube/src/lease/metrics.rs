//! The metrics of leader election.

use helmops_process::metrics::registered;
use prometheus::{IntCounter, IntGauge, Registry};

/// The metrics of leader election.
#[derive(Clone, Debug)]
pub struct LeaseMetrics {
    leader: IntGauge,
    transitions: IntCounter,
}

impl LeaseMetrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let leader = IntGauge::new("helmops_leader", "1 if this replica is the leader, else 0.")?;
        let transitions = IntCounter::new(
            "helmops_lease_transitions_total",
            "Number of times that this replica acquired or lost leadership.",
        )?;
        Ok(Self {
            leader: registered(registry, leader)?,
            transitions: registered(registry, transitions)?,
        })
    }

    /// Sets whether this process is the leader, and counts changes.
    pub fn leads(&self, leads: bool) {
        let leads = i64::from(leads);
        if self.leader.get() != leads {
            self.leader.set(leads);
            self.transitions.inc();
        }
    }
}

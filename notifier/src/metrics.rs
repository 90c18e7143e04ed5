//! The metrics of the notifier.

use helmops_core::reason::Reason;
use helmops_process::metrics::registered;
use helmops_runtime::metrics::{Controller, ReconcileMetrics};
use prometheus::{IntCounter, Registry};

/// The loop of Alerts.
pub const ALERTS: Controller = Controller {
    label: "alert",
    failures: || vec![Reason::APIError],
};
/// The loop of AlertProviders.
pub const PROVIDERS: Controller = Controller {
    label: "alertprovider",
    failures: || vec![Reason::APIError],
};
/// The loop of Receivers.
pub const RECEIVERS: Controller = Controller {
    label: "receiver",
    failures: || {
        vec![
            Reason::APIError,
            Reason::InvalidNotification,
            Reason::InvalidName,
            Reason::InvalidSelector,
            Reason::LimitExceeded,
            Reason::NamespaceForbidden,
            Reason::SecretNotFound,
            Reason::InvalidSecret,
        ]
    },
};

/// The metrics of the notifier.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Of all loops.
    pub reconciles: ReconcileMetrics,
    pushes: IntCounter,
    polls: IntCounter,
}

impl Metrics {
    /// Creates and registers the metrics. Every label value that can occur exists from the start, so that a rate includes the
    /// first event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let pushes = IntCounter::new(
            "helmops_notifier_pushes_total",
            "Pushes to repositories that were handled.",
        )?;
        let polls = IntCounter::new(
            "helmops_notifier_requested_polls_total",
            "Polls of HelmOps that were requested for pushes.",
        )?;
        Ok(Self {
            reconciles: ReconcileMetrics::register(registry, &[ALERTS, PROVIDERS, RECEIVERS])?,
            pushes: registered(registry, pushes)?,
            polls: registered(registry, polls)?,
        })
    }

    /// Counts pushes that were handled, and the polls that were requested for them.
    pub fn handled(&self, pushes: usize, polls: usize) {
        self.pushes.inc_by(pushes.try_into().unwrap_or(u64::MAX));
        self.polls.inc_by(polls.try_into().unwrap_or(u64::MAX));
    }
}

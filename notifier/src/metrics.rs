//! The metrics of the notifier.

use helmops_core::reason::Reason;
use helmops_runtime::metrics::{Controller, ReconcileMetrics};
use prometheus::Registry;

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
    failures: || vec![Reason::APIError],
};

/// The metrics of the notifier.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Of all loops.
    pub reconciles: ReconcileMetrics,
}

impl Metrics {
    /// Creates and registers the metrics. Every label value that can occur exists from the start, so that a rate includes the
    /// first event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            reconciles: ReconcileMetrics::register(registry, &[ALERTS, PROVIDERS, RECEIVERS])?,
        })
    }
}

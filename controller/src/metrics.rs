//! The metrics of the controller.

use std::time::Duration;

use helmops_core::reason::Reason;
use helmops_fetch::{ResolutionMetrics, resolution_failures};
use helmops_process::metrics::registered;
use helmops_runtime::metrics::{BUCKETS, Controller, ReconcileMetrics, result_counter, result_labels};
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Registry};

/// The loop of HelmOps, which writes Bundles.
pub const HELMOPS: Controller = Controller {
    label: "helmop",
    failures: || {
        let delivery = [Reason::BundleConflict, Reason::APIError, Reason::DecodeError];
        delivery.into_iter().chain(resolution_failures()).collect()
    },
};
/// The loop of Bundles, which writes BundleDeployments.
pub const BUNDLES: Controller = Controller {
    label: "bundle",
    failures: || vec![Reason::BundleConflict, Reason::APIError, Reason::NotReady],
};
/// The loop of Clusters, which creates their namespaces.
pub const CLUSTERS: Controller = Controller {
    label: "cluster",
    failures: || vec![Reason::NamespaceConflict, Reason::APIError],
};

/// The controller's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Of all loops.
    pub reconciles: ReconcileMetrics,
    /// Of resolutions.
    pub resolutions: ResolutionMetrics,
    polls: IntCounterVec,
    poll_lag: Histogram,
}

impl Metrics {
    /// Creates and registers the metrics. Every label value that can occur exists from the start, so that a rate includes the
    /// first event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let lag = HistogramOpts::new(
            "helmops_poll_lag_seconds",
            "Delay between the time at which a poll is due and its start.",
        );
        Ok(Self {
            reconciles: ReconcileMetrics::register(registry, &[HELMOPS, BUNDLES, CLUSTERS])?,
            resolutions: ResolutionMetrics::register(registry)?,
            polls: result_counter(
                registry,
                "helmops_polls_total",
                "Polls for newer chart versions by result (success, error) and reason.",
                &resolution_failures(),
            )?,
            poll_lag: registered(registry, Histogram::with_opts(lag.buckets(BUCKETS.to_vec()))?)?,
        })
    }

    /// Counts a poll that started `lag` after its due time.
    pub fn polled(&self, failure: Option<Reason>, lag: Duration) {
        self.polls.with_label_values(&result_labels(failure)).inc();
        self.poll_lag.observe(lag.as_secs_f64());
    }
}

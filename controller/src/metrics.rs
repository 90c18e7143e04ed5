//! The metrics of the controller.

use std::time::Duration;

use helmops_core::reason::Reason;
use helmops_process::metrics::registered;
use helmops_runtime::metrics::{BUCKETS, Controller, ERROR, ReconcileMetrics, SUCCESS, result_labels};
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry};

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
    resolutions: IntCounterVec,
    resolution_duration: Histogram,
    polls: IntCounterVec,
    poll_lag: Histogram,
}

/// The reasons of resolution errors. `APIError` is one of them because resolution reads a Secret.
fn resolution_failures() -> Vec<Reason> {
    let all = [Reason::InvalidURL, Reason::InvalidVersion, Reason::APIError];
    all.iter().chain(Reason::RESOLUTION).copied().collect()
}

impl Metrics {
    /// Creates and registers the metrics. Every label value that can occur exists from the start, so that a rate includes the
    /// first event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let labels = &["result", "reason"];
            let counter = registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)?;
            counter.with_label_values(&[SUCCESS, ""]);
            for reason in resolution_failures() {
                counter.with_label_values(&[ERROR, reason.as_str()]);
            }
            Ok::<_, prometheus::Error>(counter)
        };
        let histogram = |name: &str, help: &str| {
            let options = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
            registered(registry, Histogram::with_opts(options)?)
        };
        Ok(Self {
            reconciles: ReconcileMetrics::register(registry, &[HELMOPS, BUNDLES, CLUSTERS])?,
            resolutions: counter(
                "helmops_chart_resolutions_total",
                "Resolutions of chart versions by result (success, error) and reason.",
            )?,
            resolution_duration: histogram(
                "helmops_chart_resolution_duration_seconds",
                "Time to resolve a chart version.",
            )?,
            polls: counter(
                "helmops_polls_total",
                "Polls for newer chart versions by result (success, error) and reason.",
            )?,
            poll_lag: histogram(
                "helmops_poll_lag_seconds",
                "Delay between the time at which a poll is due and its start.",
            )?,
        })
    }

    /// Counts a poll that started `lag` after its due time.
    pub fn polled(&self, failure: Option<Reason>, lag: Duration) {
        self.polls.with_label_values(&result_labels(failure)).inc();
        self.poll_lag.observe(lag.as_secs_f64());
    }

    /// Counts a resolution.
    pub fn resolved(&self, failure: Option<Reason>, took: Duration) {
        self.resolutions.with_label_values(&result_labels(failure)).inc();
        self.resolution_duration.observe(took.as_secs_f64());
    }
}

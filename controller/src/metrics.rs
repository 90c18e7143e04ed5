//! What Prometheus sees of the controller.

use std::time::Duration;

use helmops_shared::reason::Reason;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry, core::Collector};

/// From 1 ms to a minute: without a download a reconciliation takes the time of two API calls.
const BUCKETS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// The word for what went well, beside the reasons for what did not.
pub const SUCCESS: &str = "Success";

/// The controller's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: IntCounterVec,
    reconcile_duration: Histogram,
    resolutions: IntCounterVec,
    resolution_duration: Histogram,
}

impl Metrics {
    /// Makes the metrics and registers them. Every label value that can occur exists from the start, so that a rate sees
    /// the first event.
    ///
    /// # Errors
    /// Where one of them is registered already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let counter = registered(registry, IntCounterVec::new(Opts::new(name, help), &["outcome"])?)?;
            counter.with_label_values(&[SUCCESS]);
            for reason in Reason::ALL {
                counter.with_label_values(&[reason.as_str()]);
            }
            Ok::<_, prometheus::Error>(counter)
        };
        let histogram = |name: &str, help: &str| {
            let options = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
            registered(registry, Histogram::with_opts(options)?)
        };
        Ok(Self {
            reconciles: counter(
                "helmops_reconciles_total",
                "Reconciliations of HelmOps by outcome: Success or the reason.",
            )?,
            reconcile_duration: histogram(
                "helmops_reconcile_duration_seconds",
                "Time that a reconciliation of a HelmOp takes.",
            )?,
            resolutions: counter(
                "helmops_resolutions_total",
                "Look-ups of chart versions by outcome: Success or the reason.",
            )?,
            resolution_duration: histogram(
                "helmops_resolution_duration_seconds",
                "Time that a look-up of a chart version takes.",
            )?,
        })
    }

    /// Counts a reconciliation.
    pub fn reconciled(&self, failure: Option<Reason>, took: Duration) {
        self.reconciles
            .with_label_values(&[failure.map_or(SUCCESS, Reason::as_str)])
            .inc();
        self.reconcile_duration.observe(took.as_secs_f64());
    }

    /// Counts a look-up.
    pub fn resolved(&self, failure: Option<Reason>, took: Duration) {
        self.resolutions
            .with_label_values(&[failure.map_or(SUCCESS, Reason::as_str)])
            .inc();
        self.resolution_duration.observe(took.as_secs_f64());
    }
}

/// Registers a metric and gives it back.
///
/// # Errors
/// Where one of its name is registered already.
pub fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    metric: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

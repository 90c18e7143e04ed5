//! The metrics of the controller.

use std::time::{Duration, SystemTime};

use helmops_core::reason::Reason;
use helmops_process::metrics::registered;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

/// From 1 ms to a minute: without a download a reconciliation takes the time of two API calls.
const BUCKETS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Value of the label `result` for success.
pub const SUCCESS: &str = "success";
/// Value of the label `result` for a failure, whose reason is in the label `reason`.
pub const ERROR: &str = "error";
/// Value of the label `result` for a reconciliation that is retried because something changed meanwhile.
const REQUEUE: &str = "requeue";

/// The controller's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: IntCounterVec,
    reconcile_duration: HistogramVec,
    resolutions: IntCounterVec,
    resolution_duration: Histogram,
    polls: IntCounterVec,
    poll_lag: Histogram,
    /// Objects that wait for a worker.
    pub queue_depth: IntGauge,
    last_success: Gauge,
    /// Events that were dropped by the rate limit.
    pub dropped_events: IntCounter,
}

/// A loop, by the kind of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Writes Bundles.
    HelmOp,
    /// Writes BundleDeployments.
    Bundle,
    /// Creates the namespaces of Clusters.
    Cluster,
}

impl Controller {
    const ALL: [Self; 3] = [Self::HelmOp, Self::Bundle, Self::Cluster];

    /// Value of the label `controller`.
    const fn as_str(self) -> &'static str {
        match self {
            Self::HelmOp => "helmop",
            Self::Bundle => "bundle",
            Self::Cluster => "cluster",
        }
    }

    /// The reasons of its errors.
    fn failures(self) -> Vec<Reason> {
        let delivery = match self {
            Self::HelmOp => vec![Reason::BundleConflict, Reason::APIError, Reason::DecodeError],
            Self::Bundle => vec![Reason::BundleConflict, Reason::APIError, Reason::NotReady],
            Self::Cluster => vec![Reason::NamespaceConflict, Reason::APIError],
        };
        let resolution = match self {
            Self::HelmOp => resolution_failures(),
            Self::Bundle | Self::Cluster => Vec::new(),
        };
        delivery.into_iter().chain(resolution).collect()
    }
}

/// The reasons of resolution errors. `APIError` is one of them because resolution reads a Secret.
fn resolution_failures() -> Vec<Reason> {
    let all = [Reason::InvalidURL, Reason::InvalidVersion, Reason::APIError];
    all.iter().chain(Reason::RESOLUTION).copied().collect()
}

/// Counts itself in a gauge until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(IntGauge);

impl GaugeGuard {
    /// Increments the gauge.
    pub fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
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
            reconciles: reconciles(registry)?,
            reconcile_duration: reconcile_duration(registry)?,
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
            queue_depth: registered(
                registry,
                IntGauge::new(
                    "helmops_workqueue_depth",
                    "Objects in the workqueue that wait for a worker.",
                )?,
            )?,
            last_success: registered(
                registry,
                Gauge::new(
                    "helmops_last_success_timestamp_seconds",
                    "Unix time of the last successful reconciliation; 0 if there was none.",
                )?,
            )?,
            dropped_events: registered(
                registry,
                IntCounter::new(
                    "helmops_events_dropped_total",
                    "Events that were dropped by the rate limit.",
                )?,
            )?,
        })
    }

    /// Counts a reconciliation. One that is retried because something changed meanwhile has the reason `Progressing`.
    pub fn reconciled(&self, controller: Controller, failure: Option<Reason>, took: Duration) {
        debug_assert!(
            failure.is_none_or(|reason| reason == Reason::Progressing || controller.failures().contains(&reason)),
            "{controller:?}: {failure:?} is not among its failures"
        );
        let [result, reason] = match failure {
            Some(Reason::Progressing) => [REQUEUE, ""],
            other => labels(other),
        };
        self.reconciles
            .with_label_values(&[controller.as_str(), result, reason])
            .inc();
        self.reconcile_duration
            .with_label_values(&[controller.as_str()])
            .observe(took.as_secs_f64());
        if failure.is_none()
            && let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)
        {
            self.last_success.set(now.as_secs_f64());
        }
    }

    /// Counts a poll that started `lag` after its due time.
    pub fn polled(&self, failure: Option<Reason>, lag: Duration) {
        self.polls.with_label_values(&labels(failure)).inc();
        self.poll_lag.observe(lag.as_secs_f64());
    }

    /// Counts a resolution.
    pub fn resolved(&self, failure: Option<Reason>, took: Duration) {
        self.resolutions.with_label_values(&labels(failure)).inc();
        self.resolution_duration.observe(took.as_secs_f64());
    }
}

/// Values of the labels `result` and `reason`.
fn labels(failure: Option<Reason>) -> [&'static str; 2] {
    failure.map_or([SUCCESS, ""], |reason| [ERROR, reason.as_str()])
}

fn reconciles(registry: &Registry) -> Result<IntCounterVec, prometheus::Error> {
    let options = Opts::new(
        "helmops_reconcile_total",
        "Reconciliations by controller, result (success, requeue, error) and reason.",
    );
    let labels = &["controller", "result", "reason"];
    let counter = registered(registry, IntCounterVec::new(options, labels)?)?;
    for controller in Controller::ALL {
        for result in [SUCCESS, REQUEUE] {
            counter.with_label_values(&[controller.as_str(), result, ""]);
        }
        for reason in controller.failures() {
            counter.with_label_values(&[controller.as_str(), ERROR, reason.as_str()]);
        }
    }
    Ok(counter)
}

fn reconcile_duration(registry: &Registry) -> Result<HistogramVec, prometheus::Error> {
    let options = HistogramOpts::new(
        "helmops_reconcile_duration_seconds",
        "Duration of a reconciliation by controller.",
    );
    let durations = registered(
        registry,
        HistogramVec::new(options.buckets(BUCKETS.to_vec()), &["controller"])?,
    )?;
    for controller in Controller::ALL {
        durations.with_label_values(&[controller.as_str()]);
    }
    Ok(durations)
}

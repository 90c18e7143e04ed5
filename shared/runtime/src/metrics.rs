//! The metrics of reconciliations.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use helmops_model::reason::Reason;
use helmops_process::metrics::{counters, registered};
use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};

/// Buckets in seconds, from 1 ms to a minute: a reconciliation that only calls the API server takes the time of two calls.
pub const BUCKETS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Value of the label `result` for success.
pub const SUCCESS: &str = "success";
/// Value of the label `result` for a failure, whose reason is in the label `reason`.
pub const ERROR: &str = "error";
/// Value of the label `result` for a reconciliation that is retried because something changed meanwhile.
const REQUEUE: &str = "requeue";

/// The loop of a kind, as it appears in metrics.
#[derive(Clone, Copy)]
pub struct Controller {
    /// Value of the label `controller`.
    pub label: &'static str,
    /// The reasons of its errors. Each process has a test that compares them with those of the error type.
    pub failures: fn() -> Vec<Reason>,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label)
    }
}

/// Metrics of the reconciliations of a process, and of what they use.
#[derive(Clone, Debug)]
pub struct ReconcileMetrics {
    reconciles: IntCounterVec,
    duration: HistogramVec,
    /// Objects that wait for a worker.
    pub queue_depth: IntGauge,
    last_success: Gauge,
    /// Events that were dropped by the rate limit.
    pub dropped_events: IntCounter,
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

impl ReconcileMetrics {
    /// Creates and registers the metrics of these loops. Every label value that can occur exists from the start, so that a rate
    /// includes the first event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry, controllers: &[Controller]) -> Result<Self, prometheus::Error> {
        Ok(Self {
            reconciles: reconciles(registry, controllers)?,
            duration: duration(registry, controllers)?,
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
        let [result, reason] = match failure {
            Some(Reason::Progressing) => [REQUEUE, ""],
            other => result_labels(other),
        };
        self.reconciles
            .with_label_values(&[controller.label, result, reason])
            .inc();
        self.duration
            .with_label_values(&[controller.label])
            .observe(took.as_secs_f64());
        if failure.is_none()
            && let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)
        {
            self.last_success.set(now.as_secs_f64());
        }
    }
}

/// A counter with the labels `result` (success, error) and `reason`, for these reasons of errors.
///
/// # Errors
/// If its name is already registered.
pub fn result_counter(
    registry: &Registry,
    name: &str,
    help: &str,
    failures: &[Reason],
) -> Result<IntCounterVec, prometheus::Error> {
    let counter = counters(registry, name, help, &["result", "reason"])?;
    counter.with_label_values(&[SUCCESS, ""]);
    for reason in failures {
        counter.with_label_values(&[ERROR, reason.as_str()]);
    }
    Ok(counter)
}

/// Values of the labels `result` and `reason`.
pub fn result_labels(failure: Option<Reason>) -> [&'static str; 2] {
    failure.map_or([SUCCESS, ""], |reason| [ERROR, reason.as_str()])
}

fn reconciles(registry: &Registry, controllers: &[Controller]) -> Result<IntCounterVec, prometheus::Error> {
    let counter = counters(
        registry,
        "helmops_reconcile_total",
        "Reconciliations by controller, result (success, requeue, error) and reason.",
        &["controller", "result", "reason"],
    )?;
    for controller in controllers {
        for result in [SUCCESS, REQUEUE] {
            counter.with_label_values(&[controller.label, result, ""]);
        }
        for reason in (controller.failures)() {
            counter.with_label_values(&[controller.label, ERROR, reason.as_str()]);
        }
    }
    Ok(counter)
}

fn duration(registry: &Registry, controllers: &[Controller]) -> Result<HistogramVec, prometheus::Error> {
    let options = HistogramOpts::new(
        "helmops_reconcile_duration_seconds",
        "Duration of a reconciliation by controller.",
    );
    let durations = registered(
        registry,
        HistogramVec::new(options.buckets(BUCKETS.to_vec()), &["controller"])?,
    )?;
    for controller in controllers {
        durations.with_label_values(&[controller.label]);
    }
    Ok(durations)
}

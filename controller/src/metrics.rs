//! What Prometheus sees of the controller.

use std::time::{Duration, SystemTime};

use helmops_shared::{reason::Reason, runtime::metrics::registered};
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

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
    reconcile_duration: HistogramVec,
    resolutions: IntCounterVec,
    resolution_duration: Histogram,
    polls: IntCounterVec,
    poll_lag: Histogram,
    /// HelmOps that wait for a worker.
    pub waiting: IntGauge,
    last_success: Gauge,
    /// Events that were not told.
    pub dropped_events: IntCounter,
}

/// A loop: what is brought about for the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// HelmOps to Bundles.
    HelmOp,
    /// Bundles to clusters.
    Bundle,
    /// Clusters to their namespaces.
    Cluster,
}

impl Loop {
    const ALL: [Self; 3] = [Self::HelmOp, Self::Bundle, Self::Cluster];

    const fn as_str(self) -> &'static str {
        match self {
            Self::HelmOp => "helmop",
            Self::Bundle => "bundle",
            Self::Cluster => "cluster",
        }
    }
}

/// Counts something as being there while it lives.
#[derive(Debug)]
pub struct Present(IntGauge);

impl Present {
    /// From now on.
    pub fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.dec();
    }
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
            reconciles: reconciles(registry)?,
            reconcile_duration: reconcile_duration(registry)?,
            resolutions: counter(
                "helmops_resolutions_total",
                "Look-ups of chart versions by outcome: Success or the reason.",
            )?,
            resolution_duration: histogram(
                "helmops_resolution_duration_seconds",
                "Time that a look-up of a chart version takes.",
            )?,
            polls: counter(
                "helmops_polls_total",
                "Looks for newer versions by outcome: Success or the reason.",
            )?,
            poll_lag: histogram(
                "helmops_poll_lag_seconds",
                "Time by which a look for newer versions begins late.",
            )?,
            waiting: registered(
                registry,
                IntGauge::new(
                    "helmops_reconciles_waiting",
                    "Objects that wait for a worker: the depth of the queue.",
                )?,
            )?,
            last_success: registered(
                registry,
                Gauge::new(
                    "helmops_last_success_timestamp_seconds",
                    "When a reconciliation succeeded last, as a Unix time; 0 for never.",
                )?,
            )?,
            dropped_events: registered(
                registry,
                IntCounter::new(
                    "helmops_events_dropped_total",
                    "Events that were not told because they came too fast.",
                )?,
            )?,
        })
    }

    /// Counts a reconciliation.
    pub fn reconciled(&self, by: Loop, failure: Option<Reason>, took: Duration) {
        self.reconciles
            .with_label_values(&[by.as_str(), failure.map_or(SUCCESS, Reason::as_str)])
            .inc();
        self.reconcile_duration
            .with_label_values(&[by.as_str()])
            .observe(took.as_secs_f64());
        if failure.is_none()
            && let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)
        {
            self.last_success.set(now.as_secs_f64());
        }
    }

    /// Counts a look for newer versions that began `lag` late.
    pub fn polled(&self, failure: Option<Reason>, lag: Duration) {
        self.polls
            .with_label_values(&[failure.map_or(SUCCESS, Reason::as_str)])
            .inc();
        self.poll_lag.observe(lag.as_secs_f64());
    }

    /// Counts a look-up.
    pub fn resolved(&self, failure: Option<Reason>, took: Duration) {
        self.resolutions
            .with_label_values(&[failure.map_or(SUCCESS, Reason::as_str)])
            .inc();
        self.resolution_duration.observe(took.as_secs_f64());
    }
}

fn reconciles(registry: &Registry) -> Result<IntCounterVec, prometheus::Error> {
    let options = Opts::new(
        "helmops_reconciles_total",
        "Reconciliations by loop and outcome: Success or the reason.",
    );
    let counter = registered(registry, IntCounterVec::new(options, &["loop", "outcome"])?)?;
    for by in Loop::ALL {
        counter.with_label_values(&[by.as_str(), SUCCESS]);
        for reason in Reason::ALL {
            counter.with_label_values(&[by.as_str(), reason.as_str()]);
        }
    }
    Ok(counter)
}

fn reconcile_duration(registry: &Registry) -> Result<HistogramVec, prometheus::Error> {
    let options = HistogramOpts::new(
        "helmops_reconcile_duration_seconds",
        "Time that a reconciliation takes, by loop.",
    );
    let durations = registered(
        registry,
        HistogramVec::new(options.buckets(BUCKETS.to_vec()), &["loop"])?,
    )?;
    for by in Loop::ALL {
        durations.with_label_values(&[by.as_str()]);
    }
    Ok(durations)
}

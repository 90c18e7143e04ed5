//! The metrics of the receiver.

use std::time::Duration;

use helmops_notify::push::ReceiverType;
use helmops_process::{BodyError, metrics::registered};
use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts, Registry};

/// From 1 ms to 10 s: a write of a status takes milliseconds, and waits for up to a second after the one before.
const BUCKETS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// The label of requests that no Receiver is known for.
const NO_TYPE: &str = "none";

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its pushes are recorded.
    Accepted,
    /// It announces no push.
    Ignored,
    /// It was handled before.
    Replayed,
    /// No Receiver has this path.
    UnknownPath,
    /// Another method than POST.
    Method,
    /// The Receivers are not known yet.
    Starting,
    /// The Receiver is suspended.
    Suspended,
    /// Its proof is missing or wrong.
    Unauthorized,
    /// Its body is not what the type requires.
    Malformed,
    /// Too many others of its Receiver waited: its pushes are recorded with theirs, and it does not wait for it.
    Busy,
    /// Its pushes could not be recorded.
    Failed,
    /// Its body was refused.
    Body(&'static str),
}

impl Outcome {
    const OF_RECEIVERS: [Self; 8] = [
        Self::Accepted,
        Self::Ignored,
        Self::Replayed,
        Self::Suspended,
        Self::Unauthorized,
        Self::Malformed,
        Self::Busy,
        Self::Failed,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Ignored => "ignored",
            Self::Replayed => "replayed",
            Self::UnknownPath => "unknown_path",
            Self::Method => "method",
            Self::Starting => "starting",
            Self::Suspended => "suspended",
            Self::Unauthorized => "unauthorized",
            Self::Malformed => "malformed",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Body(reason) => reason,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Metrics {
    requests: IntCounterVec,
    durations: Histogram,
    receivers: IntGauge,
    writes: IntCounterVec,
}

impl Metrics {
    /// Creates the metrics and registers them. All label values exist from the start, so that a rate includes the first request.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = Opts::new(
            "helmops_receiver_requests_total",
            "Requests by the type of the Receiver (none if no Receiver has the path) and result.",
        );
        let durations = HistogramOpts::new(
            "helmops_receiver_request_duration_seconds",
            "Duration of requests that were accepted, from their header to the recorded push.",
        );
        let receivers = IntGauge::new("helmops_receiver_receivers", "Receivers that are served.")?;
        let writes = Opts::new(
            "helmops_receiver_writes_total",
            "Writes of the status of Receivers by result (success, conflict, error).",
        );
        let metrics = Self {
            requests: registered(registry, IntCounterVec::new(requests, &["type", "result"])?)?,
            durations: registered(
                registry,
                Histogram::with_opts(durations.buckets(BUCKETS.to_vec()))?,
            )?,
            receivers: registered(registry, receivers)?,
            writes: registered(registry, IntCounterVec::new(writes, &["result"])?)?,
        };
        for outcome in [Outcome::UnknownPath, Outcome::Method, Outcome::Starting] {
            metrics.counter(None, outcome);
        }
        for receiver_type in ReceiverType::ALL {
            let of_bodies = BodyError::REASONS.map(Outcome::Body);
            for outcome in Outcome::OF_RECEIVERS.into_iter().chain(of_bodies) {
                metrics.counter(Some(receiver_type), outcome);
            }
        }
        for result in ["success", "conflict", "error"] {
            metrics.writes.with_label_values(&[result]);
        }
        Ok(metrics)
    }

    /// Counts a request.
    pub fn request(&self, receiver_type: Option<ReceiverType>, outcome: Outcome) {
        self.counter(receiver_type, outcome).inc();
    }

    /// Records the duration of a request that was accepted.
    pub fn accepted_after(&self, duration: Duration) {
        self.durations.observe(duration.as_secs_f64());
    }

    pub fn set_receivers(&self, receivers: usize) {
        self.receivers.set(i64::try_from(receivers).unwrap_or(i64::MAX));
    }

    /// Counts a write.
    pub fn write(&self, result: &'static str) {
        self.writes.with_label_values(&[result]).inc();
    }

    fn counter(&self, receiver_type: Option<ReceiverType>, outcome: Outcome) -> prometheus::IntCounter {
        let receiver_type = receiver_type.map_or(NO_TYPE, ReceiverType::as_str);
        self.requests
            .with_label_values(&[receiver_type, outcome.as_str()])
    }
}

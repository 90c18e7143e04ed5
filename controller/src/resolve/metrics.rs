//! What Prometheus sees of the way to repositories and registries.

use std::time::Duration;

use helmops_shared::{reason::Reason, runtime::metrics::registered};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::metrics::Present;
pub use crate::metrics::SUCCESS;

/// The word for an answer that says that nothing has changed.
pub const NOT_MODIFIED: &str = "NotModified";

/// From 5 ms for a server near by to the longest time that a request may take.
const BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];

/// What a request can fail with.
const FAILURES: [Reason; 13] = [
    Reason::InvalidURL,
    Reason::InvalidSecret,
    Reason::RepositoryError,
    Reason::HostNotFound,
    Reason::ConnectionFailed,
    Reason::Timeout,
    Reason::CertificateError,
    Reason::Unauthorized,
    Reason::Forbidden,
    Reason::RepositoryNotFound,
    Reason::CredentialsWithheld,
    Reason::RateLimited,
    Reason::AnswerTooLarge,
];

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The index of a Helm repository.
    Index,
    /// The tags of a chart in an OCI registry.
    Tags,
    /// The manifest of a version in an OCI registry.
    Manifest,
    /// A token for an OCI registry.
    Token,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Index, Self::Tags, Self::Manifest, Self::Token];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Tags => "tags",
            Self::Manifest => "manifest",
            Self::Token => "token",
        }
    }
}

/// Requests and what came of them.
#[derive(Clone, Debug)]
pub struct Fetches {
    requests: IntCounterVec,
    bytes: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGauge,
    /// Look-ups that an answer served which another look-up had asked for.
    pub shared: IntCounter,
    /// Entries of indexes that were passed over because they are broken.
    pub skipped_entries: IntCounter,
    /// Answers that were dropped to make room.
    pub evictions: IntCounter,
    /// Size of the answers that are kept.
    pub cache_bytes: IntGauge,
}

impl Fetches {
    /// Makes the metrics and registers them. Every label value that can occur exists from the start, so that a rate sees
    /// the first event.
    ///
    /// # Errors
    /// Where one of them is registered already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let counter = |name: &str, help: &str| registered(registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| registered(registry, IntGauge::new(name, help)?);
        let duration = HistogramOpts::new(
            "helmops_fetch_duration_seconds",
            "Time that a request to a repository or registry takes, its body included.",
        );
        let fetches = Self {
            requests: counters(
                "helmops_fetch_requests_total",
                "Requests to repositories and registries by what was asked for and outcome: Success, NotModified or the \
                 reason.",
                &["kind", "outcome"],
            )?,
            bytes: counters(
                "helmops_fetch_received_bytes_total",
                "Bytes of answers' bodies as they came over the wire.",
                &["kind"],
            )?,
            duration: registered(
                registry,
                HistogramVec::new(duration.buckets(BUCKETS.to_vec()), &["kind"])?,
            )?,
            in_flight: gauge(
                "helmops_fetch_in_flight",
                "Requests to repositories and registries that are under way.",
            )?,
            shared: counter(
                "helmops_shared_answers_total",
                "Look-ups that were served by an answer that another look-up had asked for.",
            )?,
            skipped_entries: counter(
                "helmops_index_skipped_entries_total",
                "Entries of repository indexes that were passed over because they are broken.",
            )?,
            evictions: counter(
                "helmops_cache_evictions_total",
                "Answers of repositories that were dropped to make room for others.",
            )?,
            cache_bytes: gauge(
                "helmops_cache_bytes",
                "Size of the answers of repositories that are kept.",
            )?,
        };
        fetches.start();
        Ok(fetches)
    }

    fn start(&self) {
        for kind in Kind::ALL.map(Kind::as_str) {
            self.bytes.with_label_values(&[kind]);
            self.duration.with_label_values(&[kind]);
            let reasons = FAILURES.into_iter().map(Reason::as_str);
            for outcome in [SUCCESS, NOT_MODIFIED].into_iter().chain(reasons) {
                self.requests.with_label_values(&[kind, outcome]);
            }
        }
    }

    /// Counts a request as being under way until the value is dropped.
    pub fn in_flight(&self) -> Present {
        Present::new(&self.in_flight)
    }

    /// Counts a request that ended.
    pub fn ended(&self, kind: Kind, outcome: &'static str, bytes: u64, took: Duration) {
        let kind = kind.as_str();
        self.requests.with_label_values(&[kind, outcome]).inc();
        self.bytes.with_label_values(&[kind]).inc_by(bytes);
        self.duration
            .with_label_values(&[kind])
            .observe(took.as_secs_f64());
    }
}

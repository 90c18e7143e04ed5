//! Metrics of resolutions, and of the requests to repositories and registries.

use std::time::Duration;

use helmops_model::reason::Reason;
use helmops_process::metrics::registered;
use helmops_runtime::metrics::{self, ERROR, GaugeGuard, SUCCESS, result_counter, result_labels};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

/// Value of the label `result` for a response with status 304.
const NOT_MODIFIED: &str = "not_modified";

/// From 5 ms for a nearby server to the timeout of a request.
const BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];

/// Reasons for which a request can fail.
const FAILURES: [Reason; 13] = [
    Reason::InvalidURL,
    Reason::InvalidSecret,
    Reason::RepositoryError,
    Reason::DNSLookupFailed,
    Reason::ConnectionFailed,
    Reason::Timeout,
    Reason::CertificateError,
    Reason::Unauthorized,
    Reason::Forbidden,
    Reason::RepositoryNotFound,
    Reason::CredentialsNotForHost,
    Reason::RateLimited,
    Reason::ResponseTooLarge,
];

/// What is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// The index of a Helm repository.
    Index,
    /// The tags of a chart in an OCI registry.
    Tags,
    /// The manifest of a version in an OCI registry.
    Manifest,
    /// A token for an OCI registry.
    Token,
    /// The archive of a chart.
    Archive,
    /// The references of a Git repository, or the greeting of its server.
    References,
    /// A pack of objects of a Git repository.
    Pack,
    /// The list of the objects in a bucket.
    Listing,
    /// An object of a bucket.
    Object,
}

impl RequestKind {
    const ALL: [Self; 9] = [
        Self::Index,
        Self::Tags,
        Self::Manifest,
        Self::Token,
        Self::Archive,
        Self::References,
        Self::Pack,
        Self::Listing,
        Self::Object,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Tags => "tags",
            Self::Manifest => "manifest",
            Self::Token => "token",
            Self::Archive => "archive",
            Self::References => "references",
            Self::Pack => "pack",
            Self::Listing => "listing",
            Self::Object => "object",
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// A usable response.
    Success,
    /// Status 304: not modified.
    NotModified,
    /// No usable response.
    Failed(Reason),
}

impl RequestOutcome {
    /// Values of the labels `result` and `reason`.
    const fn labels(self) -> [&'static str; 2] {
        match self {
            Self::Success => [SUCCESS, ""],
            Self::NotModified => [NOT_MODIFIED, ""],
            Self::Failed(reason) => [ERROR, reason.as_str()],
        }
    }
}

/// Requests to repositories and registries, and their outcomes.
#[derive(Clone, Debug)]
pub struct FetchMetrics {
    requests: IntCounterVec,
    bytes: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGauge,
    /// Resolutions that shared the response to a request of another resolution.
    pub coalesced: IntCounter,
    /// Invalid entries of indexes that were skipped.
    pub skipped_entries: IntCounter,
    /// Cached responses that were evicted to make room.
    pub evictions: IntCounter,
    /// Size of the cached responses.
    pub cache_bytes: IntGauge,
}

impl FetchMetrics {
    /// Creates and registers the metrics. Every possible label value exists from the start, so that a rate counts the first
    /// event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let counter = |name: &str, help: &str| registered(registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| registered(registry, IntGauge::new(name, help)?);
        let duration = HistogramOpts::new(
            "helmops_fetch_duration_seconds",
            "Duration of a request to a repository or registry, with its body.",
        );
        let fetches = Self {
            requests: counters(
                "helmops_fetch_requests_total",
                "Requests to repositories and registries by kind, result (success, not_modified, error) and reason.",
                &["kind", "result", "reason"],
            )?,
            bytes: counters(
                "helmops_fetch_received_bytes_total",
                "Bytes of response bodies as received, before decompression.",
                &["kind"],
            )?,
            duration: registered(
                registry,
                HistogramVec::new(duration.buckets(BUCKETS.to_vec()), &["kind"])?,
            )?,
            in_flight: gauge(
                "helmops_fetch_in_flight",
                "Requests to repositories and registries in progress.",
            )?,
            coalesced: counter(
                "helmops_fetch_coalesced_total",
                "Resolutions that shared the response to a request of another resolution.",
            )?,
            skipped_entries: counter(
                "helmops_index_skipped_entries_total",
                "Invalid entries of repository indexes that were skipped.",
            )?,
            evictions: counter(
                "helmops_cache_evictions_total",
                "Cached responses that were evicted to make room for others.",
            )?,
            cache_bytes: gauge(
                "helmops_cache_bytes",
                "Size of the cached responses of repositories and registries.",
            )?,
        };
        fetches.init_labels();
        Ok(fetches)
    }

    fn init_labels(&self) {
        for kind in RequestKind::ALL.map(RequestKind::as_str) {
            self.bytes.with_label_values(&[kind]);
            self.duration.with_label_values(&[kind]);
            let results = [RequestOutcome::Success, RequestOutcome::NotModified].into_iter();
            for outcome in results.chain(FAILURES.map(RequestOutcome::Failed)) {
                let [result, reason] = outcome.labels();
                self.requests.with_label_values(&[kind, result, reason]);
            }
        }
    }

    /// Counts a request as in flight until the value is dropped.
    pub fn in_flight(&self) -> GaugeGuard {
        GaugeGuard::new(&self.in_flight)
    }

    /// Records a completed request.
    pub fn record(&self, kind: RequestKind, outcome: RequestOutcome, bytes: u64, took: Duration) {
        debug_assert!(
            !matches!(outcome, RequestOutcome::Failed(reason) if !FAILURES.contains(&reason)),
            "{outcome:?} is not among the failures of requests"
        );
        let (kind, [result, reason]) = (kind.as_str(), outcome.labels());
        self.requests.with_label_values(&[kind, result, reason]).inc();
        self.bytes.with_label_values(&[kind]).inc_by(bytes);
        self.duration
            .with_label_values(&[kind])
            .observe(took.as_secs_f64());
    }
}

/// Resolutions of chart versions.
#[derive(Clone, Debug)]
pub struct ResolutionMetrics {
    resolutions: IntCounterVec,
    duration: Histogram,
}

/// The reasons of errors of resolutions. `APIError` is one of them because a resolution reads a Secret.
pub fn resolution_failures() -> Vec<Reason> {
    let all = [Reason::InvalidURL, Reason::InvalidVersion, Reason::APIError];
    all.iter().chain(Reason::RESOLUTION).copied().collect()
}

impl ResolutionMetrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let duration = HistogramOpts::new(
            "helmops_chart_resolution_duration_seconds",
            "Time to resolve a chart version.",
        );
        let duration = Histogram::with_opts(duration.buckets(metrics::BUCKETS.to_vec()))?;
        Ok(Self {
            resolutions: result_counter(
                registry,
                "helmops_chart_resolutions_total",
                "Resolutions of chart versions by result (success, error) and reason.",
                &resolution_failures(),
            )?,
            duration: registered(registry, duration)?,
        })
    }

    /// Counts a resolution.
    pub fn resolved(&self, failure: Option<Reason>, took: Duration) {
        self.resolutions.with_label_values(&result_labels(failure)).inc();
        self.duration.observe(took.as_secs_f64());
    }
}

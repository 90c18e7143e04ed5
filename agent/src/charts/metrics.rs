//! Metrics of charts.

use helmops_fetch::resolution_failures;
use helmops_model::reason::Reason;
use helmops_process::metrics::registered;
use helmops_runtime::{
    error_class::ClassifiedError,
    metrics::{result_counter, result_labels},
};
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

use super::error::ChartError;

/// The archive was in the cache.
const HIT: &str = "hit";
/// It was not, or there is no cache.
const MISS: &str = "miss";

#[derive(Clone, Debug)]
pub struct ChartMetrics {
    cache_requests: IntCounterVec,
    downloads: IntCounterVec,
    cache_bytes: IntGauge,
}

/// Why there is no archive of a chart.
pub fn chart_failures() -> Vec<Reason> {
    let mut failures = resolution_failures();
    failures.extend(Reason::DOWNLOAD);
    failures.push(Reason::ChartRequired);
    failures
}

impl ChartMetrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = Opts::new(
            "helmops_agent_chart_cache_requests_total",
            "Charts that were needed, by whether their archive was in the cache (hit, miss).",
        );
        let cache_requests = registered(registry, IntCounterVec::new(requests, &["result"])?)?;
        for result in [HIT, MISS] {
            cache_requests.with_label_values(&[result]);
        }
        Ok(Self {
            cache_requests,
            downloads: result_counter(
                registry,
                "helmops_agent_chart_downloads_total",
                "Downloads of charts by result (success, error) and reason.",
                &chart_failures(),
            )?,
            cache_bytes: registered(
                registry,
                IntGauge::new(
                    "helmops_agent_chart_cache_bytes",
                    "Size of the archives in the cache of charts.",
                )?,
            )?,
        })
    }

    pub(super) fn needed(&self, is_cached: bool) {
        let result = if is_cached { HIT } else { MISS };
        self.cache_requests.with_label_values(&[result]).inc();
    }

    pub(super) fn downloaded(&self, failure: Option<&ChartError>) {
        let reason = failure.map(|error| error.classify().reason);
        self.downloads.with_label_values(&result_labels(reason)).inc();
    }

    pub(super) fn cache_size(&self, bytes: u64) {
        self.cache_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

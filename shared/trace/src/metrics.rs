//! Counters of spans.

use helmops_process::metrics::registered;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// Counters of spans, by what became of them.
#[derive(Clone, Debug)]
pub struct TraceMetrics {
    /// Spans that the collector has accepted.
    pub exported: IntCounter,
    /// Spans that no place in the queue was left for.
    pub dropped: IntCounter,
    /// Spans that the collector did not accept.
    pub failed: IntCounter,
}

impl TraceMetrics {
    /// Registers the counters.
    ///
    /// # Errors
    /// If they are registered already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let opts = Opts::new(
            "helmops_trace_spans_total",
            "Spans of traces, by result: exported, dropped because the queue was full, failed because the collector did not accept them.",
        );
        let counters = registered(registry, IntCounterVec::new(opts, &["result"])?)?;
        let counter = |result| counters.get_metric_with_label_values(&[result]);
        Ok(Self {
            exported: counter("exported")?,
            dropped: counter("dropped")?,
            failed: counter("failed")?,
        })
    }
}

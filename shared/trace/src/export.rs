//! Sends spans to the collector, in batches.

use std::time::Duration;

use helmops_fair::ExponentialBackoff;
use helmops_process::OnChange;
use reqwest::{Client, StatusCode, header::CONTENT_TYPE};
use serde_json::Value;
use thiserror::Error;
use tokio::{
    sync::mpsc::Receiver,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    metrics::TraceMetrics,
    otlp::{Resource, encode},
    record::SpanRecord,
};

/// Maximum time of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// How long spans are collected for a batch.
const COLLECT: Duration = Duration::from_secs(1);
/// Spans of a batch: about 300 KiB.
const BATCH: usize = 512;
/// Attempts for a batch. Meanwhile the queue fills, and further spans are dropped: traces are no reason to use memory.
const ATTEMPTS: u32 = 5;
/// Delays between attempts.
const BACKOFF: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(8),
};
/// How long the last spans have when the process ends.
const FLUSH: Duration = Duration::from_secs(2);

/// Sends spans to the collector.
pub struct Exporter {
    pub(crate) client: Client,
    pub(crate) url: Url,
    pub(crate) resource: Resource,
    pub(crate) spans: Receiver<SpanRecord>,
    pub(crate) metrics: TraceMetrics,
}

/// Why a batch was not accepted.
#[derive(Debug, Error)]
enum ExportError {
    /// No response.
    #[error("no response: {0}")]
    Request(#[source] reqwest::Error),
    /// An error of the collector.
    #[error("HTTP status {0}")]
    Status(StatusCode),
}

impl ExportError {
    /// Whether another attempt may succeed, as the protocol defines it.
    fn is_transient(&self) -> bool {
        match self {
            Self::Request(_) => true,
            Self::Status(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
        }
    }
}

impl Exporter {
    /// Sends spans until `stop`, and then those that are left.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut failing = OnChange::new(false);
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(()) = stop.run_until_cancelled(self.collect(&mut batch)).await {
            let attempts = self.send_with_retries(&batch);
            match stop.run_until_cancelled(attempts).await {
                Some(result) => {
                    self.report(&mut failing, result, batch.len());
                    batch.clear();
                }
                None => break,
            }
        }
        let flush = async {
            self.spans.close();
            while !batch.is_empty() || self.spans.recv_many(&mut batch, BATCH).await > 0 {
                let result = self.send(&batch).await;
                self.report(&mut failing, result, batch.len());
                batch.clear();
            }
        };
        _ = timeout(FLUSH, flush).await;
    }

    /// Waits for a span, and collects others.
    async fn collect(&mut self, batch: &mut Vec<SpanRecord>) {
        if batch.is_empty() && self.spans.recv_many(batch, BATCH).await == 0 {
            // No tracer is left.
            std::future::pending::<()>().await;
        }
        let more = async {
            while batch.len() < BATCH && self.spans.recv_many(batch, BATCH - batch.len()).await > 0 {}
        };
        _ = timeout(COLLECT, more).await;
    }

    async fn send_with_retries(&self, batch: &[SpanRecord]) -> Result<(), ExportError> {
        let mut failures = 0;
        loop {
            match self.send(batch).await {
                Err(error) if error.is_transient() && failures + 1 < ATTEMPTS => {
                    sleep(BACKOFF.after(failures)).await;
                    failures += 1;
                }
                result => return result,
            }
        }
    }

    async fn send(&self, batch: &[SpanRecord]) -> Result<(), ExportError> {
        let body: Value = encode(&self.resource, batch);
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        // The URL may have a credential in it.
        let response = request
            .send()
            .await
            .map_err(|error| ExportError::Request(error.without_url()))?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(ExportError::Status(response.status()))
        }
    }

    fn report(&self, failing: &mut OnChange<bool>, result: Result<(), ExportError>, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        match result {
            Ok(()) => {
                self.metrics.exported.inc_by(count);
                if failing.record(false) {
                    tracing::info!("the collector accepts spans");
                }
            }
            Err(error) => {
                self.metrics.failed.inc_by(count);
                if failing.record(true) {
                    tracing::warn!(
                        error = helmops_process::exit::with_causes(&error),
                        "the collector of --otlp-endpoint does not accept spans"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

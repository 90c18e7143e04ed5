//! The metrics of a server.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Registry};

use crate::metrics::{counters, registered};

/// Connection metrics of one server. Clones count together.
#[derive(Clone, Debug)]
pub struct ServeMetrics {
    open: IntGauge,
    handshake_failures: IntCounterVec,
    accept_errors: IntCounter,
    evicted: IntCounterVec,
}

/// Why a TLS handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeFailure {
    /// It timed out.
    Timeout,
    /// TLS failed: the certificate is not trusted, there is no common version, or the peer does not use TLS.
    Tls,
    /// The connection broke.
    Io,
}

impl HandshakeFailure {
    const ALL: [Self; 3] = [Self::Timeout, Self::Tls, Self::Io];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::Io => "io",
        }
    }
}

/// Which connection was closed because the server was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evicted {
    /// An old one, in favor of a new one.
    Old,
    /// The new one, because no old one could be closed.
    New,
}

impl Evicted {
    const ALL: [Self; 2] = [Self::Old, Self::New];

    fn label(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }
}

impl ServeMetrics {
    /// Registers `<prefix>_open_connections`, `<prefix>_handshake_failures_total{reason}` (timeout, tls, io),
    /// `<prefix>_accept_errors_total` and `<prefix>_evicted_connections_total{which}` (old, new).
    ///
    /// # Errors
    /// The prefix is already in use in this registry, or is not a metric name.
    pub fn register(registry: &Registry, prefix: &str) -> Result<Self, prometheus::Error> {
        let open = registered(
            registry,
            IntGauge::new(format!("{prefix}_open_connections"), "Open connections.")?,
        )?;
        let handshake_failures = counters(
            registry,
            &format!("{prefix}_handshake_failures_total"),
            "Failed TLS handshakes by reason.",
            &["reason"],
        )?;
        let accept_errors = registered(
            registry,
            IntCounter::new(
                format!("{prefix}_accept_errors_total"),
                "Failures to accept a connection, each followed by a pause.",
            )?,
        )?;
        let evicted = counters(
            registry,
            &format!("{prefix}_evicted_connections_total"),
            "Connections that were closed because the limit was reached, by which one: an idle old one, or the new one.",
            &["which"],
        )?;
        // Present from the start, so that a rate sees the first increment.
        for reason in HandshakeFailure::ALL {
            handshake_failures.with_label_values(&[reason.label()]);
        }
        for which in Evicted::ALL {
            evicted.with_label_values(&[which.label()]);
        }
        Ok(Self {
            open,
            handshake_failures,
            accept_errors,
            evicted,
        })
    }

    /// Counts a connection as open until the guard is dropped, however its task ends.
    pub(super) fn opened(&self) -> OpenGuard {
        self.open.inc();
        OpenGuard(self.open.clone())
    }

    pub(super) fn handshake_failure(&self, reason: HandshakeFailure) {
        self.handshake_counter(reason).inc();
    }

    pub(super) fn accept_error(&self) {
        self.accept_errors.inc();
    }

    pub(super) fn evicted(&self, which: Evicted) {
        self.evicted_counter(which).inc();
    }

    fn evicted_counter(&self, which: Evicted) -> IntCounter {
        self.evicted.with_label_values(&[which.label()])
    }

    fn handshake_counter(&self, reason: HandshakeFailure) -> IntCounter {
        self.handshake_failures.with_label_values(&[reason.label()])
    }
}

/// One open connection.
#[derive(Debug)]
pub(super) struct OpenGuard(IntGauge);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
impl ServeMetrics {
    pub(super) fn open_now(&self) -> i64 {
        self.open.get()
    }

    pub(super) fn handshake_failures(&self, reason: HandshakeFailure) -> u64 {
        self.handshake_counter(reason).get()
    }

    pub(super) fn evictions(&self, which: Evicted) -> u64 {
        self.evicted_counter(which).get()
    }

    pub(super) fn accept_errors(&self) -> u64 {
        self.accept_errors.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_label_values_exist_from_the_start() {
        let registry = Registry::new();
        ServeMetrics::register(&registry, "helmops_webhook").unwrap();
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        for line in [
            "helmops_webhook_open_connections 0",
            "helmops_webhook_handshake_failures_total{reason=\"timeout\"} 0",
            "helmops_webhook_handshake_failures_total{reason=\"tls\"} 0",
            "helmops_webhook_handshake_failures_total{reason=\"io\"} 0",
            "helmops_webhook_evicted_connections_total{which=\"old\"} 0",
            "helmops_webhook_evicted_connections_total{which=\"new\"} 0",
            "helmops_webhook_accept_errors_total 0",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(ServeMetrics::register(&registry, "helmops_webhook").is_err());
    }
}

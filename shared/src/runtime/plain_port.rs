//! A port that serves plain HTTP: that of the metrics, and that of the probes.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use prometheus::Registry;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::serve::{Limits, ServeMetrics, Transport, listen, serve};

/// What a port is for.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    /// The flag that gives its address.
    pub flag: &'static str,
    /// What the names of the port's own metrics begin with.
    pub prefix: &'static str,
    /// What it grants its peers.
    pub limits: Limits,
}

/// Why a port could not be opened.
#[derive(Debug, Error)]
pub enum PortError {
    /// The address cannot be listened on.
    #[error("cannot listen on {flag} {address}; is the port taken, or the address not this host's?")]
    Bind {
        /// The flag that gives the address.
        flag: &'static str,
        /// The address as given.
        address: SocketAddr,
        /// What the operating system says.
        #[source]
        source: io::Error,
    },
    /// The port's own metrics are already in the registry.
    #[error("cannot register the metrics {prefix}_*")]
    Metrics {
        /// What their names begin with.
        prefix: &'static str,
        /// What the registry says.
        #[source]
        source: prometheus::Error,
    },
}

/// A port, bound and not yet serving.
#[derive(Debug)]
pub struct PlainPort {
    listener: TcpListener,
    limits: Limits,
    metrics: ServeMetrics,
}

impl PlainPort {
    /// Binds the port and registers its connection metrics.
    ///
    /// # Errors
    /// The address cannot be bound, or a second port for the same purpose uses the same registry.
    pub async fn bind(address: SocketAddr, registry: &Registry, purpose: Purpose) -> Result<Self, PortError> {
        let Purpose { flag, prefix, limits } = purpose;
        let metrics = ServeMetrics::register(registry, prefix)
            .map_err(|source| PortError::Metrics { prefix, source })?;
        let listener = listen(address).await.map_err(|source| PortError::Bind {
            flag,
            address,
            source,
        })?;
        Ok(Self {
            listener,
            limits,
            metrics,
        })
    }

    /// Serves `app` until `stop`.
    pub async fn run(self, app: Router, stop: CancellationToken) {
        serve(
            self.listener,
            Transport::Plain,
            app,
            self.limits,
            self.metrics,
            stop,
        )
        .await;
    }
}

/// For tests: a port that the operating system chooses, and its address.
#[cfg(test)]
impl PlainPort {
    pub(super) async fn local(purpose: Purpose) -> (Self, SocketAddr) {
        let registry = super::metrics::registry().unwrap();
        Self::local_with(&registry, purpose).await
    }

    pub(super) async fn local_with(registry: &Registry, purpose: Purpose) -> (Self, SocketAddr) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let port = Self::bind(any, registry, purpose).await.unwrap();
        let address = port.listener.local_addr().unwrap();
        (port, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{admin, metrics::registry, probes};

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_the_flag_and_the_address() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        for (purpose, flag) in [
            (admin::PORT, "--metrics-bind-address"),
            (probes::PORT, "--health-probe-bind-address"),
        ] {
            let bound = PlainPort::bind(address, &registry().unwrap(), purpose).await;
            let text = bound.unwrap_err().to_string();
            assert!(
                text.contains(flag) && text.contains(&address.to_string()),
                "{text}"
            );
        }
    }
}

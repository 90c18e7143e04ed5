//! A port that serves plain HTTP: for the metrics, or for the probes.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use prometheus::Registry;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::serve::{Limits, ServeMetrics, Transport, listen, serve};

/// The configuration of a port.
#[derive(Clone, Copy, Debug)]
pub struct PortConfig {
    /// The flag that sets its address.
    pub flag: &'static str,
    /// The prefix of the names of the port's own metrics.
    pub prefix: &'static str,
    /// The limits for its clients.
    pub limits: Limits,
}

/// Why a port could not be opened.
#[derive(Debug, Error)]
pub enum PortError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {flag} {address}; is the port in use, or does the address not belong to this host?"
    )]
    Bind {
        /// The flag that sets the address.
        flag: &'static str,
        /// The value of the flag.
        address: SocketAddr,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The port's own metrics are already in the registry.
    #[error("cannot register the metrics {prefix}_*")]
    Metrics {
        /// The prefix of their names.
        prefix: &'static str,
        /// The error of the registry.
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
    /// The address cannot be bound, or the registry already has a port with the same prefix.
    pub async fn bind(
        address: SocketAddr,
        registry: &Registry,
        config: PortConfig,
    ) -> Result<Self, PortError> {
        let PortConfig { flag, prefix, limits } = config;
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
    pub(super) async fn local(config: PortConfig) -> (Self, SocketAddr) {
        let registry = super::metrics::registry().unwrap();
        Self::local_with(&registry, config).await
    }

    pub(super) async fn local_with(registry: &Registry, config: PortConfig) -> (Self, SocketAddr) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let port = Self::bind(any, registry, config).await.unwrap();
        let address = port.listener.local_addr().unwrap();
        (port, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{admin, metrics::registry, probes};

    #[tokio::test]
    async fn a_port_in_use_is_an_error_that_names_the_flag_and_the_address() {
        let in_use = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = in_use.local_addr().unwrap();
        for (config, flag) in [
            (admin::PORT, "--metrics-bind-address"),
            (probes::PORT, "--health-probe-bind-address"),
        ] {
            let bound = PlainPort::bind(address, &registry().unwrap(), config).await;
            let text = bound.unwrap_err().to_string();
            assert!(
                text.contains(flag) && text.contains(&address.to_string()),
                "{text}"
            );
        }
    }
}

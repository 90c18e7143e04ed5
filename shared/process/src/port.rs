//! The ports of a process. All have one for the metrics, and one for the probes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use prometheus::Registry;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::serve::{Limits, ServeMetrics, Transport, listen, serve};
use super::{Health, MetricsWriter, ProcessArgs, Supervisor, admin, probes};

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

impl PortConfig {
    /// The same port, whose connections have this time to end after `stop`.
    #[must_use]
    pub const fn with_drain(mut self, drain: Duration) -> Self {
        self.limits.drain = drain;
        self
    }
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
pub struct Port {
    listener: TcpListener,
    /// Its address, also if the operating system has chosen the port.
    pub address: SocketAddr,
    limits: Limits,
    metrics: ServeMetrics,
}

impl Port {
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
        let failed = |source| PortError::Bind {
            flag,
            address,
            source,
        };
        let listener = listen(address).await.map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
            limits,
            metrics,
        })
    }

    /// Serves `app` until `stop`.
    pub async fn serve(self, transport: Transport, app: Router, stop: CancellationToken) {
        serve(self.listener, transport, app, self.limits, self.metrics, stop).await;
    }
}

/// Serves the metrics of the registry and `more`, and the probes, until the process stops.
///
/// # Errors
/// If the address of a flag cannot be bound.
pub async fn serve_metrics_and_probes(
    args: &ProcessArgs,
    registry: &Registry,
    more: Vec<Arc<MetricsWriter>>,
    health: &Health,
    supervisor: &mut Supervisor,
) -> Result<(), PortError> {
    let port = Port::bind(args.metrics_bind_address, registry, admin::PORT).await?;
    let app = admin::router(registry.clone(), more, health.clone());
    supervisor.spawn(
        "admin server",
        port.serve(Transport::Plain, app, supervisor.stop_token()),
    );
    let port = Port::bind(args.health_probe_bind_address, registry, probes::PORT).await?;
    let app = probes::router(health.clone());
    supervisor.spawn(
        "probe server",
        port.serve(Transport::Plain, app, supervisor.stop_token()),
    );
    Ok(())
}

/// For tests: a port that the operating system chooses.
#[cfg(test)]
impl Port {
    pub(super) async fn local(config: PortConfig) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::bind(any, &Registry::new(), config).await.unwrap()
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
            let bound = Port::bind(address, &registry().unwrap(), config).await;
            let text = bound.unwrap_err().to_string();
            assert!(
                text.contains(flag) && text.contains(&address.to_string()),
                "{text}"
            );
        }
    }
}

//! What every process has before its own work begins.

use std::io;

use prometheus::Registry;
use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;

use crate::{Health, OsSignals, ProcessArgs, Supervisor, TelemetryError, metrics, telemetry};

/// What every process has before its own work begins. It has no port yet: a process registers its metrics first, so that no
/// scrape misses them.
#[derive(Debug)]
pub struct Prepared {
    /// The signals that stop it. Those that arrive before they are awaited are not lost.
    pub signals: OsSignals,
    /// The metrics.
    pub registry: Registry,
    /// The result of its probes.
    pub health: Health,
    /// Starts and stops its tasks.
    pub supervisor: Supervisor,
}

/// Why a process cannot start.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// Logging cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Signals cannot be received.
    #[error("cannot install the handlers for SIGTERM and SIGINT")]
    Signals(#[source] io::Error),
    /// Metrics conflict with each other.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
}

/// Sets up logging, the implementation of TLS, signals, metrics, health and the supervisor, as the flags configure them.
///
/// # Errors
/// If a flag is invalid, or the operating system refuses the handlers of signals.
pub fn prepare(args: &ProcessArgs) -> Result<Prepared, PrepareError> {
    telemetry::install(args)?;
    // Without a default provider the first HTTPS connection would panic.
    let _ = ring::default_provider().install_default();
    let signals = OsSignals::install().map_err(PrepareError::Signals)?;
    let registry = metrics::registry()?;
    let health = Health::default();
    let supervisor = Supervisor::new(health.clone(), args.shutdown());
    Ok(Prepared {
        signals,
        registry,
        health,
        supervisor,
    })
}

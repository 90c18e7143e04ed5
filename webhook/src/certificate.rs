//! The source of the serving certificate, as a task of the process.

use std::sync::Arc;

use anyhow::Context;
use helmops_certs::{
    managed::{CertificateManager, ManagedMetrics},
    reload::{self, ReloadEvent},
    resolver::CertResolver,
};
use helmops_process::{Gate, Health, Supervisor};
use kube::Client;
use prometheus::Registry;

use crate::{args::CertificateSource, metrics::Metrics};

/// Starts the task that loads certificates into `resolver`. The process is ready when a certificate is loaded and, if the
/// webhook injects `caBundle` itself, when the API server trusts it.
///
/// # Errors
/// If there is no client for the API server, or if metrics are registered twice.
pub fn spawn(
    source: CertificateSource,
    client: Option<Client>,
    resolver: Arc<CertResolver>,
    (metrics, registry): (&Metrics, &Registry),
    health: &Health,
    supervisor: &mut Supervisor,
) -> anyhow::Result<()> {
    let on_event = on_event(health.gate("certificate"), metrics.clone());
    match source {
        CertificateSource::Files(paths) => {
            let task = reload::watch(
                paths,
                resolver,
                reload::DEFAULT_INTERVAL,
                supervisor.stop_token(),
                on_event,
            );
            supervisor.spawn("certificate reload", task);
        }
        CertificateSource::Managed(settings) => {
            let client = client.context("there is no client for the API server")?;
            let manager = CertificateManager::new(
                client,
                &settings,
                resolver,
                ManagedMetrics::register(registry)?,
                health,
            );
            supervisor.spawn(
                "certificate manager",
                manager.run(supervisor.stop_token(), on_event),
            );
        }
    }
    Ok(())
}

/// Reports the first certificate as ready. If a later one cannot be loaded, the last valid one stays in use.
fn on_event(gate: Gate, metrics: Metrics) -> impl FnMut(ReloadEvent<'_>) + Send {
    move |event| match event {
        ReloadEvent::Loaded(pair) => {
            metrics.certificate_loaded(pair.not_after());
            gate.open();
        }
        ReloadEvent::Refused(_) => metrics.certificate_failed(),
        ReloadEvent::Unchanged => {}
    }
}

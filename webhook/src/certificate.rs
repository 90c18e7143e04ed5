//! Who keeps the serving certificate, as a task of the process.

use std::sync::Arc;

use anyhow::Context;
use helmops_certs::{
    hot::CertResolver,
    managed::{CertificateManager, ManagedMetrics},
    reload::{self, ReloadEvent},
};
use helmops_shared::runtime::{Gate, Health, Supervisor};
use kube::Client;
use prometheus::Registry;

use crate::{args::Certificate, metrics::Metrics};

/// Starts whoever puts certificates into `hot`. The process is ready when there is one and, where the webhook injects
/// `caBundle` itself, when callers trust it.
///
/// # Errors
/// Where there is no way to the API server, or metrics clash.
pub fn keep(
    source: Certificate,
    client: Option<Client>,
    hot: Arc<CertResolver>,
    (metrics, registry): (&Metrics, &Registry),
    health: &Health,
    supervisor: &mut Supervisor,
) -> anyhow::Result<()> {
    let follow = follow(health.gate("certificate"), metrics.clone());
    match source {
        Certificate::Files(paths) => {
            let task = reload::watch(paths, hot, reload::DEFAULT_INTERVAL, supervisor.stop(), follow);
            supervisor.spawn("certificate reload", task);
        }
        Certificate::Managed(settings) => {
            let client = client.context("no way to the API server")?;
            let keeper = CertificateManager::new(
                client,
                &settings,
                hot,
                ManagedMetrics::register(registry)?,
                health,
            );
            supervisor.spawn("certificate keeper", keeper.run(supervisor.stop(), follow));
        }
    }
    Ok(())
}

/// Ready from the first certificate on; a later one that cannot be used leaves the last good one in place.
fn follow(gate: Gate, metrics: Metrics) -> impl FnMut(ReloadEvent<'_>) + Send {
    move |event| match event {
        ReloadEvent::Loaded(pair) => {
            metrics.certificate_loaded(pair.not_after());
            gate.open();
        }
        ReloadEvent::Refused(_) => metrics.certificate_failed(),
        ReloadEvent::Unchanged => {}
    }
}

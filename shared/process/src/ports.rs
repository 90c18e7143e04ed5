//! The two ports that every process has: one for the metrics, one for the probes.

use std::sync::Arc;

use prometheus::Registry;

use crate::{
    Health, MetricsWriter, ProcessArgs, Supervisor, admin,
    plain_port::{PlainPort, PortError},
    probes,
};

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
    let port = PlainPort::bind(args.metrics_bind_address, registry, admin::PORT).await?;
    let app = admin::router(registry.clone(), more, health.clone());
    supervisor.spawn("admin server", port.run(app, supervisor.stop_token()));
    let port = PlainPort::bind(args.health_probe_bind_address, registry, probes::PORT).await?;
    let app = probes::router(health.clone());
    supervisor.spawn("probe server", port.run(app, supervisor.stop_token()));
    Ok(())
}

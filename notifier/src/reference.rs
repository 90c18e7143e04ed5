//! The reference page of the notifier.

use clap::CommandFactory;
use helmops_kube::lease::LeaseMetrics;
use helmops_process::{ServeMetrics, admin, metrics::registry, probes, reference::page};
use prometheus::Registry;

use crate::{Args, metrics::Metrics};

/// Flags and metrics of the notifier in Markdown.
///
/// # Errors
/// If two metrics have the same name.
pub fn reference() -> anyhow::Result<String> {
    let registry = registry()?;
    register(&registry)?;
    Ok(page(&Args::command(), &registry, "")?)
}

fn register(registry: &Registry) -> anyhow::Result<()> {
    Metrics::register(registry)?;
    LeaseMetrics::register(registry)?;
    for port in [admin::PORT, probes::PORT] {
        ServeMetrics::register(registry, port.prefix)?;
    }
    Ok(())
}

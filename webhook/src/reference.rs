//! The reference page of the webhook.

use clap::CommandFactory;
use helmops_certs::managed::ManagedMetrics;
use helmops_process::{ServeMetrics, admin, metrics::registry, probes, reference::page};

use helmops_trace::TraceMetrics;

use crate::{Args, metrics::Metrics};

/// Flags and metrics of the webhook in Markdown.
///
/// # Errors
/// If two metrics have the same name.
pub fn reference() -> anyhow::Result<String> {
    let registry = registry()?;
    Metrics::register(&registry)?;
    ManagedMetrics::register(&registry)?;
    TraceMetrics::register(&registry)?;
    for prefix in ["helmops_webhook", admin::PORT.prefix, probes::PORT.prefix] {
        ServeMetrics::register(&registry, prefix)?;
    }
    Ok(page(&Args::command(), &registry, "")?)
}

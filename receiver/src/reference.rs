//! The reference page of the receiver.

use clap::CommandFactory;
use helmops_process::{ServeMetrics, admin, metrics::registry, probes, reference::page};

use crate::{Args, metrics::Metrics, run::PREFIX};

/// Flags and metrics of the receiver in Markdown.
///
/// # Errors
/// If two metrics have the same name.
pub fn reference() -> anyhow::Result<String> {
    let registry = registry()?;
    Metrics::register(&registry)?;
    for prefix in [PREFIX, admin::PORT.prefix, probes::PORT.prefix] {
        ServeMetrics::register(&registry, prefix)?;
    }
    Ok(page(&Args::command(), &registry, "")?)
}

//! The reference page of the webhook.

use clap::CommandFactory;
use helmops_certs::managed::ManagedMetrics;
use helmops_process::{ServeMetrics, reference::page};
use helmops_trace::TraceMetrics;

use crate::{Args, metrics::Metrics, run::PORT};

/// Flags and metrics of the webhook in Markdown.
///
/// # Errors
/// If two metrics have the same name.
pub fn reference() -> prometheus::Result<String> {
    let register = |registry: &_| {
        Metrics::register(registry)?;
        ManagedMetrics::register(registry)?;
        TraceMetrics::register(registry)?;
        ServeMetrics::register(registry, PORT.prefix)?;
        Ok(())
    };
    page(&Args::command(), register, "")
}

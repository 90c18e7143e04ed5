//! The reference page of the receiver.

use clap::CommandFactory;
use helmops_process::{ServeMetrics, reference::page};

use crate::{Args, limits::PORT, metrics::Metrics};

/// Flags and metrics of the receiver in Markdown.
///
/// # Errors
/// If two metrics have the same name.
pub fn reference() -> prometheus::Result<String> {
    let register = |registry: &_| {
        Metrics::register(registry)?;
        ServeMetrics::register(registry, PORT.prefix)?;
        Ok(())
    };
    page(&Args::command(), register, "")
}

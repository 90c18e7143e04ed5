//! The reference page of the notifier.

use clap::CommandFactory;
use helmops_kube::lease::LeaseMetrics;
use helmops_process::reference::page;

use crate::{Args, metrics::Metrics};

/// Flags and metrics of the notifier in Markdown.
///
/// # Errors
/// If two metrics have the same name.
pub fn reference() -> prometheus::Result<String> {
    let register = |registry: &_| {
        Metrics::register(registry)?;
        LeaseMetrics::register(registry)?;
        Ok(())
    };
    page(&Args::command(), register, "")
}

//! The reference page of the agent.

use std::fmt::Write as _;

use clap::CommandFactory;
use helmops_fetch::FetchMetrics;
use helmops_helm::FailureReason;
use helmops_kube::lease::LeaseMetrics;
use helmops_process::reference::page;
use helmops_trace::TraceMetrics;

use crate::{
    args::Args,
    charts::ChartMetrics,
    helm::HelmMetrics,
    metrics::{DriftMetrics, Metrics},
    upstream::RemovalMetrics,
};

/// Flags and metrics of the agent in Markdown.
///
/// # Errors
/// If two metrics have the same name.
pub fn reference() -> prometheus::Result<String> {
    let register = |registry: &_| {
        Metrics::register(registry)?;
        HelmMetrics::register(registry)?;
        ChartMetrics::register(registry)?;
        DriftMetrics::register(registry)?;
        RemovalMetrics::register(registry)?;
        FetchMetrics::register(registry)?;
        LeaseMetrics::register(registry)?;
        TraceMetrics::register(registry)?;
        Ok(())
    };
    let mut page = page(&Args::command(), register, "")?;
    page.push_str("\n## Reasons for which Helm fails\n\nValues of the label `reason` of `helmops_agent_helm_failures_total`.\n\n");
    page.push_str("| Reason | Meaning | What to do |\n|---|---|---|\n");
    for reason in FailureReason::ALL {
        let (name, fix) = (reason.as_str(), reason.fix().unwrap_or_default());
        // Writing into a String does not fail.
        let _ = writeln!(page, "| `{name}` | {} | {fix} |", reason.meaning());
    }
    Ok(page)
}

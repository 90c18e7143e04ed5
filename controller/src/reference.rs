//! The reference page of the controller.

use std::sync::Arc;

use clap::CommandFactory;
use helmops_api::{Condition, Decoded, HelmOp};
use helmops_fetch::FetchMetrics;
use helmops_kube::lease::LeaseMetrics;
use helmops_model::condition::ConditionType;
use helmops_process::reference::page;
use helmops_trace::TraceMetrics;

use crate::{Args, content, fleet_metrics, metrics::Metrics, notice_metrics, watch::Contents};

/// Flags and metrics of the controller in Markdown.
///
/// # Errors
/// If two metrics have the same name.
pub fn reference() -> prometheus::Result<String> {
    let register = |registry: &_| {
        Metrics::register(registry)?;
        FetchMetrics::register(registry)?;
        LeaseMetrics::register(registry)?;
        TraceMetrics::register(registry)?;
        Ok(())
    };
    page(&Args::command(), register, &metrics_of_helmops())
}

/// The metrics of an example HelmOp: without any HelmOp there are none.
fn metrics_of_helmops() -> String {
    let mut helmop = HelmOp::default();
    helmop.metadata.name = Some("web".to_owned());
    let status = helmop.status.get_or_insert_default();
    status.base.conditions.push(Condition {
        r#type: ConditionType::NewVersionOutsideRange.as_str().to_owned(),
        status: "True".to_owned(),
        ..Condition::default()
    });
    let store = [Decoded::Valid(Arc::new(helmop))].into_iter().collect();
    let mut text = String::new();
    fleet_metrics::expose(&store, &mut text);
    notice_metrics::expose(&store, &mut text);
    content::expose(&Contents::default(), &mut text);
    text
}

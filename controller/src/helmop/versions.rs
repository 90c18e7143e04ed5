//! The versions of all charts of a HelmOp: the recorded ones, and newer ones when a poll is due.

use std::time::{Duration, Instant};

use helm_index::Outlook;
use helmops_core::{
    admit::ValidHelmOp,
    bundle::{PolledChart, RequestedCharts},
};
use helmops_fetch::{ResolveContext, ResolveError};
use helmops_runtime::workers::{Namespace, WorkerPermit};
use k8s_openapi::jiff::Timestamp;

use super::error::ReconcileError;
use crate::{context::Context, watch::CaBundle, work::HelmOpKey};

/// Maximum time between two resolutions of a HelmOp that changes all the time. If the minimum polling interval is longer than this,
/// users still see the result of a change soon.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// The versions of all charts of a HelmOp.
#[derive(Debug)]
pub struct Versions<'v, 'a> {
    /// The charts, each with its version.
    pub charts: RequestedCharts<'v, 'a>,
    /// Whether the worker was released meanwhile, so that the HelmOp and its Policies may have changed.
    pub waited: bool,
    /// The poll for newer versions.
    pub poll: PollOutcome,
}

/// The poll for newer versions in a reconciliation.
#[derive(Debug)]
pub enum PollOutcome {
    /// No poll was due.
    NotPolled,
    /// The repositories of all floating requests responded; there may be none.
    Succeeded,
    /// It failed, and the recorded version is kept.
    Failed(ResolveError),
}

/// The input of a resolution.
#[derive(Debug)]
pub struct ResolveInput<'r, 'v, 'a> {
    pub key: &'r HelmOpKey,
    pub valid: &'v ValidHelmOp<'a>,
    /// Its charts, with the recorded versions.
    pub charts: RequestedCharts<'v, 'a>,
    /// If a poll is due, the time since which a response must have been fetched.
    pub since: Option<Timestamp>,
    /// The CA certificates that are trusted unless a Secret has its own.
    pub rancher_ca: &'r CaBundle,
}

/// Resolves the charts without a recorded version, and polls for newer versions of the others if it is due. The worker is released
/// meanwhile.
///
/// After a burst, repositories are requested only as often as `--min-polling-interval` allows: each change of the HelmOp or of its
/// Secret triggers a resolution, whether the last one failed or not.
///
/// # Errors
/// If a chart has no recorded version and none can be resolved, or if the rate limit is exceeded.
pub async fn versions<'v, 'a>(
    context: &Context,
    permit: &mut WorkerPermit,
    input: ResolveInput<'_, 'v, 'a>,
) -> Result<Versions<'v, 'a>, ReconcileError> {
    let charts = input.charts;
    if charts.have_versions() && input.since.is_none() {
        return Ok(Versions {
            charts,
            waited: false,
            poll: PollOutcome::NotPolled,
        });
    }
    let interval = context.min_polling_interval.min(MAX_INTERVAL);
    let request = context.retries.helmops.request(input.key.clone(), interval);
    request.map_err(ReconcileError::TooSoon)?;
    // If a chart is resolved anyway and polling is enabled, the others are polled too: mostly that costs no request.
    let is_poll = input.since.is_some() || input.valid.polling.is_some();
    let authorities = input.rancher_ca.ca_certificates();
    let resolve_context = ResolveContext {
        client: &context.client,
        metrics: &context.metrics.resolutions,
        ca_certificates: &authorities,
        interest: &|index, namespace| context.interest.charts(index, namespace),
        since: input.since.map_or_else(Instant::now, instant),
    };
    let namespace = Namespace::clone(permit.namespace());
    let resolution = async {
        let _resolve_permit = context.resolver.acquire_permit(&namespace).await;
        // Boxed, so that the futures that wait for a permit, or have a response and wait for a worker, are small.
        Box::pin(resolve(context, resolve_context, input.valid, charts, is_poll)).await
    };
    let resolved = permit
        .release_while(resolution)
        .await
        .map_err(ReconcileError::Interrupted)?;
    resolved.map_err(|error| ReconcileError::Resolve(Box::new(error)))
}

/// Sets the missing and the newer versions.
async fn resolve<'v, 'a>(
    context: &Context,
    resolve_context: ResolveContext<'_>,
    valid: &'v ValidHelmOp<'a>,
    mut charts: RequestedCharts<'v, 'a>,
    is_poll: bool,
) -> Result<Versions<'v, 'a>, ResolveError> {
    let mut failure = None;
    let mut resolver = context
        .resolver
        .chart_resolver(resolve_context, valid.helmop, &valid.chart);
    for chart in charts.as_mut_slice() {
        let has_version = chart.version.is_some();
        if has_version && !(is_poll && chart.request.is_polled()) {
            continue;
        }
        let version = if is_poll && chart.request.is_polled() {
            let before = chart.version.as_ref().map(|version| version.version.clone());
            let before = before.unwrap_or_default();
            let polled = resolver.poll(chart.request, &before).await;
            // Where no list is needed, there is nothing to be found.
            let is_known = polled.version.is_ok();
            let outlook = polled.outlook.or_else(|| is_known.then(Outlook::default));
            chart.polled = Some(PolledChart { before, outlook });
            polled.version
        } else {
            resolver.resolve(chart.request).await
        };
        match version {
            Ok(version) => chart.resolved(version),
            Err(error) if has_version => {
                failure.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let poll = match failure {
        _ if !is_poll => PollOutcome::NotPolled,
        None => PollOutcome::Succeeded,
        Some(error) => PollOutcome::Failed(error),
    };
    Ok(Versions {
        charts,
        waited: true,
        poll,
    })
}

/// Converts a time to the clock of the response cache.
fn instant(time: Timestamp) -> Instant {
    let elapsed = Timestamp::now().duration_since(time);
    let elapsed = Duration::try_from(elapsed).unwrap_or_default();
    let now = Instant::now();
    now.checked_sub(elapsed).unwrap_or(now)
}

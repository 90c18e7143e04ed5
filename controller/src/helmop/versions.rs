//! The versions of all charts of a HelmOp: the recorded ones, and newer ones when a poll is due.

use std::time::{Duration, Instant};

use helm_index::{Outlook, VersionRequest};
use helmops_core::{
    admit::ValidHelmOp,
    bundle::{PolledChart, RequestedChart, RequestedCharts},
    poll::Ages,
};
use helmops_fetch::{ChartResolver, DeployedChart, ResolveContext, ResolveError};
use helmops_model::chart::{request::ChartRequest, resolved::ChartVersion};
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
    /// Since when newer versions are known.
    pub ages: Ages,
}

/// The poll for newer versions in a reconciliation.
#[derive(Debug)]
pub enum PollOutcome {
    /// No poll was due.
    NotPolled,
    /// The repositories of all floating requests responded; there may be none.
    Succeeded,
    /// It failed, or what it has found cannot be delivered, and the recorded version is kept.
    Failed(ReconcileError),
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
    let since = match input.since {
        None if Box::pin(have_changed(context, input.valid, &charts)).await? => Some(Timestamp::now()),
        since => since,
    };
    let ages = Ages::of(input.valid, Timestamp::now());
    if charts.have_versions() && since.is_none() {
        return Ok(Versions {
            charts,
            waited: false,
            poll: PollOutcome::NotPolled,
            ages,
        });
    }
    let interval = min_interval(context);
    let request = context.retries.helmops.request(input.key.clone(), interval);
    request.map_err(ReconcileError::TooSoon)?;
    // If a chart is resolved anyway and polling is enabled, the others are polled too: mostly that costs no request.
    let is_poll = since.is_some() || input.valid.polling.is_some();
    let authorities = input.rancher_ca.ca_certificates();
    let resolve_context = ResolveContext {
        client: &context.client,
        metrics: &context.metrics.resolutions,
        ca_certificates: &authorities,
        interest: &|index, namespace| context.interest.charts(index, namespace),
        since: since.map_or_else(Instant::now, instant),
    };
    let namespace = Namespace::clone(permit.namespace());
    let resolution = async {
        let _resolve_permit = context.resolver.acquire_permit(&namespace).await;
        // Boxed, so that the futures that wait for a permit, or have a response and wait for a worker, are small.
        Box::pin(resolve(
            context,
            resolve_context,
            input.valid,
            charts,
            is_poll,
            ages,
        ))
        .await
    };
    let resolved = permit
        .release_while(resolution)
        .await
        .map_err(ReconcileError::Interrupted)?;
    resolved.map_err(|error| ReconcileError::Resolve(Box::new(error)))
}

/// Whether a chart whose changes are not polled for, such as manifests in ConfigMaps, is another one than recorded.
async fn have_changed(
    context: &Context,
    valid: &ValidHelmOp<'_>,
    charts: &RequestedCharts<'_, '_>,
) -> Result<bool, ReconcileError> {
    let resolve_context = ResolveContext {
        client: &context.client,
        metrics: &context.metrics.resolutions,
        ca_certificates: &[],
        interest: &|index, namespace| context.interest.charts(index, namespace),
        since: Instant::now(),
    };
    let mut resolver = context
        .resolver
        .chart_resolver(resolve_context, valid.helmop, &valid.chart);
    for chart in charts.as_slice() {
        let Some(version) = &chart.version else { continue };
        let changed = resolver.has_changed(chart.request, version).await;
        if changed.map_err(|error| ReconcileError::Resolve(Box::new(error)))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The time between two requests for a HelmOp that changes all the time.
pub fn min_interval(context: &Context) -> Duration {
    context.min_polling_interval.min(MAX_INTERVAL)
}

/// Sets the missing and the newer versions.
async fn resolve<'v, 'a>(
    context: &Context,
    resolve_context: ResolveContext<'_>,
    valid: &'v ValidHelmOp<'a>,
    mut charts: RequestedCharts<'v, 'a>,
    is_poll: bool,
    mut ages: Ages,
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
            let deployed = DeployedChart {
                version: chart.version.as_ref(),
                changed_digest: &chart.changed_digest,
            };
            let polled = resolver.poll(chart.request, deployed).await;
            let before = chart.version.as_ref().map(|version| version.version.clone());
            let before = before.unwrap_or_default();
            // Where no list is needed, there is nothing to be found.
            let is_known = polled.version.is_ok();
            let outlook = polled.outlook.or_else(|| is_known.then(Outlook::default));
            chart.polled = Some(PolledChart { before, outlook });
            polled.version
        } else {
            resolver.resolve(chart.request).await
        };
        match version {
            Ok(version) if !has_version || ages.admits(chart, &version) => chart.resolved(version),
            Ok(_) => {
                if let Some(older) = old_enough(&mut resolver, chart, &mut ages).await {
                    chart.resolved(older);
                }
            }
            Err(error) if has_version => {
                failure.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    ages.settle(charts.as_slice());
    let poll = match failure {
        _ if !is_poll => PollOutcome::NotPolled,
        None => PollOutcome::Succeeded,
        Some(error) => PollOutcome::Failed(ReconcileError::Resolve(Box::new(error))),
    };
    Ok(Versions {
        charts,
        waited: true,
        poll,
        ages,
    })
}

/// The newest version that is known for long enough, if the newest of all is not: it must still be in the repository, with the same digest.
async fn old_enough(
    resolver: &mut ChartResolver<'_>,
    chart: &RequestedChart<'_, '_>,
    ages: &mut Ages,
) -> Option<ChartVersion> {
    for version in ages.old_enough(chart) {
        let Ok(exact) = VersionRequest::parse(&version) else {
            continue;
        };
        let request = ChartRequest {
            repo: chart.request.repo,
            chart: chart.request.chart,
            packed: None,
            version: exact,
            on_digest_change: chart.request.on_digest_change,
        };
        match resolver.resolve(&request).await {
            Ok(found) if ages.admits(chart, &found) => return Some(found),
            Ok(_) => {}
            Err(error) if error.is_of_selection() => ages.forget(chart, &version),
            // The next poll tries it again.
            Err(_) => return None,
        }
    }
    None
}

/// Converts a time to the clock of the response cache.
fn instant(time: Timestamp) -> Instant {
    let elapsed = Timestamp::now().duration_since(time);
    let elapsed = Duration::try_from(elapsed).unwrap_or_default();
    let now = Instant::now();
    now.checked_sub(elapsed).unwrap_or(now)
}

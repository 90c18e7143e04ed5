//! The versions of all charts of a HelmOp: the recorded ones, and newer ones when a poll is due.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use helmops_api::ResolvedChart;
use helmops_core::{
    admit::ValidHelmOp,
    bundle::{Lookup, lookups},
    chart::request::ChartRequest,
};
use k8s_openapi::jiff::Timestamp;

use crate::{
    context::Context,
    error::ReconcileError,
    resolve::{ResolveContext, ResolveError},
    watch::CaBundle,
    work::HelmOpKey,
    workers::{Namespace, WorkerPermit},
};

/// Maximum time between two resolutions of a HelmOp that changes all the time. If the minimum polling interval is longer than this,
/// users still see the result of a change soon.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// The versions of all charts of a HelmOp.
#[derive(Debug)]
pub struct Versions {
    /// The versions, in the order of the lookups.
    pub resolved: Vec<ResolvedChart>,
    /// Whether there was a poll: repositories were requested, or no request is floating.
    pub polled: bool,
    /// Whether the worker was released meanwhile, so that the HelmOp and its Policies may have changed.
    pub waited: bool,
    /// Why the poll for a newer version failed; the recorded version is kept then.
    pub failure: Option<ResolveError>,
}

/// The input of a resolution.
#[derive(Debug)]
pub struct ResolveInput<'t> {
    /// The key of the HelmOp.
    pub key: &'t HelmOpKey,
    /// The HelmOp.
    pub valid: &'t ValidHelmOp<'t>,
    /// The recorded versions.
    pub pins: Vec<ResolvedChart>,
    /// If a poll is due, the time since which a response must have been fetched.
    pub since: Option<Timestamp>,
    /// The CA certificates that are trusted unless a Secret has its own.
    pub rancher_ca: &'t CaBundle,
}

/// A chart, and its recorded version.
struct Chart<'v, 'a> {
    lookup: Lookup,
    request: &'v ChartRequest<'a>,
    pin: Option<ResolvedChart>,
}

/// Resolves the charts without a recorded version, and polls for newer versions of the others if it is due. The worker is released
/// meanwhile.
///
/// After a burst, repositories are requested only as often as `--min-polling-interval` allows: each change of the HelmOp or of its
/// Secret triggers a resolution, whether the last one failed or not.
///
/// # Errors
/// If a chart has no recorded version and none can be resolved, or if the rate limit is exceeded.
pub async fn versions(
    context: &Context,
    permit: &mut WorkerPermit,
    input: ResolveInput<'_>,
) -> Result<Versions, ReconcileError> {
    let charts = charts(input.valid, input.pins);
    let is_new = charts.iter().any(|chart| chart.pin.is_none());
    if !is_new && input.since.is_none() {
        return Ok(Versions {
            resolved: charts.into_iter().filter_map(|chart| chart.pin).collect(),
            polled: false,
            waited: false,
            failure: None,
        });
    }
    let interval = context.min_polling_interval.min(MAX_INTERVAL);
    let request = context.helmops.requests.take(input.key.clone(), interval);
    request.map_err(ReconcileError::TooSoon)?;
    // If a chart is resolved anyway and polling is enabled, the others are polled too: mostly that costs no request.
    let is_poll = input.since.is_some() || input.valid.polling.is_some();
    let authorities = input.rancher_ca.ca_certificates();
    let resolve_context = ResolveContext {
        client: &context.client,
        metrics: &context.metrics,
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

/// The charts of a HelmOp, each with its recorded version, in linear time.
fn charts<'v, 'a>(valid: &'v ValidHelmOp<'a>, pins: Vec<ResolvedChart>) -> Vec<Chart<'v, 'a>> {
    let mut known = HashMap::with_capacity(pins.len());
    for pin in pins {
        known.entry(Lookup::from_record(&pin)).or_insert(pin);
    }
    let chart = |(lookup, request): (Lookup, _)| Chart {
        pin: known.remove(&lookup),
        lookup,
        request,
    };
    lookups(valid).into_iter().map(chart).collect()
}

async fn resolve(
    context: &Context,
    resolve_context: ResolveContext<'_>,
    valid: &ValidHelmOp<'_>,
    charts: Vec<Chart<'_, '_>>,
    is_poll: bool,
) -> Result<Versions, ResolveError> {
    let mut versions = Versions {
        resolved: Vec::with_capacity(charts.len()),
        polled: is_poll,
        waited: true,
        failure: None,
    };
    let mut resolver = context.resolver.chart_resolver(resolve_context, valid);
    for chart in charts {
        let record = match chart.pin {
            Some(pin) if !(is_poll && chart.request.is_floating()) => pin,
            pin => match (resolver.resolve(chart.request).await, pin) {
                (Ok(version), _) => chart.lookup.into_record(version),
                (Err(error), Some(pin)) => {
                    versions.failure.get_or_insert(error);
                    pin
                }
                (Err(error), None) => return Err(error),
            },
        };
        versions.resolved.push(record);
    }
    Ok(versions)
}

/// Converts a time to the clock of the response cache.
fn instant(time: Timestamp) -> Instant {
    let elapsed = Timestamp::now().duration_since(time);
    let elapsed = Duration::try_from(elapsed).unwrap_or_default();
    let now = Instant::now();
    now.checked_sub(elapsed).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use helm_index::VersionRequest;
    use helmops_api::HelmOp;
    use serde_json::json;

    use super::*;

    /// The shortest time of several runs to match the pins of a HelmOp with this number of targets, each with its own version.
    fn time(targets: usize) -> Duration {
        let versions: Vec<_> = (0..targets).map(|index| format!("1.0.{index}")).collect();
        let helmop = json!({ "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web" } } });
        let helmop: HelmOp = serde_json::from_str(&helmop.to_string()).unwrap();
        let main = ValidHelmOp::try_from(&helmop).unwrap();
        let request = |version| ChartRequest {
            version: VersionRequest::parse(version).unwrap(),
            ..main.chart.clone()
        };
        let valid = ValidHelmOp {
            targets: versions.iter().map(|version| Some(request(version))).collect(),
            ..main.clone()
        };
        let record = |(lookup, _): (Lookup, _)| lookup.into_record("1.0.0".to_owned().into());
        // In reverse order, which is the worst case for a linear search.
        let pins: Vec<_> = lookups(&valid).into_iter().rev().map(record).collect();
        let run = || {
            let (pins, start) = (pins.clone(), Instant::now());
            let charts = charts(&valid, pins);
            let time = start.elapsed();
            assert!(charts.iter().all(|chart| chart.pin.is_some()));
            time
        };
        (0..3).map(|_| run()).min().unwrap()
    }

    #[test]
    fn pins_are_matched_in_linear_time() {
        let (small, large) = (time(2_000), time(20_000));
        // Quadratic time would be a hundred times as long. Very short times cannot be compared.
        assert!(
            large < small.max(Duration::from_millis(10)) * 40,
            "{large:?} after {small:?}"
        );
    }
}

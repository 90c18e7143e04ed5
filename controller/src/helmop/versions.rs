//! A version for everything that a HelmOp asks for: what is on record, and something newer where it is time to look.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use helmops_shared::{
    admit::ValidHelmOp,
    api::ResolvedChart,
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

/// The longest time between two looks at the repositories of a HelmOp that changes all the time. Where the shortest polling
/// interval is longer than this, users still see soon what comes of a change.
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

/// What there is of each chart.
#[derive(Debug)]
pub struct Versions {
    /// The versions, in the order of the lookups.
    pub resolved: Vec<ResolvedChart>,
    /// Whether repositories were asked, or would have been if anything could move.
    pub looked: bool,
    /// Whether others worked meanwhile, so that the HelmOp and its Policies may have changed.
    pub waited: bool,
    /// Why something newer could not be looked for; what is on record stays then.
    pub failure: Option<ResolveError>,
}

/// What is on record of a HelmOp, and what is to be found out.
#[derive(Debug)]
pub struct Task<'t> {
    /// Names the HelmOp.
    pub key: &'t HelmOpKey,
    /// The HelmOp.
    pub valid: &'t ValidHelmOp<'t>,
    /// What is on record.
    pub pins: Vec<ResolvedChart>,
    /// From when on news is new enough, if it is time to look for newer versions.
    pub since: Option<Timestamp>,
    /// Authorities that are trusted where a Secret names none.
    pub rancher_ca: &'t CaBundle,
}

/// A chart, and the version that is on record.
struct Chart<'v, 'a> {
    lookup: Lookup,
    request: &'v ChartRequest<'a>,
    pin: Option<ResolvedChart>,
}

/// Looks up what is not on record, and what may be newer. Others work meanwhile.
///
/// Repositories are requested no more often than `--min-polling-interval` allows, after a burst: whoever changes the HelmOp
/// or its Secret can ask for a look each time, whatever failed before.
///
/// # Errors
/// Where a chart has no version, neither on record nor to be found, and where it is too soon to look.
pub async fn versions(
    context: &Context,
    place: &mut WorkerPermit,
    task: Task<'_>,
) -> Result<Versions, ReconcileError> {
    let charts = charts(task.valid, task.pins);
    let is_new = charts.iter().any(|chart| chart.pin.is_none());
    if !is_new && task.since.is_none() {
        return Ok(Versions {
            resolved: charts.into_iter().filter_map(|chart| chart.pin).collect(),
            looked: false,
            waited: false,
            failure: None,
        });
    }
    let interval = context.min_polling_interval.min(LONGEST_INTERVAL);
    let request = context.helmops.requests.take(task.key.clone(), interval);
    request.map_err(ReconcileError::TooSoon)?;
    // Where something is looked up anyhow, and polling is on, the rest is looked at too: it costs no request, mostly.
    let is_look = task.since.is_some() || task.valid.polling.is_some();
    let authorities = task.rancher_ca.authorities();
    let around = ResolveContext {
        client: &context.client,
        metrics: &context.metrics,
        authorities: &authorities,
        interest: &|index, namespace| context.interest.charts(index, namespace),
        since: task.since.map_or_else(Instant::now, instant),
    };
    let namespace = Namespace::clone(place.namespace());
    let looking = async {
        let _turn = context.resolver.turn(&namespace).await;
        // In a box, so that those are small who wait for their turn, or have their answer and wait for a place again.
        Box::pin(look(context, around, task.valid, charts, is_look)).await
    };
    let found = place
        .release_while(looking)
        .await
        .map_err(ReconcileError::Interrupted)?;
    found.map_err(|error| ReconcileError::Resolve(Box::new(error)))
}

/// The charts of a HelmOp, each with its pin. The time is linear in their number.
fn charts<'v, 'a>(valid: &'v ValidHelmOp<'a>, pins: Vec<ResolvedChart>) -> Vec<Chart<'v, 'a>> {
    let mut known = HashMap::with_capacity(pins.len());
    for pin in pins {
        known.entry(Lookup::answered_by(&pin)).or_insert(pin);
    }
    let chart = |(lookup, request): (Lookup, _)| Chart {
        pin: known.remove(&lookup),
        lookup,
        request,
    };
    lookups(valid).into_iter().map(chart).collect()
}

async fn look(
    context: &Context,
    around: ResolveContext<'_>,
    valid: &ValidHelmOp<'_>,
    charts: Vec<Chart<'_, '_>>,
    is_look: bool,
) -> Result<Versions, ResolveError> {
    let mut versions = Versions {
        resolved: Vec::with_capacity(charts.len()),
        looked: is_look,
        waited: true,
        failure: None,
    };
    let mut asker = context.resolver.asker(around, valid);
    for chart in charts {
        let record = match chart.pin {
            Some(pin) if !(is_look && chart.request.is_floating()) => pin,
            pin => match (asker.ask(chart.request).await, pin) {
                (Ok(found), _) => chart.lookup.answered(found),
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

/// The same time on the clock that answers are timed by.
fn instant(time: Timestamp) -> Instant {
    let ago = Timestamp::now().duration_since(time);
    let ago = Duration::try_from(ago).unwrap_or_default();
    let now = Instant::now();
    now.checked_sub(ago).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use helmops_shared::{api::HelmOp, chart::request::VersionRequest};
    use serde_json::json;

    use super::*;

    /// The shortest time of several to find the pins of a HelmOp with so many targets, each with a version of its own.
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
        let record = |(lookup, _): (Lookup, _)| lookup.answered("1.0.0".to_owned().into());
        // The last first, which is the worst for a search from the front.
        let pins: Vec<_> = lookups(&valid).into_iter().rev().map(record).collect();
        let once = || {
            let (pins, start) = (pins.clone(), Instant::now());
            let charts = charts(&valid, pins);
            let time = start.elapsed();
            assert!(charts.iter().all(|chart| chart.pin.is_some()));
            time
        };
        (0..3).map(|_| once()).min().unwrap()
    }

    #[test]
    fn pins_are_found_in_linear_time() {
        let (small, large) = (time(2_000), time(20_000));
        // What is quadratic takes a hundred times as long. What takes next to no time cannot be compared.
        assert!(
            large < small.max(Duration::from_millis(10)) * 40,
            "{large:?} after {small:?}"
        );
    }
}

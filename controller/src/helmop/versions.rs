//! A version for everything that a HelmOp asks for: what is on record, and something newer where it is time to look.

use std::time::{Duration, Instant};

use helmops_shared::{
    admit::ValidHelmOp,
    api::ResolvedChart,
    bundle::{Lookup, lookups},
    chart::request::ChartRequest,
};
use k8s_openapi::jiff::Timestamp;

use super::interest;
use crate::{
    context::Context,
    error::ReconcileError,
    resolve::{ResolveError, Surroundings},
    watch::CaBundle,
    workers::Place,
};

/// What there is of each chart.
#[derive(Debug)]
pub struct Versions {
    /// The versions, in the order of the lookups.
    pub resolved: Vec<ResolvedChart>,
    /// Whether repositories were asked, or would have been if anything could move.
    pub looked: bool,
    /// Why something newer could not be looked for; what is on record stays then.
    pub failure: Option<ResolveError>,
}

/// What is on record of a HelmOp, and what is to be found out.
#[derive(Debug)]
pub struct Task<'t> {
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
/// # Errors
/// Where a chart has no version, neither on record nor to be found.
pub async fn versions(
    context: &Context,
    place: &mut Place,
    task: Task<'_>,
) -> Result<Versions, ReconcileError> {
    let charts = charts(task.valid, task.pins);
    let is_new = charts.iter().any(|chart| chart.pin.is_none());
    if !is_new && task.since.is_none() {
        return Ok(Versions {
            resolved: charts.into_iter().filter_map(|chart| chart.pin).collect(),
            looked: false,
            failure: None,
        });
    }
    // Where something is looked up anyhow, and polling is on, the rest is looked at too: it costs no request, mostly.
    let is_look = task.since.is_some() || task.valid.polling.is_some();
    let authorities = task.rancher_ca.authorities();
    let around = Surroundings {
        client: &context.client,
        metrics: &context.metrics,
        authorities: &authorities,
        interest: &|repo| interest::charts(&context.stores.helmops, repo),
        since: task.since.map_or_else(Instant::now, instant),
    };
    // In a box, so that those who have their answer and wait for a place again are small.
    let looking = Box::pin(look(context, around, task.valid, charts, is_look));
    let found = place
        .step_aside(looking)
        .await
        .map_err(ReconcileError::Interrupted)?;
    found.map_err(|error| ReconcileError::Resolve(Box::new(error)))
}

fn charts<'v, 'a>(valid: &'v ValidHelmOp<'a>, mut pins: Vec<ResolvedChart>) -> Vec<Chart<'v, 'a>> {
    let chart = |(lookup, request): (Lookup, _)| {
        let pin = pins.iter().position(|pin| lookup.is_answered_by(pin));
        Chart {
            lookup,
            request,
            pin: pin.map(|position| pins.swap_remove(position)),
        }
    };
    lookups(valid).into_iter().map(chart).collect()
}

async fn look(
    context: &Context,
    around: Surroundings<'_>,
    valid: &ValidHelmOp<'_>,
    charts: Vec<Chart<'_, '_>>,
    is_look: bool,
) -> Result<Versions, ResolveError> {
    let mut versions = Versions {
        resolved: Vec::with_capacity(charts.len()),
        looked: is_look,
        failure: None,
    };
    let mut asker = context.resolver.asker(around, valid);
    for chart in charts {
        let record = match chart.pin {
            Some(pin) if !(is_look && chart.request.can_move()) => pin,
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

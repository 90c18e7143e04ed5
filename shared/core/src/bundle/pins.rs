//! Resolved versions that are kept.

use std::collections::{HashMap, HashSet};

use helm_index::{VersionRequest, is_complete_version};
use helmops_api::{Bundle, ResolvedChart, limits};
use helmops_model::chart::{request::ChartRequest, source::ChartSource};
use masterminds_semver::Version;

use crate::{
    admit::ValidHelmOp,
    bundle::{Lookup, RequestedChart, owner::belongs_to, withheld_charts},
    targeting::chart_record::recorded_in,
};

/// Sets the recorded versions of charts, see [`RequestedCharts::of`](super::RequestedCharts::of).
pub fn set(charts: &mut [RequestedChart<'_, '_>], valid: &ValidHelmOp<'_>, bundle: Option<&Bundle>) {
    let Some(bundle) = bundle else {
        return set_from_status(charts, valid);
    };
    if !belongs_to(bundle, valid.helmop) {
        // It belongs to a deleted HelmOp of the same name.
        return;
    }
    // What is wanted, while something else stays deployed.
    if let Some(records) = withheld_charts(bundle).or_else(|| recorded_in(bundle)) {
        return set_from_records(charts, records);
    }
    let deployed = Deployed::of(bundle);
    set_all(charts, |request| {
        deployed.version(request.source(), &request.version)
    });
}

fn set_from_status(charts: &mut [RequestedChart<'_, '_>], valid: &ValidHelmOp<'_>) {
    let Some(status) = &valid.helmop.status else {
        return;
    };
    if !status.resolved.is_empty() {
        return set_from_records(charts, status.resolved.clone());
    }
    // Fleet's CRD has a field for the version of the main chart only.
    let version = status.version.as_str();
    set_all(charts, |request| {
        let is_main = request.source() == valid.chart.source();
        (is_main && is_complete_version(version) && satisfies(&request.version, version)).then_some(version)
    });
}

/// Sets the version of each chart from its record, in linear time. Of two records for the same chart, the first one is used.
fn set_from_records(charts: &mut [RequestedChart<'_, '_>], mut records: Vec<ResolvedChart>) {
    upgrade(&mut records, charts);
    let mut versions = HashMap::with_capacity(records.len());
    for (lookup, recorded) in records.into_iter().map(Lookup::from_record) {
        versions.entry(lookup).or_insert(recorded);
    }
    for chart in charts {
        if let Some(recorded) = versions.remove(&chart.lookup) {
            chart.version = Some(recorded.version);
            chart.changed_digest = recorded.changed_digest;
            chart.content = recorded.content;
        }
    }
}

/// Old records of repositories with a query lack the digest of the query. Each is used for the first lookup that it matches, so
/// that no deployed version changes.
fn upgrade(records: &mut [ResolvedChart], charts: &[RequestedChart<'_, '_>]) {
    for record in records.iter_mut().filter(|record| record.repo.ends_with("?…")) {
        let mut lookups = charts.iter().map(|chart| &chart.lookup);
        if let Some(lookup) = lookups.find(|lookup| lookup.matches_legacy(record)) {
            record.repo.clone_from(&lookup.repo);
        }
    }
}

fn set_all<'f>(
    charts: &mut [RequestedChart<'_, '_>],
    version: impl Fn(&ChartRequest<'_>) -> Option<&'f str>,
) {
    // A version of a packed chart is of no use without its digest.
    for chart in charts.iter_mut().filter(|chart| chart.request.packed.is_none()) {
        chart.version = version(chart.request).map(|version| version.to_owned().into());
    }
}

/// The exact versions of each chart in a Bundle, in order and without duplicates.
struct Deployed<'b>(HashMap<ChartSource<'b>, Vec<(&'b str, Version)>>);

impl<'b> Deployed<'b> {
    fn of(bundle: &'b Bundle) -> Self {
        let own = bundle.spec.options.helm.iter();
        let targets = bundle
            .spec
            .targets
            .iter()
            // The Bundle of an accepted HelmOp has no more.
            .take(limits::TARGETS)
            .filter_map(|target| target.options.helm.as_ref());
        let mut known = HashSet::new();
        let mut versions: HashMap<_, Vec<_>> = HashMap::new();
        for helm in own.chain(targets) {
            let (source, version) = (ChartSource::of(&helm.repo, &helm.chart), &*helm.version);
            if known.insert((source, version))
                && is_complete_version(version)
                && let Ok(parsed) = Version::parse(version)
            {
                versions.entry(source).or_default().push((version, parsed));
            }
        }
        Self(versions)
    }

    /// The first version of a chart that satisfies the request.
    fn version(&self, source: ChartSource<'_>, request: &VersionRequest<'_>) -> Option<&'b str> {
        let mut versions = self.0.get(&source)?.iter();
        versions
            .find(|(text, version)| {
                request.text() == *text || request.passes(text) && request.constraint().matches(version)
            })
            .map(|(text, _)| *text)
    }
}

/// Whether a version is one that a request allows.
pub fn satisfies(request: &VersionRequest<'_>, version: &str) -> bool {
    let is_in_range = |version: &Version| request.constraint().matches(version);
    request.text() == version
        || request.passes(version) && Version::parse(version).is_ok_and(|version| is_in_range(&version))
}

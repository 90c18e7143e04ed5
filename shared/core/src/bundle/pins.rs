//! Resolved versions that are kept.

use std::collections::{HashMap, HashSet};

use helm_index::VersionRequest;
use helmops_api::{Bundle, ResolvedChart, labels, limits};
use masterminds_semver::Version;

use crate::{
    admit::ValidHelmOp,
    bundle::{
        Lookup,
        lookup::{LookupKey, key_of, lookups},
        plan::belongs_to,
    },
    chart::{request::ChartRequest, source::ChartSource},
};

/// The recorded versions for the charts of the HelmOp: from its Bundle, or from its status if the Bundle was deleted.
///
/// They are kept until the HelmOp requests another chart or constraint, so that a restart, a lost status, a label or an outage of
/// a registry never changes what is deployed. A Bundle without a record was created by Fleet's controller: its version is kept
/// too if it satisfies the HelmOp.
pub fn pins(valid: &ValidHelmOp<'_>, bundle: Option<&Bundle>) -> Vec<ResolvedChart> {
    let requested = lookups(valid);
    let Some(bundle) = bundle else {
        return from_status(valid, &requested);
    };
    if !belongs_to(bundle, valid.helmop) {
        // It belongs to a deleted HelmOp of the same name.
        return Vec::new();
    }
    if let Some(records) = recorded(bundle) {
        return retain_requested(records, &requested);
    }
    let deployed = Deployed::of(bundle);
    records_of(&requested, |request| {
        deployed.version(request.source(), &request.version)
    })
}

type Requested<'v, 'a> = [(Lookup, &'v ChartRequest<'a>)];

fn from_status(valid: &ValidHelmOp<'_>, requested: &Requested<'_, '_>) -> Vec<ResolvedChart> {
    let Some(status) = &valid.helmop.status else {
        return Vec::new();
    };
    if !status.resolved.is_empty() {
        return retain_requested(status.resolved.clone(), requested);
    }
    // Fleet's CRD has a field for the version of the main chart only.
    let version = status.version.as_str();
    records_of(requested, |request| {
        let is_main = request.source() == valid.chart.source();
        (is_main && is_exact(version) && satisfies(&request.version, version)).then_some(version)
    })
}

fn retain_requested(mut records: Vec<ResolvedChart>, requested: &Requested<'_, '_>) -> Vec<ResolvedChart> {
    upgrade(&mut records, requested);
    let requested: HashSet<LookupKey<'_>> = requested.iter().map(|(lookup, _)| lookup.key()).collect();
    records.retain(|record| requested.contains(&key_of(record)));
    records
}

/// Old records of repositories with a query lack the digest of the query. Each is used for the first lookup that it matches, so
/// that no deployed version changes.
fn upgrade(records: &mut [ResolvedChart], requested: &Requested<'_, '_>) {
    for record in records.iter_mut().filter(|record| record.repo.ends_with("?…")) {
        let matches = |(lookup, _): &&(Lookup, _)| lookup.matches_legacy(record);
        if let Some((lookup, _)) = requested.iter().find(matches) {
            record.repo.clone_from(&lookup.repo);
        }
    }
}

fn records_of<'f>(
    requested: &Requested<'_, '_>,
    version: impl Fn(&ChartRequest<'_>) -> Option<&'f str>,
) -> Vec<ResolvedChart> {
    requested
        .iter()
        .filter_map(|(lookup, request)| {
            let version = version(request)?;
            Some(lookup.clone().into_record(version.to_owned().into()))
        })
        .collect()
}

/// The record in the annotation of the Bundle; `None` if it is missing or invalid.
fn recorded(bundle: &Bundle) -> Option<Vec<ResolvedChart>> {
    let text = bundle.metadata.annotations.as_ref()?.get(labels::RESOLVED)?;
    serde_json::from_str(text).ok()
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
                && is_exact(version)
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
            .find(|(text, version)| request.text() == *text || request.constraint().matches(version))
            .map(|(text, _)| *text)
    }
}

fn is_exact(version: &str) -> bool {
    Version::parse_strict(version.strip_prefix('v').unwrap_or(version)).is_ok()
}

fn satisfies(request: &VersionRequest<'_>, version: &str) -> bool {
    request.text() == version
        || Version::parse(version).is_ok_and(|version| request.constraint().matches(&version))
}

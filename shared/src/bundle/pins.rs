//! Versions that stay as they are.

use std::collections::{HashMap, HashSet};

use crate::{
    admit::ValidHelmOp,
    api::{Bundle, ResolvedChart, labels, limits},
    bundle::{
        Key, Lookup,
        lookup::{key_of, lookups},
        plan::belongs_to,
    },
    chart::{
        request::{ChartRequest, VersionRequest},
        source::ChartSource,
        version::Version,
    },
};

/// The versions that are on record for what the HelmOp asks for: in its Bundle, or in its status where the Bundle was
/// deleted.
///
/// They stay until the HelmOp asks for something else, so that a restart, a lost status, a label or a registry's outage
/// never change what is deployed. A Bundle without a record was made by Fleet's own controller: its version stays too
/// if it is one that the HelmOp asks for.
pub fn pins(valid: &ValidHelmOp<'_>, bundle: Option<&Bundle>) -> Vec<ResolvedChart> {
    let wanted = lookups(valid);
    let Some(bundle) = bundle else {
        return from_status(valid, &wanted);
    };
    if !belongs_to(bundle, valid.helmop) {
        // Of a HelmOp of the same name that is gone.
        return Vec::new();
    }
    if let Some(records) = recorded(bundle) {
        return still_wanted(records, &wanted);
    }
    let deployed = Deployed::of(bundle);
    found(&wanted, |request| {
        deployed.version(request.source(), &request.version)
    })
}

type Wanted<'v, 'a> = [(Lookup, &'v ChartRequest<'a>)];

fn from_status(valid: &ValidHelmOp<'_>, wanted: &Wanted<'_, '_>) -> Vec<ResolvedChart> {
    let Some(status) = &valid.helmop.status else {
        return Vec::new();
    };
    if !status.resolved.is_empty() {
        return still_wanted(status.resolved.clone(), wanted);
    }
    // Fleet's own definition of HelmOp has room for the main chart's version alone.
    let version = status.version.as_str();
    found(wanted, |request| {
        let is_main = request.source() == valid.chart.source();
        (is_main && is_concrete(version) && satisfies(&request.version, version)).then_some(version)
    })
}

fn still_wanted(mut records: Vec<ResolvedChart>, wanted: &Wanted<'_, '_>) -> Vec<ResolvedChart> {
    upgrade(&mut records, wanted);
    let wanted: HashSet<Key<'_>> = wanted.iter().map(|(lookup, _)| lookup.key()).collect();
    records.retain(|record| wanted.contains(&key_of(record)));
    records
}

/// Records of repositories with a query were once written without its digest. They count for the first lookup that they
/// fit, so that no deployed version changes.
fn upgrade(records: &mut [ResolvedChart], wanted: &Wanted<'_, '_>) {
    for record in records.iter_mut().filter(|record| record.repo.ends_with("?…")) {
        let fits = |(lookup, _): &&(Lookup, _)| lookup.is_answered_by_old(record);
        if let Some((lookup, _)) = wanted.iter().find(fits) {
            record.repo.clone_from(&lookup.repo);
        }
    }
}

fn found<'f>(
    wanted: &Wanted<'_, '_>,
    version: impl Fn(&ChartRequest<'_>) -> Option<&'f str>,
) -> Vec<ResolvedChart> {
    wanted
        .iter()
        .filter_map(|(lookup, request)| {
            let version = version(request)?;
            Some(lookup.clone().answered(version.to_owned().into()))
        })
        .collect()
}

/// What the Bundle's annotation says; `None` where there is none or it is damaged.
fn recorded(bundle: &Bundle) -> Option<Vec<ResolvedChart>> {
    let text = bundle.metadata.annotations.as_ref()?.get(labels::RESOLVED)?;
    serde_json::from_str(text).ok()
}

/// The concrete versions that a Bundle has of each chart, in their order and without repetition.
struct Deployed<'b>(HashMap<ChartSource<'b>, Vec<(&'b str, Version)>>);

impl<'b> Deployed<'b> {
    fn of(bundle: &'b Bundle) -> Self {
        let own = bundle.spec.options.helm.iter();
        let targets = bundle
            .spec
            .targets
            .iter()
            // A Bundle that was made from a HelmOp that is accepted has no more.
            .take(limits::TARGETS)
            .filter_map(|target| target.options.helm.as_ref());
        let mut known = HashSet::new();
        let mut versions: HashMap<_, Vec<_>> = HashMap::new();
        for helm in own.chain(targets) {
            let (source, version) = (ChartSource::of(&helm.repo, &helm.chart), &*helm.version);
            if known.insert((source, version))
                && is_concrete(version)
                && let Ok(parsed) = Version::parse(version)
            {
                versions.entry(source).or_default().push((version, parsed));
            }
        }
        Self(versions)
    }

    /// The first version of a chart that is one of those that are requested.
    fn version(&self, source: ChartSource<'_>, request: &VersionRequest<'_>) -> Option<&'b str> {
        let mut versions = self.0.get(&source)?.iter();
        versions
            .find(|(text, version)| request.text() == *text || request.constraint().matches(version))
            .map(|(text, _)| *text)
    }
}

fn is_concrete(version: &str) -> bool {
    Version::parse_strict(version.strip_prefix('v').unwrap_or(version)).is_ok()
}

fn satisfies(asked: &VersionRequest<'_>, version: &str) -> bool {
    asked.text() == version
        || Version::parse(version).is_ok_and(|version| asked.constraint().matches(&version))
}

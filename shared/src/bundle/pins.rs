//! Versions that stay as they are.

use crate::{
    admit::ValidHelmOp,
    api::{Bundle, HelmOptions, ResolvedChart, labels},
    bundle::{Lookup, lookups, plan::belongs_to},
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
    match bundle {
        Some(bundle) if !belongs_to(bundle, valid.helmop) => {
            // Of a HelmOp of the same name that is gone.
            Vec::new()
        }
        Some(bundle) => match recorded(bundle) {
            Some(records) => still_wanted(records, &wanted),
            None => found(&wanted, |request| {
                deployed(bundle, request.source(), &request.version)
            }),
        },
        None => from_status(valid, &wanted),
    }
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
        (is_main && is_concrete(version) && will_do(&request.version, version)).then_some(version)
    })
}

fn still_wanted(mut records: Vec<ResolvedChart>, wanted: &Wanted<'_, '_>) -> Vec<ResolvedChart> {
    records.retain(|record| wanted.iter().any(|(lookup, _)| lookup.is_answered_by(record)));
    records
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

/// The concrete version that the Bundle has for a chart, if it is one that is asked for.
fn deployed<'b>(bundle: &'b Bundle, source: ChartSource<'_>, asked: &VersionRequest<'_>) -> Option<&'b str> {
    let own = bundle.spec.options.helm.iter();
    let targets = bundle
        .spec
        .targets
        .iter()
        .filter_map(|target| target.options.helm.as_ref());
    own.chain(targets)
        .filter(|helm| ChartSource::of(&helm.repo, &helm.chart) == source)
        .map(|helm: &HelmOptions| helm.version.as_str())
        .find(|version| is_concrete(version) && will_do(asked, version))
}

fn is_concrete(version: &str) -> bool {
    Version::parse_strict(version.strip_prefix('v').unwrap_or(version)).is_ok()
}

fn will_do(asked: &VersionRequest<'_>, version: &str) -> bool {
    asked.text() == version
        || Version::parse(version).is_ok_and(|version| asked.constraint().matches(&version))
}

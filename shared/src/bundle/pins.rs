//! Versions that stay as they are.

use crate::{
    admit::ValidHelmOp,
    api::{Bundle, HelmOptions, ResolvedChart, labels},
    bundle::{lookups, plan::belongs_to},
    chart::{request::VersionRequest, source::ChartSource, version::Version},
};

/// The versions that a Bundle records for what the HelmOp asks for.
///
/// They stay until the HelmOp asks for something else, so that a restart, a lost status, a label or a registry's outage
/// never change what is deployed. A Bundle without a record was made by Fleet's own controller: its version stays too
/// if it is one that the HelmOp asks for.
pub fn pins(valid: &ValidHelmOp<'_>, bundle: &Bundle) -> Vec<ResolvedChart> {
    if !belongs_to(bundle, valid.helmop) {
        // Of a HelmOp of the same name that is gone.
        return Vec::new();
    }
    let wanted = lookups(valid);
    match recorded(bundle) {
        Some(mut records) => {
            records.retain(|record| wanted.iter().any(|(lookup, _)| lookup.is_answered_by(record)));
            records
        }
        None => wanted
            .into_iter()
            .filter_map(|(lookup, request)| {
                let version = deployed(bundle, request.source(), &request.version)?;
                Some(lookup.answered(version.to_owned().into()))
            })
            .collect(),
    }
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

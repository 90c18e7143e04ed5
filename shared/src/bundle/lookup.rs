//! Which charts of a HelmOp need a version to be looked up.

use crate::{
    admit::ValidHelmOp,
    api::ResolvedChart,
    chart::{request::ChartRequest, resolved::ChartVersion, source::ChartSource, url},
};

/// A chart and what is asked of it, without credentials: what a version is recorded for.
///
/// Credentials are left out so that they can be rotated without touching a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lookup {
    /// URL of the repository, or reference in a registry.
    pub repo: String,
    /// Name of the chart; empty in a registry.
    pub chart: String,
    /// The version or range that is asked for.
    pub constraint: String,
}

impl Lookup {
    /// What is looked up for a request; nothing for an archive, which has no versions.
    pub fn of(request: &ChartRequest<'_>) -> Option<Self> {
        let (repo, chart) = match request.source() {
            ChartSource::Archive { .. } => return None,
            ChartSource::Oci { repo } => (repo, ""),
            ChartSource::Repository { repo, chart } => (repo, chart),
        };
        Some(Self {
            repo: url::redacted(repo),
            chart: chart.to_owned(),
            constraint: request.version.text().to_owned(),
        })
    }

    /// Whether `record` is about this lookup.
    pub fn is_answered_by(&self, record: &ResolvedChart) -> bool {
        (&self.repo, &self.chart, &self.constraint) == (&record.repo, &record.chart, &record.constraint)
    }

    /// The record of a version that was chosen.
    pub fn answered(self, found: ChartVersion) -> ResolvedChart {
        ResolvedChart {
            repo: self.repo,
            chart: self.chart,
            constraint: self.constraint,
            version: found.version,
            digest: found.digest,
            url: found.url,
        }
    }
}

/// The distinct charts of a HelmOp that need a version: its own first, then those of its targets in their order.
pub fn lookups<'v, 'a>(valid: &'v ValidHelmOp<'a>) -> Vec<(Lookup, &'v ChartRequest<'a>)> {
    let mut found: Vec<(Lookup, &ChartRequest<'_>)> = Vec::new();
    for request in std::iter::once(&valid.chart).chain(valid.targets.iter().flatten()) {
        if let Some(lookup) = Lookup::of(request)
            && found.iter().all(|(known, _)| *known != lookup)
        {
            found.push((lookup, request));
        }
    }
    found
}

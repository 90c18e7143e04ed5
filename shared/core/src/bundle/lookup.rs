//! The charts of a HelmOp whose version must be resolved.

use std::collections::{HashMap, HashSet};

use helmops_api::ResolvedChart;

use crate::{
    admit::ValidHelmOp,
    chart::{request::ChartRequest, resolved::ChartVersion, source::ChartSource, url},
};

/// Repository, chart and constraint: the same for a [`Lookup`] and its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LookupKey<'a> {
    repo: &'a str,
    chart: &'a str,
    constraint: &'a str,
}

/// The key of a record.
pub fn key_of(record: &ResolvedChart) -> LookupKey<'_> {
    LookupKey {
        repo: &record.repo,
        chart: &record.chart,
        constraint: &record.constraint,
    }
}

/// Indexes records by their key. Of two with the same key, the first one is used.
pub fn by_key(records: &[ResolvedChart]) -> HashMap<LookupKey<'_>, &ResolvedChart> {
    // Later entries replace earlier ones.
    records
        .iter()
        .rev()
        .map(|record| (key_of(record), record))
        .collect()
}

/// A chart and a constraint, without credentials: a version is recorded for them.
///
/// Without credentials, so that they can be rotated and the version stays.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lookup {
    /// URL of the repository, or reference in a registry; see [`url::identity`].
    pub repo: String,
    /// Name of the chart; empty in a registry.
    pub chart: String,
    /// The requested version or range.
    pub constraint: String,
}

impl Lookup {
    /// The lookup for a request; `None` for an archive, which has no versions.
    pub fn of(request: &ChartRequest<'_>) -> Option<Self> {
        let (repo, chart) = match request.source() {
            ChartSource::Archive { .. } => return None,
            ChartSource::Oci { repo } => (repo, ""),
            ChartSource::Repository { repo, chart } => (repo, chart),
        };
        Some(Self {
            repo: url::identity(repo),
            chart: chart.to_owned(),
            constraint: request.version.text().to_owned(),
        })
    }

    /// The key, for maps.
    pub fn key(&self) -> LookupKey<'_> {
        LookupKey {
            repo: &self.repo,
            chart: &self.chart,
            constraint: &self.constraint,
        }
    }

    /// The lookup that a record is for.
    pub fn from_record(record: &ResolvedChart) -> Self {
        Self {
            repo: record.repo.clone(),
            chart: record.chart.clone(),
            constraint: record.constraint.clone(),
        }
    }

    /// Whether `record` is for this lookup, although it has the old format, which did not contain the query of the URL.
    pub fn matches_legacy(&self, record: &ResolvedChart) -> bool {
        (
            url::identity_without_digest(&self.repo),
            &self.chart,
            &self.constraint,
        ) == (&record.repo, &record.chart, &record.constraint)
    }

    /// The record of the resolved version.
    pub fn into_record(self, found: ChartVersion) -> ResolvedChart {
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

/// The distinct charts of a HelmOp whose version must be resolved: its own first, then those of its targets in order.
///
/// The time is linear in the number of targets.
pub fn lookups<'v, 'a>(valid: &'v ValidHelmOp<'a>) -> Vec<(Lookup, &'v ChartRequest<'a>)> {
    let mut requested = HashSet::new();
    let mut known = HashSet::new();
    let mut found = Vec::new();
    for request in requests(valid) {
        // Most targets request the same chart as another one, and need no allocation.
        if !requested.insert((request.repo, request.chart, request.version.text())) {
            continue;
        }
        // URLs that differ only in their credentials are one lookup.
        if let Some(lookup) = Lookup::of(request)
            && known.insert(lookup.clone())
        {
            found.push((lookup, request));
        }
    }
    found
}

/// The repository of the first of the [`lookups`]; `None` if there are none.
pub fn first_repo(valid: &ValidHelmOp<'_>) -> Option<String> {
    requests(valid).find_map(Lookup::of).map(|lookup| lookup.repo)
}

fn requests<'v, 'a>(valid: &'v ValidHelmOp<'a>) -> impl Iterator<Item = &'v ChartRequest<'a>> {
    std::iter::once(&valid.chart).chain(valid.targets.iter().flatten())
}

//! Which charts of a HelmOp need a version to be looked up.

use std::collections::{HashMap, HashSet};

use crate::{
    admit::ValidHelmOp,
    api::ResolvedChart,
    chart::{request::ChartRequest, resolved::ChartVersion, source::ChartSource, url},
};

/// Repository, chart and constraint. A [`Lookup`] and the record that answers it have the same.
pub type Key<'a> = (&'a str, &'a str, &'a str);

/// The key of a record.
pub fn key_of(record: &ResolvedChart) -> Key<'_> {
    (&record.repo, &record.chart, &record.constraint)
}

/// Finds records by their key. Of two with the same key it finds the first.
pub fn by_key(records: &[ResolvedChart]) -> HashMap<Key<'_>, &ResolvedChart> {
    // Later entries replace earlier ones.
    records
        .iter()
        .rev()
        .map(|record| (key_of(record), record))
        .collect()
}

/// A chart and what is asked of it, without credentials: what a version is recorded for.
///
/// Credentials are left out so that they can be rotated without touching a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lookup {
    /// URL of the repository, or reference in a registry; see [`url::identity`].
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
            repo: url::identity(repo),
            chart: chart.to_owned(),
            constraint: request.version.text().to_owned(),
        })
    }

    /// Repository, chart and constraint, for maps.
    pub fn key(&self) -> Key<'_> {
        (&self.repo, &self.chart, &self.constraint)
    }

    /// What a record answers.
    pub fn answered_by(record: &ResolvedChart) -> Self {
        Self {
            repo: record.repo.clone(),
            chart: record.chart.clone(),
            constraint: record.constraint.clone(),
        }
    }

    /// Whether `record` is about this lookup, though it was written when records did not tell queries apart.
    pub fn is_answered_by_old(&self, record: &ResolvedChart) -> bool {
        (
            url::identity_without_digest(&self.repo),
            &self.chart,
            &self.constraint,
        ) == (&record.repo, &record.chart, &record.constraint)
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
///
/// The time is linear in the number of targets.
pub fn lookups<'v, 'a>(valid: &'v ValidHelmOp<'a>) -> Vec<(Lookup, &'v ChartRequest<'a>)> {
    let mut requested = HashSet::new();
    let mut known = HashSet::new();
    let mut found = Vec::new();
    for request in requests(valid) {
        // Most targets request what another one does. Those need no text of their own.
        if !requested.insert((request.repo, request.chart, request.version.text())) {
            continue;
        }
        // URLs that differ in their credentials alone are one lookup.
        if let Some(lookup) = Lookup::of(request)
            && known.insert(lookup.clone())
        {
            found.push((lookup, request));
        }
    }
    found
}

/// The repository of the first of the [`lookups`]; `None` where nothing is looked up.
pub fn first_repo(valid: &ValidHelmOp<'_>) -> Option<String> {
    requests(valid).find_map(Lookup::of).map(|lookup| lookup.repo)
}

fn requests<'v, 'a>(valid: &'v ValidHelmOp<'a>) -> impl Iterator<Item = &'v ChartRequest<'a>> {
    std::iter::once(&valid.chart).chain(valid.targets.iter().flatten())
}

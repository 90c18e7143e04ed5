//! What a version is resolved for and recorded with.

use helmops_api::ResolvedChart;
use helmops_model::chart::{request::ChartRequest, resolved::ChartVersion, source::ChartSource, url};

/// A chart and a constraint, without credentials: a version is recorded for them.
///
/// Without credentials, so that they can be rotated and the version stays.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lookup {
    /// URL of the repository, or reference in a registry; see [`url::identity`].
    pub repo: String,
    /// Name of the chart, or the path of a packed one; empty in a registry.
    pub chart: String,
    /// The requested version or range, or what is requested of the source of a packed chart.
    pub constraint: String,
    /// The expression that filters versions; empty for none, and if there is one version only.
    pub filter: String,
}

/// What is recorded for a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedVersion {
    /// The version.
    pub version: ChartVersion,
    /// The digest that it has now, if that is another one.
    pub changed_digest: String,
    /// The ID of the Content with its files, if they are delivered in one.
    pub content: String,
}

impl Lookup {
    /// The lookup for a request; `None` for an archive, which has no versions.
    pub fn of(request: &ChartRequest<'_>) -> Option<Self> {
        if let Some(packed) = &request.packed {
            return Some(Self {
                repo: packed.repo.clone(),
                chart: packed.source.path().to_owned(),
                constraint: packed.source.requested(),
                filter: String::new(),
            });
        }
        let (repo, chart) = match request.source() {
            ChartSource::Archive { .. } | ChartSource::Packed { .. } => return None,
            ChartSource::Oci { repo } => (repo, ""),
            ChartSource::Repository { repo, chart } => (repo, chart),
        };
        Some(Self {
            repo: url::identity(repo),
            chart: chart.to_owned(),
            constraint: request.version.text().to_owned(),
            filter: request.version.filter().to_owned(),
        })
    }

    /// Splits a record into the lookup that it is for, and what it records.
    pub fn from_record(record: ResolvedChart) -> (Self, RecordedVersion) {
        let lookup = Self {
            repo: record.repo,
            chart: record.chart,
            constraint: record.constraint,
            filter: record.semver_filter,
        };
        let version = ChartVersion {
            version: record.version,
            digest: record.digest,
            url: record.url,
        };
        let recorded = RecordedVersion {
            version,
            changed_digest: record.changed_digest,
            content: record.content,
        };
        (lookup, recorded)
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
            semver_filter: self.filter,
            version: found.version,
            digest: found.digest,
            url: found.url,
            ..ResolvedChart::default()
        }
    }
}

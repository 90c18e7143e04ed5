//! The version of a chart in a Git repository, as it is recorded: with the commit in its URL, and what it consists of as its digest.

use std::time::Instant;

use helmops_git::Reference;
use helmops_model::chart::resolved::ChartVersion;
use helmops_runtime::error_class::ClassifiedError;

use super::{
    Access, Content, GitChart, GitError, GitPoll, GitQuery, GitRepositories, HttpClient, KnownChart,
    ObjectId, PackedChart,
};
use crate::poll::DeployedChart;

/// What separates the commit from the repository in a URL.
const COMMIT: char = '#';

impl GitRepositories {
    /// The version that is requested now: the deployed one, if the chart is the same.
    ///
    /// # Errors
    /// If the repository cannot be read, or has no such commit or chart.
    pub async fn version(
        &self,
        http: &HttpClient,
        access: &Access,
        chart: &GitChart,
        deployed: DeployedChart<'_>,
        since: Instant,
    ) -> Result<ChartVersion, GitError> {
        let known = deployed
            .version
            .and_then(|version| Known::of(version, deployed.changed_digest));
        let query = GitQuery {
            known: known.as_ref().map(|known| KnownChart {
                commit: known.commit,
                content: &known.content,
            }),
            since,
            archive: crate::MAX_ARCHIVE.try_into().unwrap_or(usize::MAX),
        };
        let recorded = || deployed.version.cloned().unwrap_or_default();
        Ok(match self.poll(http, access, chart, query).await? {
            GitPoll::SameCommit => recorded(),
            GitPoll::SameContent(_) => ChartVersion {
                digest: known.map(|known| known.content.to_string()).unwrap_or_default(),
                ..recorded()
            },
            GitPoll::Changed(selected, packed) => ChartVersion {
                version: packed.version,
                digest: packed.content.to_string(),
                url: format!("{}{COMMIT}{}", chart.location.identity(), selected.commit),
            },
        })
    }

    /// The archive of a version that was resolved.
    ///
    /// # Errors
    /// If the repository cannot be read, or has no such chart any more.
    pub async fn archive(
        &self,
        http: &HttpClient,
        access: &Access,
        chart: &GitChart,
        version: &ChartVersion,
        limit: u64,
    ) -> Result<PackedChart, GitError> {
        let query = GitQuery {
            known: None,
            since: Instant::now(),
            archive: limit.try_into().unwrap_or(usize::MAX),
        };
        let packed = async |reference| {
            let of_reference = GitChart {
                reference,
                ..chart.clone()
            };
            match self.poll(http, access, &of_reference, query).await? {
                GitPoll::Changed(_, packed) if packed.content.to_string() == version.digest => Ok(*packed),
                GitPoll::Changed(..) | GitPoll::SameCommit | GitPoll::SameContent(_) => {
                    Err(GitError::Changed {
                        url: version.url.clone(),
                    })
                }
            }
        };
        let Some(commit) = commit(version) else {
            return packed(chart.reference.clone()).await;
        };
        match packed(Reference::Commit(commit)).await {
            // A commit that nothing refers to any more is deleted some day, and some servers send only those that are named.
            Err(error) if !error.class().is_transient() && chart.is_moving() => {
                packed(chart.reference.clone()).await.map_err(|_| error)
            }
            other => other,
        }
    }
}

/// What is known of a chart from its record.
struct Known {
    commit: ObjectId,
    content: Content,
}

impl Known {
    /// `None` if the record has another form: the chart is read again then. What is held counts as what the chart is: it is compared, and not
    /// read again.
    fn of(version: &ChartVersion, held: &str) -> Option<Self> {
        let digest = if held.is_empty() { &version.digest } else { held };
        Some(Self {
            commit: commit(version)?,
            content: Content::parse(digest, ObjectId::from_hex)?,
        })
    }
}

/// The commit that a version was resolved to.
fn commit(version: &ChartVersion) -> Option<ObjectId> {
    let (_, commit) = version.url.rsplit_once(COMMIT)?;
    ObjectId::from_hex(commit)
}

//! Charts in Git repositories.
//!
//! ```text
//! reference ─► references (cached by what is queried) ─► commit ─► trees (cached by commit) ─► changed? ─► files ─► archive
//! ```
//!
//! A poll is one small request, and nothing else if the reference still names the same commit. Of another commit its folders are
//! fetched, once for all charts of the repository, and only of a chart that has changed its files.

mod chart;
pub mod error;
mod greetings;
mod http_session;
mod read;
mod references;
mod source;
mod ssh;
mod trees;
mod version;

use std::{sync::Arc, time::Instant};

use helmops_fair::ByteBudget;
use helmops_git::{
    GitChart, Limits, Location, ObjectId, Pack, Reference, Selected,
    chart::{Content, PackedChart},
    wire::{Advertisement, Capabilities, FetchRequest, ReferenceQuery, References},
};
use helmops_runtime::compute::Compute;
use reqwest::Url;

pub use self::{
    error::{GitError, SshProblem},
    ssh::HostKeyError,
};
use self::{
    greetings::{Greeting, Greetings, RepositoryKey},
    http_session::HttpSession,
    references::ReferencesKey,
    source::{Source, Transport},
    ssh::{SshBackoffs, SshSession},
    trees::{TreePack, TreesKey},
};
use super::{
    access::Access,
    bounds::ReadMemory,
    cache::{Cache, CacheSettings, Sizes},
    http::HttpClient,
    metrics::FetchMetrics,
    permits::RequestPermit,
};

/// Git repositories, and what is cached of them.
#[derive(Debug)]
pub struct GitRepositories {
    references: Cache<ReferencesKey, References, GitError>,
    trees: Cache<TreesKey, TreePack, GitError>,
    greetings: Greetings,
    ssh: SshBackoffs,
    limits: Limits,
    budget: ByteBudget,
    /// The permits for reading packs and packing charts.
    pub compute: Compute,
}

/// What a poll has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitPoll {
    /// The reference still names the same commit.
    SameCommit,
    /// It names another commit, in which the chart is the same.
    SameContent(Selected),
    /// The chart is another one.
    Changed(Selected, Box<PackedChart>),
}

/// What is known of a chart from before.
#[derive(Clone, Copy, Debug)]
pub struct KnownChart<'a> {
    /// The commit that it was found in.
    pub commit: ObjectId,
    /// What it consists of.
    pub content: &'a Content,
}

/// The limits of one operation.
#[derive(Clone, Copy, Debug)]
pub struct GitQuery<'a> {
    /// What is known of the chart; `None` if it has to be fetched in any case.
    pub known: Option<KnownChart<'a>>,
    /// A list of references is fresh if its request started at this time or later.
    pub since: Instant,
    /// Maximum size of the archive, in bytes.
    pub archive: usize,
}

impl GitRepositories {
    /// Creates empty caches.
    pub fn new(
        settings: &CacheSettings,
        limits: Limits,
        budget: ByteBudget,
        compute: Compute,
        fetches: &FetchMetrics,
    ) -> Self {
        Self {
            references: Cache::new(
                settings.clone(),
                Sizes {
                    key: ReferencesKey::bytes,
                    value: References::bytes,
                },
                fetches.clone(),
            ),
            trees: Cache::new(
                settings.clone(),
                Sizes {
                    key: TreesKey::bytes,
                    value: TreePack::bytes,
                },
                fetches.clone(),
            ),
            greetings: Greetings::default(),
            ssh: SshBackoffs::default(),
            limits,
            budget,
            compute,
        }
    }

    /// Polls for a chart.
    ///
    /// # Errors
    /// If the repository cannot be read, or has no such commit or chart.
    pub async fn poll(
        &self,
        http: &HttpClient,
        access: &Access,
        chart: &GitChart,
        query: GitQuery<'_>,
    ) -> Result<GitPoll, GitError> {
        let url = source::url(&chart.location).ok_or(GitError::Location)?;
        let source = Source {
            repositories: self,
            http,
            access,
            location: &chart.location,
            url: &url,
        };
        let selected = source.select(&chart.reference, query.since).await?;
        if query.known.is_some_and(|known| known.commit == selected.commit) {
            return Ok(GitPoll::SameCommit);
        }
        let trees = source.trees(selected.commit, query.since).await?;
        source.chart(chart, selected, trees, query).await
    }
}

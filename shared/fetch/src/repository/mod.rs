//! Versions in a Helm repository: its `index.yaml`.

mod cached;
mod error;
mod recorded;
mod source;

use std::{
    io::BufReader,
    sync::Arc,
    time::{Duration, Instant},
};

use helm_index::{
    self as index, ChartFilter, Detail, IndexEntry, IndexError, Layout, Outlook, OwnedVersionRequest,
    SelectError, VersionRequest, explain, outlook, select,
};
use helmops_fair::ByteBudget;
use helmops_model::chart::resolved::ChartVersion;
use helmops_runtime::compute::Compute;
use reqwest::StatusCode;

use self::{
    cached::{CachedIndex, ChartScope, IndexKey},
    recorded::{digest, recorded_url},
    source::{IndexSource, validators},
};
pub use self::{
    error::RepositoryError,
    source::{index_url, normalized_index_url},
};
use super::{
    access::Access,
    bounds::ReadMemory,
    cache::{Cache, CacheSettings, Requester, Sizes},
    explain::{ChartExplanation, Listed, ListedVersion},
    http::{FetchError, FetchErrorKind, HttpClient, HttpResponse, Limits, read_error},
    metrics::FetchMetrics,
    permits::RequestPermit,
    poll::PollQuery,
    selection::select_from,
};

/// Far above the largest public indexes. The memory for reading does not depend on it.
pub const LIMITS: Limits = Limits {
    wire: 128 << 20,
    decoded: 256 << 20,
};

/// A read that was too large is repeated after this time, because the requested charts and the index may have changed.
const TOO_LARGE: Duration = Duration::from_hours(1);

/// The charts that HelmOps use from a repository, of all namespaces or of one, given the URL of its index as returned by
/// [`normalized_index_url`].
pub type ChartInterest<'a> = dyn Fn(&str, Option<&str>) -> ChartFilter + Send + Sync + 'a;

/// Helm repositories, and their cached indexes.
#[derive(Debug)]
pub struct Repositories {
    cache: Cache<IndexKey, CachedIndex, RepositoryError>,
    limits: Limits,
    detail: Detail,
    budget: ByteBudget,
    /// The permits for selections from long lists.
    pub compute: Compute,
    fetches: FetchMetrics,
}

/// A chart in a repository.
#[derive(Clone, Copy, Debug)]
pub struct ChartRef<'a> {
    /// URL of the repository.
    pub repo: &'a str,
    /// Name of the chart.
    pub chart: &'a str,
}

impl Repositories {
    /// Creates an empty cache of repositories, with these limits for an index.
    pub fn new(
        settings: CacheSettings,
        limits: Limits,
        budget: ByteBudget,
        compute: Compute,
        fetches: FetchMetrics,
    ) -> Self {
        let sizes = Sizes {
            key: IndexKey::bytes,
            value: CachedIndex::bytes,
        };
        Self {
            cache: Cache::new(settings, sizes, fetches.clone()),
            limits,
            detail: Detail::Selection,
            budget,
            compute,
            fetches,
        }
    }

    /// With what a person wants to know of each version.
    pub const fn keep_details(&mut self) {
        self.detail = Detail::Full;
    }

    /// Resolves a request to a version, from the index at `since` or later.
    ///
    /// # Errors
    /// If no version matches, or the index cannot be read.
    pub async fn version(
        &self,
        http: &HttpClient,
        access: &Access,
        interest: &ChartInterest<'_>,
        chart: ChartRef<'_>,
        request: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RepositoryError> {
        let entry = self.entry(http, access, interest, chart, request, since);
        let entry = Box::pin(entry).await?;
        chart_version(chart.repo, entry)
    }

    /// As [`Self::version`], with what the same index says about the deployed version, which is empty if there is none.
    ///
    /// # Errors
    /// If the index cannot be read. That no version matches is a result.
    pub async fn poll(
        &self,
        http: &HttpClient,
        access: &Access,
        interest: &ChartInterest<'_>,
        chart: ChartRef<'_>,
        PollQuery { request, deployed }: PollQuery<'_>,
        since: Instant,
    ) -> Result<(Result<ChartVersion, RepositoryError>, Outlook), RepositoryError> {
        let (source, index) = self.own_index(http, access, interest, chart, since).await?;
        let entry = self
            .select_entry(access, Arc::clone(&index), chart.chart, request)
            .await;
        let versions = index.index.versions(chart.chart);
        let len = versions.map_err(|error| source.index_error(error))?.len();
        let name = chart.chart.to_owned();
        let request = OwnedVersionRequest::from(request);
        let (deployed, selected) = (
            deployed.to_owned(),
            entry.as_ref().ok().map(|entry| entry.version.clone()),
        );
        let work = move || {
            let entries = index.index.versions(&name).unwrap_or_default();
            outlook(entries, &request.borrowed(), &deployed, selected.as_deref())
        };
        let outlook = select_from(&self.compute, &access.namespace, len, work).await;
        let version = entry.map_err(|error| source.selection_error(error));
        Ok((
            version.and_then(|entry| chart_version(chart.repo, entry)),
            outlook,
        ))
    }

    /// The versions of the chart in the index at `since` or later, and why each is selected or not.
    ///
    /// # Errors
    /// If the index cannot be read, or lacks the chart.
    pub async fn explain(
        &self,
        http: &HttpClient,
        access: &Access,
        interest: &ChartInterest<'_>,
        chart: ChartRef<'_>,
        request: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartExplanation, RepositoryError> {
        let (source, index) = self.own_index(http, access, interest, chart, since).await?;
        let ChartRef { repo, chart } = chart;
        let versions = index.index.versions(chart);
        let len = versions.map_err(|error| source.index_error(error))?.len();
        let base = index_url(repo).map_err(RepositoryError::Fetch)?;
        let (chart, request) = (chart.to_owned(), OwnedVersionRequest::from(request));
        let work = move || {
            let index = &index.index;
            let entries = index.versions(&chart).unwrap_or_default();
            let explanation = explain(&chart, entries, &request.borrowed());
            let listed = |entry: &IndexEntry| ListedVersion {
                version: entry.version.clone(),
                digest: digest(&entry.digest).to_owned(),
                url: recorded_url(&base, &entry.url),
                created: entry.created.clone(),
                deprecated: entry.deprecated,
                app_version: entry
                    .details
                    .as_ref()
                    .map(|details| details.app_version.clone())
                    .unwrap_or_default(),
            };
            let skipped = index.skipped_entries.get(&chart);
            ChartExplanation {
                list: Listed::new(explanation, listed),
                skipped: skipped.cloned().unwrap_or_default(),
                other_tags: 0,
            }
        };
        Ok(select_from(&self.compute, &access.namespace, len, work).await)
    }

    /// The entry of a version, as the index has it at `since` or later.
    ///
    /// # Errors
    /// If no version matches, or the index cannot be read.
    pub async fn entry(
        &self,
        http: &HttpClient,
        access: &Access,
        interest: &ChartInterest<'_>,
        chart: ChartRef<'_>,
        request: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<IndexEntry, RepositoryError> {
        let (source, index) = self.own_index(http, access, interest, chart, since).await?;
        self.select_entry(access, index, chart.chart, request)
            .await
            .map_err(|error| source.selection_error(error))
    }

    /// The repository of a chart with the access of a HelmOp, and its index at `since` or later.
    async fn own_index<'a>(
        &self,
        http: &HttpClient,
        access: &'a Access,
        interest: &ChartInterest<'_>,
        ChartRef { repo, chart }: ChartRef<'_>,
        since: Instant,
    ) -> Result<(IndexSource<'a>, Arc<CachedIndex>), RepositoryError> {
        let source = IndexSource::new(repo, access).map_err(RepositoryError::Fetch)?;
        match self.index(http, &source, interest, chart, since).await {
            Ok(index) => Ok((source, index)),
            Err(error) => Err(source.own_error(error)),
        }
    }

    /// The entry of the requested version.
    async fn select_entry(
        &self,
        access: &Access,
        index: Arc<CachedIndex>,
        chart: &str,
        request: &VersionRequest<'_>,
    ) -> Result<IndexEntry, SelectionError> {
        let versions = index.index.versions(chart).map_err(SelectionError::Index)?;
        let len = versions.len();
        let (chart, request) = (chart.to_owned(), OwnedVersionRequest::from(request));
        let work = move || {
            let entries = index.index.versions(&chart).map_err(SelectionError::Index)?;
            let selected = select(&chart, entries, &request.borrowed());
            selected.cloned().map_err(SelectionError::Select)
        };
        select_from(&self.compute, &access.namespace, len, work).await
    }

    /// The index, with the chart and all others that can be read together with it.
    async fn index(
        &self,
        http: &HttpClient,
        source: &IndexSource<'_>,
        interest: &ChartInterest<'_>,
        chart: &str,
        since: Instant,
    ) -> Result<Arc<CachedIndex>, RepositoryError> {
        let namespace = &source.access.namespace;
        for scope in [ChartScope::All, ChartScope::Namespace(Arc::clone(namespace))] {
            let key = source.key(scope);
            if self
                .cache
                .has_failed(&key, TOO_LARGE, RepositoryError::is_too_large)
            {
                continue;
            }
            match self
                .scoped_index(http, source, interest, &key, chart, since)
                .await
            {
                Err(error) if error.may_succeed_with_fewer_charts() => {}
                other => return other,
            }
        }
        let key = source.key(ChartScope::Chart(chart.to_owned()));
        self.scoped_index(http, source, interest, &key, chart, since)
            .await
    }

    async fn scoped_index(
        &self,
        http: &HttpClient,
        source: &IndexSource<'_>,
        interest: &ChartInterest<'_>,
        key: &IndexKey,
        chart: &str,
        since: Instant,
    ) -> Result<Arc<CachedIndex>, RepositoryError> {
        let requester = Requester {
            namespace: &source.access.namespace,
            since,
        };
        let has_chart = |index: &CachedIndex| index.charts.contains(chart);
        let acquire = || http.permits.request(&source.access.namespace, &source.url);
        self.cache
            .get(key, requester, has_chart, acquire, async |permit, cached| {
                let mut charts = match &key.scope {
                    ChartScope::All => interest(&key.url, None),
                    ChartScope::Namespace(namespace) => interest(&key.url, Some(namespace)),
                    ChartScope::Chart(_) => ChartFilter::new(),
                };
                charts.insert(chart.to_owned());
                self.fetch(http, &permit, source, charts, cached).await
            })
            .await
    }

    async fn fetch(
        &self,
        http: &HttpClient,
        permit: &RequestPermit,
        source: &IndexSource<'_>,
        charts: ChartFilter,
        cached: Option<Arc<CachedIndex>>,
    ) -> Result<Arc<CachedIndex>, RepositoryError> {
        let layout = cached.as_ref().map_or(Layout::Any, |index| index.layout);
        let response = source
            .request(http, permit, cached.as_deref())
            .await
            .map_err(RepositoryError::Fetch)?;
        if response.status() == StatusCode::NOT_MODIFIED
            && let Some(cached) = cached
        {
            response.discard_body();
            return Ok(cached);
        }
        match self.read(source, response, &charts, layout).await {
            // The part that was read is not stored, so the index is fetched again, and from now on read with the general reader.
            Err(RepositoryError::Index { source: error, .. })
                if matches!(*error, IndexError::UnsupportedLayout) =>
            {
                let response = source
                    .request(http, permit, None)
                    .await
                    .map_err(RepositoryError::Fetch)?;
                self.read(source, response, &charts, Layout::General).await
            }
            other => other,
        }
        .map(Arc::new)
    }

    async fn read(
        &self,
        source: &IndexSource<'_>,
        response: HttpResponse,
        charts: &ChartFilter,
        layout: Layout,
    ) -> Result<CachedIndex, RepositoryError> {
        if response.status() != StatusCode::OK {
            let kind = source.refusal(response.status());
            return Err(RepositoryError::Fetch(response.into_error(kind)));
        }
        let validators = validators(response.headers());
        let is_cross_origin = response.is_cross_origin();
        let filter = charts.clone();
        let mut memory = ReadMemory::new(&self.budget, &source.access.namespace);
        let detail = self.detail;
        let index = response
            .read(self.limits, move |body| {
                match index::read_metered(BufReader::new(body), &filter, layout, detail, &mut memory) {
                    Err(IndexError::Input(error)) => Err(read_error(&error)),
                    other => Ok(other),
                }
            })
            .await
            .map_err(RepositoryError::Fetch)?
            .map_err(|error| match error {
                // These errors quote nothing of the content.
                IndexError::UnsupportedLayout | IndexError::TooManyVersions | IndexError::OverBudget(_) => {
                    source.index_error(error)
                }
                _ if is_cross_origin => RepositoryError::Fetch(FetchError::new(
                    &source.display_url(),
                    FetchErrorKind::cross_origin(),
                )),
                _ => source.index_error(error),
            })?;
        self.fetches.skipped_entries.inc_by(index.skipped);
        Ok(CachedIndex {
            index,
            charts: charts.clone(),
            layout,
            validators,
        })
    }
}

/// The version of an entry of the index of a repository.
fn chart_version(repo: &str, entry: IndexEntry) -> Result<ChartVersion, RepositoryError> {
    let base = index_url(repo).map_err(RepositoryError::Fetch)?;
    Ok(ChartVersion {
        digest: digest(&entry.digest).to_owned(),
        url: recorded_url(&base, &entry.url),
        version: entry.version,
    })
}

/// Why no entry of an index is selected.
enum SelectionError {
    Index(IndexError),
    Select(SelectError),
}

#[cfg(test)]
mod tests;

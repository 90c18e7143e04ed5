//! Versions in a Helm repository: its `index.yaml`.

use std::{io::BufReader, sync::Arc, time::Instant};

use helm_index::{
    self as index, ChartFilter, Detail, Index, IndexEntry, IndexError, Layout, OwnedVersionRequest,
    SelectError, VersionRequest, explain, select,
};
use helmops_core::chart::{
    location::{self, without_credentials},
    resolved::ChartVersion,
    url::redacted,
};
use helmops_runtime::error_class::{Classified, ClassifiedError};
use reqwest::{
    Method, StatusCode, Url,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
        IF_NONE_MATCH, LAST_MODIFIED,
    },
};
use thiserror::Error;

use super::{
    access::{Access, Login, NotSentReason, Target},
    budget::Budget,
    cache::{Cache, CacheSettings, Requester, Sizes},
    chart_errors,
    explain::{ChartExplanation, Listed, ListedVersion},
    http::{
        FetchError, FetchErrorKind, HttpClient, HttpRequest, HttpResponse, Limits, RepositoryId,
        RequestPermit, read_error,
    },
    metrics::{FetchMetrics, RequestKind},
    overflow::Overflows,
    selection::SelectionPermits,
};

/// Far above the largest public indexes. The memory for reading does not depend on it.
pub const LIMITS: Limits = Limits {
    wire: 128 << 20,
    decoded: 256 << 20,
};

/// The charts that HelmOps use from a repository, of all namespaces or of one, given the URL of its index as returned by
/// [`normalized_index_url`].
pub type ChartInterest<'a> = dyn Fn(&str, Option<&str>) -> ChartFilter + Send + Sync + 'a;

/// Why no version could be resolved from a repository.
#[derive(Clone, Debug, Error)]
pub enum RepositoryError {
    /// The index could not be fetched.
    #[error(transparent)]
    Fetch(FetchError),
    /// The index is invalid, too large, or lacks the chart.
    #[error("{url}: {source}")]
    Index {
        /// Its URL, without credentials.
        url: String,
        /// The cause.
        source: Arc<IndexError>,
    },
    /// The index has no matching version.
    #[error("{source} ({url})")]
    Select {
        /// URL of the index, without credentials.
        url: String,
        /// The cause.
        source: SelectError,
    },
}

impl ClassifiedError for RepositoryError {
    fn classify(&self) -> Classified {
        match self {
            Self::Fetch(error) => error.kind.classify(),
            Self::Index { source, .. } => chart_errors::of_index(source),
            Self::Select { source, .. } => chart_errors::of_selection(source),
        }
    }
}

impl RepositoryError {
    /// Whether the request for the index failed.
    pub const fn is_of_request(&self) -> bool {
        matches!(self, Self::Fetch(_))
    }

    /// Whether reading fewer charts may succeed.
    fn may_succeed_with_fewer_charts(&self) -> bool {
        matches!(self, Self::Index { source, .. }
            if matches!(**source, IndexError::TooManyVersions | IndexError::OverBudget(_)))
    }

    /// Whether that stays so for a while.
    fn is_too_large(&self) -> bool {
        matches!(self, Self::Index { source, .. } if matches!(**source, IndexError::TooManyVersions))
    }
}

/// Helm repositories, and their cached indexes.
#[derive(Debug)]
pub struct Repositories {
    cache: Cache<IndexKey, CachedIndex, RepositoryError>,
    overflows: Overflows<IndexKey>,
    limits: Limits,
    detail: Detail,
    budget: Budget,
    selections: SelectionPermits,
    fetches: FetchMetrics,
}

/// The key of a cached index: it is shared only by requests with the same credentials and the same trust.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct IndexKey {
    url: String,
    identity: [u8; 32],
    scope: ChartScope,
}

/// Which charts are read together. If they are too many, fewer are read, so that no HelmOp fails because of the charts of
/// others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ChartScope {
    /// Those of all HelmOps.
    All,
    /// Those of the HelmOps of this namespace.
    Namespace(Arc<str>),
    /// This chart.
    Chart(String),
}

impl IndexKey {
    fn bytes(&self) -> usize {
        let scope = match &self.scope {
            ChartScope::All => 0,
            ChartScope::Namespace(namespace) => namespace.len(),
            ChartScope::Chart(chart) => chart.len(),
        };
        self.url.len() + scope
    }
}

/// The content of an index that is cached.
#[derive(Debug)]
struct CachedIndex {
    index: Index,
    charts: ChartFilter,
    layout: Layout,
    validators: HeaderMap,
}

/// A chart in a repository.
#[derive(Clone, Copy, Debug)]
pub struct ChartRef<'a> {
    /// URL of the repository.
    pub repo: &'a str,
    /// Name of the chart.
    pub chart: &'a str,
}

/// A repository with the access of one HelmOp.
struct IndexSource<'a> {
    url: Url,
    access: &'a Access,
    login: Option<Login>,
    /// Why the credentials of the Secret are not sent.
    not_sent: Option<NotSentReason>,
}

impl Repositories {
    /// Creates an empty cache of repositories, with these limits for an index.
    pub fn new(
        settings: CacheSettings,
        limits: Limits,
        budget: Budget,
        selections: SelectionPermits,
        fetches: FetchMetrics,
    ) -> Self {
        let sizes = Sizes {
            key: IndexKey::bytes,
            value: CachedIndex::bytes,
        };
        Self {
            cache: Cache::new(settings, sizes, fetches.clone()),
            overflows: Overflows::default(),
            limits,
            detail: Detail::Selection,
            budget,
            selections,
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
        let base = index_url(chart.repo).map_err(RepositoryError::Fetch)?;
        Ok(ChartVersion {
            digest: digest(&entry.digest).to_owned(),
            url: recorded_url(&base, &entry.url),
            version: entry.version,
        })
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
        Ok(self.selections.run(access, len, work).await)
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
            .map_err(|error| match error {
                SelectionError::Index(error) => source.index_error(error),
                SelectionError::Select(error) => RepositoryError::Select {
                    url: source.display_url(),
                    source: error,
                },
            })
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
        self.selections.run(access, len, work).await
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
            if self.overflows.contains(&key, Instant::now()) {
                continue;
            }
            match self
                .scoped_index(http, source, interest, &key, chart, since)
                .await
            {
                Err(error) if error.is_too_large() => self.overflows.record(key, Instant::now()),
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
        let Access {
            namespace,
            time_limit,
            ..
        } = source.access;
        let acquire = || http.acquire_permit(namespace, time_limit, &source.url);
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
        let mut reservation = self.budget.reservation(&source.access.namespace);
        let detail = self.detail;
        let index = response
            .read(self.limits, move |body| {
                match index::read_metered(BufReader::new(body), &filter, layout, detail, &mut reservation) {
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

/// Why no entry of an index is selected.
enum SelectionError {
    Index(IndexError),
    Select(SelectError),
}

impl CachedIndex {
    fn bytes(&self) -> usize {
        let validators = self.validators.values().map(HeaderValue::len).sum::<usize>();
        self.index.bytes() + self.charts.iter().map(String::len).sum::<usize>() + validators
    }
}

impl<'a> IndexSource<'a> {
    fn new(repo: &str, access: &'a Access) -> Result<Self, FetchError> {
        let Target { url, login, not_sent } = access.target(index_url(repo)?);
        Ok(Self {
            url,
            access,
            login,
            not_sent,
        })
    }

    async fn request(
        &self,
        http: &HttpClient,
        permit: &RequestPermit,
        cached: Option<&CachedIndex>,
    ) -> Result<HttpResponse, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(login) = &self.login {
            headers.insert(AUTHORIZATION, login.basic());
        }
        if let Some(cached) = cached {
            headers.extend(cached.validators.clone());
        }
        let identity = self.access.identity(self.login.as_ref());
        let request = HttpRequest {
            permit: permit.clone(),
            kind: RequestKind::Index,
            method: Method::GET,
            url: self.url.clone(),
            headers,
            tls: &self.access.tls,
            repository: RepositoryId {
                url: &self.url,
                identity: &identity,
            },
        };
        http.send(request).await
    }

    fn refusal(&self, status: StatusCode) -> FetchErrorKind {
        self.access.refusal(status, self.not_sent)
    }

    /// The error of a request that may have been sent for another HelmOp: what it reports about credentials is replaced by what
    /// applies to this HelmOp.
    fn own_error(&self, error: RepositoryError) -> RepositoryError {
        match error {
            RepositoryError::Fetch(FetchError { url, kind }) => RepositoryError::Fetch(FetchError {
                url,
                kind: self.access.own_error(kind, self.not_sent),
            }),
            other => other,
        }
    }

    fn key(&self, scope: ChartScope) -> IndexKey {
        IndexKey {
            url: self.url.to_string(),
            identity: self.access.identity(self.login.as_ref()),
            scope,
        }
    }

    fn index_error(&self, error: IndexError) -> RepositoryError {
        RepositoryError::Index {
            url: self.display_url(),
            source: Arc::new(error),
        }
    }

    /// The URL of the index, for messages.
    fn display_url(&self) -> String {
        redacted(self.url.as_str())
    }
}

/// The URL of an archive, without credentials: it is relative to the index or absolute. Empty if it is not a URL, because it is
/// recorded, and an index may contain anything.
fn recorded_url(index: &Url, url: &str) -> String {
    let absolute = without_credentials(index.clone()).join(url);
    absolute.map_or_else(|_| String::new(), |url| redacted(url.as_str()))
}

/// The digest of an index entry, if it is plausible: it is recorded, and an index may contain anything.
fn digest(text: &str) -> &str {
    // The longest in use, SHA-512 in hexadecimal, has 128 characters and an optional prefix.
    let is_digest = text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_digest { text } else { "" }
}

/// The headers of the next conditional request. Both values are repeated byte by byte: some servers send invalid entity
/// tags.
fn validators(headers: &HeaderMap) -> HeaderMap {
    let pairs: [(HeaderName, HeaderName); 2] = [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)];
    pairs
        .into_iter()
        .filter_map(|(from, to)| Some((to, headers.get(from)?.clone())))
        .collect()
}

/// The URL of the index of a repository, without credentials and normalised: the same text for all spellings of the
/// repository. `None` if it is not a URL.
pub fn normalized_index_url(repo: &str) -> Option<String> {
    let url = index_url(repo).ok()?;
    Some(without_credentials(url).into())
}

/// The URL of the index of a repository, with the credentials of the repository.
pub fn index_url(repo: &str) -> Result<Url, FetchError> {
    let url =
        location::url(repo).map_err(|error| FetchError::new(repo, FetchErrorKind::Url(error.to_string())))?;
    Ok(location::index_url(&url))
}

#[cfg(test)]
mod tests {
    use helm_index::OverBudget;
    use helmops_core::reason::Reason;
    use helmops_runtime::error_class::{Class, Scope, classified};

    use super::*;

    #[test]
    fn archive_urls_are_relative_to_the_index_or_absolute() {
        let access = Access::default();
        let source = IndexSource::new("https://u:geheim@h/charts?token=geheim", &access).unwrap();
        assert_eq!(
            recorded_url(&source.url, "web-1.0.0.tgz"),
            "https://h/charts/web-1.0.0.tgz"
        );
        assert_eq!(
            recorded_url(&source.url, "https://cdn/web-1.0.0.tgz?sig=geheim"),
            "https://cdn/web-1.0.0.tgz?…"
        );
        assert!(!source.display_url().contains("geheim"));
    }

    #[test]
    fn an_invalid_archive_url_is_not_recorded() {
        let access = Access::default();
        let source = IndexSource::new("https://h/charts", &access).unwrap();
        for text in [
            "https://[bad\u{7}\u{1b}[31m/web.tgz",
            "https://u:geheim@h:99999/web.tgz",
            "http://",
        ] {
            assert_eq!(recorded_url(&source.url, text), "", "{text:?}");
        }
        for text in ["web\n\u{1b}[31m.tgz", "https://cdn/\u{7}.tgz"] {
            let archive = recorded_url(&source.url, text);
            assert!(
                !archive.is_empty() && !archive.contains(char::is_control),
                "{archive:?}"
            );
        }
    }

    #[test]
    fn an_invalid_digest_is_not_recorded() {
        let sha = "0".repeat(64);
        assert_eq!(digest(&sha), sha);
        assert_eq!(digest(&format!("sha256:{sha}")), format!("sha256:{sha}"));
        for text in ["\u{1b}[31m", "a b", "ä", &"a".repeat(257)] {
            assert_eq!(digest(text), "", "{text:?}");
        }
    }

    #[test]
    fn entity_tags_are_repeated_byte_by_byte() {
        let mut headers = HeaderMap::new();
        headers.insert(ETAG, HeaderValue::from_bytes(b"no quotes \xff").unwrap());
        let sent = validators(&headers);
        assert_eq!(sent.get(IF_NONE_MATCH).unwrap().as_bytes(), b"no quotes \xff");
        assert_eq!(sent.len(), 1);
    }

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let url = || "https://h/index.yaml".to_owned();
        let fetch = FetchError::new(&url(), FetchErrorKind::ConnectionRefused);
        let index = |source| RepositoryError::Index {
            url: url(),
            source: Arc::new(source),
        };
        let select = RepositoryError::Select {
            url: url(),
            source: SelectError::NoVersions { chart: url() },
        };
        for (error, reason, class) in [
            (
                RepositoryError::Fetch(fetch),
                Reason::ConnectionFailed,
                Class::Transient(Scope::Host),
            ),
            (
                index(IndexError::NoSuchChart(url())),
                Reason::ChartNotFound,
                Class::Absent,
            ),
            (
                index(IndexError::OverBudget(OverBudget)),
                Reason::Busy,
                Class::Transient(Scope::Namespace),
            ),
            (select, Reason::NoMatchingVersion, Class::Absent),
        ] {
            assert_eq!(error.classify(), classified(reason, class), "{error}");
        }
    }
}

//! Versions in an OCI registry: its tags and manifests. The requests and the decoding of responses are in
//! [`helmops_core::chart::registry`].

mod error;
mod session;
mod tokens;

use std::{
    io::{self, Read},
    sync::Arc,
    time::Instant,
};

use bounded_text::hex;
use helm_index::tags::{TagList, TagListError, TaggedVersion};
use helm_index::{Meter, OverBudget, OwnedVersionRequest, VersionRequest, explain, select};
use helmops_core::chart::{
    registry::{
        digest::Digest,
        endpoint::{Endpoint, MANIFEST_TYPES, Transport},
        link,
        query::{RegistryQuery, query},
        reference::Reference,
        tags_page::{self, MAX_PAGES, PageError},
    },
    resolved::ChartVersion,
    url::redacted,
};
use reqwest::{
    Method, StatusCode, Url,
    header::{HeaderValue, LINK},
};
use ring::digest::{Context, SHA256};

pub use self::error::RegistryError;
use self::{
    session::{RegistryRequest, Session},
    tokens::{RegistryKey, Tokens},
};
use super::{
    access::Access,
    budget::{Budget, Reservation},
    cache::{Cache, CacheSettings, Requester, Sizes},
    explain::{ChartExplanation, Listed, ListedVersion, Listing},
    http::{FetchError, FetchErrorKind, HttpClient, HttpResponse, Limits, RequestPermit, read_error},
    metrics::{FetchMetrics, RequestKind},
    selection::SelectionPermits,
};

/// Maximum size of a manifest, in bytes; registries accept no larger ones.
const MAX_MANIFEST: u64 = 4 << 20;

/// Size of the chunks in which a body is read, in bytes.
const CHUNK: usize = 16 << 10;

/// OCI registries, with their cached tokens, tags and digests.
#[derive(Debug)]
pub struct Registries {
    tokens: Tokens,
    tags: Cache<RegistryKey, TagList, RegistryError>,
    /// Digests, by tag.
    manifests: Cache<(RegistryKey, String), String, RegistryError>,
    budget: Budget,
    selections: SelectionPermits,
}

/// A chart in a registry, with the access of one HelmOp.
pub struct RegistryChart<'a> {
    repo: String,
    reference: Reference<'a>,
    endpoint: Endpoint<'a>,
    session: Session<'a>,
    access: &'a Access,
    budget: &'a Budget,
}

impl Registries {
    /// Creates empty caches.
    pub fn new(
        settings: &CacheSettings,
        budget: Budget,
        selections: SelectionPermits,
        fetches: FetchMetrics,
    ) -> Self {
        let tags = Sizes {
            key: RegistryKey::bytes,
            value: TagList::bytes,
        };
        let manifests = Sizes {
            key: |(key, tag): &(RegistryKey, String)| key.bytes() + tag.len(),
            value: String::len,
        };
        Self {
            tokens: Tokens::default(),
            tags: Cache::new(settings.part(2), tags, fetches.clone()),
            manifests: Cache::new(settings.part(2), manifests, fetches),
            budget,
            selections,
        }
    }

    /// Resolves a request to a version, from the content of the registry at `since` or later.
    ///
    /// # Errors
    /// If no version matches, or the registry cannot be read.
    pub async fn version(
        &self,
        http: &HttpClient,
        access: &Access,
        repo: &str,
        request: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let chart = self.chart(http, access, repo)?;
        self.version_of_chart(&chart, request, since).await
    }

    /// As [`Self::version`], for a chart of [`Self::chart`].
    ///
    /// # Errors
    /// If no version matches, or the registry cannot be read.
    pub async fn version_of_chart(
        &self,
        chart: &RegistryChart<'_>,
        request: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let result = self.resolve(chart, request, since).await;
        result.map_err(|error| chart.own_error(error))
    }

    async fn resolve(
        &self,
        chart: &RegistryChart<'_>,
        request: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let query = query(&chart.reference, request).map_err(|source| RegistryError::Query {
            repo: chart.repo.clone(),
            source,
        })?;
        match query {
            RegistryQuery::Tag(tagged) => self.manifest(chart, &tagged, since).await,
            RegistryQuery::TagThenList(tagged) => match self.manifest(chart, &tagged, since).await {
                Err(error) if error.is_unknown_manifest() => {
                    self.select_from_tags(chart, request, since).await
                }
                other => other,
            },
            RegistryQuery::List => self.select_from_tags(chart, request, since).await,
        }
    }

    /// A chart in a registry.
    ///
    /// # Errors
    /// If the reference is invalid.
    pub fn chart<'a>(
        &'a self,
        http: &'a HttpClient,
        access: &'a Access,
        repo: &'a str,
    ) -> Result<RegistryChart<'a>, RegistryError> {
        let reference = Reference::parse(repo).map_err(|source| RegistryError::Reference {
            repo: redacted(repo),
            source,
        })?;
        let transport = if access.plain_http {
            Transport::PlainHttp
        } else {
            Transport::Https
        };
        let endpoint = Endpoint::of(transport, &reference).map_err(|error| {
            let kind = FetchErrorKind::Url(error.to_string());
            RegistryError::Fetch(FetchError::new(repo, kind))
        })?;
        Ok(RegistryChart {
            repo: redacted(repo),
            reference,
            session: Session::new(http, &self.tokens, access, endpoint.clone()),
            endpoint,
            access,
            budget: &self.budget,
        })
    }

    async fn select_from_tags(
        &self,
        chart: &RegistryChart<'_>,
        request: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let tags = self.tags(chart, since).await?;
        let (len, repository, request) = (
            tags.len(),
            chart.reference.repository.to_owned(),
            OwnedVersionRequest::from(request),
        );
        let work = move || select(&repository, tags.versions(), &request.borrowed()).map(TaggedVersion::from);
        let selected = self.selections.run(chart.access, len, work).await;
        let selected = selected.map_err(|source| RegistryError::Select {
            repo: chart.repo.clone(),
            source,
        })?;
        self.manifest(chart, &selected, since).await
    }

    /// The tags at `since` or later.
    async fn tags(&self, chart: &RegistryChart<'_>, since: Instant) -> Result<Arc<TagList>, RegistryError> {
        let acquire = || chart.session.acquire_permit();
        let fetch = async |permit, _| chart.tags(&permit).await.map(Arc::new);
        self.tags
            .get(
                chart.session.key(),
                chart.requester(since),
                |_| true,
                acquire,
                fetch,
            )
            .await
    }

    /// The versions among the tags at `since` or later, and why each is selected or not; `None` if no selection needs them, and
    /// `listing` does not either.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub async fn explain(
        &self,
        chart: &RegistryChart<'_>,
        request: &VersionRequest<'_>,
        listing: Listing,
        since: Instant,
    ) -> Result<Option<ChartExplanation>, RegistryError> {
        let query = query(&chart.reference, request).map_err(|source| RegistryError::Query {
            repo: chart.repo.clone(),
            source,
        })?;
        if listing == Listing::AsNeeded && query != RegistryQuery::List {
            return Ok(None);
        }
        let tags = self.tags(chart, since).await;
        let tags = tags.map_err(|error| chart.own_error(error))?;
        // A tag in the reference is the only version that is accepted.
        let tag = match &query {
            RegistryQuery::Tag(tagged) => VersionRequest::parse(&tagged.version).ok(),
            RegistryQuery::TagThenList(_) | RegistryQuery::List => None,
        };
        let request = OwnedVersionRequest::from(tag.as_ref().unwrap_or(request));
        let (len, repository) = (tags.len(), chart.reference.repository.to_owned());
        let work = move || {
            let explanation = explain(&repository, tags.versions(), &request.borrowed());
            let listed = |tagged| ListedVersion {
                version: TaggedVersion::from(tagged).version,
                ..ListedVersion::default()
            };
            ChartExplanation {
                list: Listed::new(explanation, listed),
                skipped: Vec::new(),
                other_tags: tags.others(),
            }
        };
        Ok(Some(self.selections.run(chart.access, len, work).await))
    }

    /// Reads the digest of the manifest of a version.
    async fn manifest(
        &self,
        chart: &RegistryChart<'_>,
        tagged: &TaggedVersion,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let key = (chart.session.key().clone(), tagged.tag.clone());
        let acquire = || chart.session.acquire_permit();
        let fetch = async |permit, _| chart.digest(&permit, &tagged.tag).await.map(Arc::new);
        let digest = self
            .manifests
            .get(&key, chart.requester(since), |_| true, acquire, fetch)
            .await?;
        chart.version_of(tagged, &digest)
    }
}

impl RegistryChart<'_> {
    /// Waits until the namespace of the HelmOp may send requests to the registry.
    pub async fn acquire_permit(&self) -> RequestPermit {
        self.session.acquire_permit().await
    }

    /// The manifest with a digest.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub async fn manifest(&self, permit: &RequestPermit, digest: &str) -> Result<Vec<u8>, RegistryError> {
        let url = self.endpoint.manifest_url(digest);
        let response = self
            .session
            .send(permit, manifest_request(&Method::GET, &url))
            .await;
        let response = response.map_err(|error| self.own_error(error))?;
        response.bytes(MAX_MANIFEST).await.map_err(RegistryError::Fetch)
    }

    /// The response with a blob, which is not read yet.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub async fn blob(&self, permit: &RequestPermit, digest: &str) -> Result<HttpResponse, RegistryError> {
        let request = RegistryRequest {
            kind: RequestKind::Archive,
            method: &Method::GET,
            url: &self.endpoint.blob_url(digest),
            accept: "*/*",
        };
        let response = self.session.send(permit, request).await;
        response.map_err(|error| self.own_error(error))
    }

    /// The digest in the reference.
    pub fn pinned_digest(&self) -> Option<&str> {
        self.reference.digest.map(Digest::as_str)
    }

    fn requester(&self, since: Instant) -> Requester<'_> {
        Requester {
            namespace: &self.access.namespace,
            since,
        }
    }

    /// Digest of the manifest of a tag.
    async fn digest(&self, permit: &RequestPermit, tag: &str) -> Result<String, RegistryError> {
        let url = self.endpoint.manifest_url(tag);
        match self.head_digest(permit, &url).await? {
            Some(digest) => Ok(digest),
            None => self.computed_digest(permit, &url).await,
        }
    }

    /// The resolved version, after its digest was compared with that of the reference.
    fn version_of(&self, tagged: &TaggedVersion, digest: &str) -> Result<ChartVersion, RegistryError> {
        if let Some(expected) = self.reference.digest {
            expected
                .check(&tagged.tag, digest)
                .map_err(|source| RegistryError::Digest {
                    repo: self.repo.clone(),
                    source,
                })?;
        }
        Ok(ChartVersion {
            version: tagged.version.clone(),
            digest: digest.to_owned(),
            url: format!(
                "oci://{}/{}:{}",
                self.reference.registry, self.reference.repository, tagged.tag
            ),
        })
    }

    /// The digest from the headers, without the manifest; not all registries send it.
    async fn head_digest(&self, permit: &RequestPermit, url: &Url) -> Result<Option<String>, RegistryError> {
        let request = manifest_request(&Method::HEAD, url);
        let response = self.session.send(permit, request).await?;
        let digest = response
            .headers()
            .get("docker-content-digest")
            .and_then(|value| value.to_str().ok());
        // It is recorded, and the header may contain anything.
        let digest = digest
            .filter(|text| Digest::parse(text).is_ok())
            .map(str::to_owned);
        response.discard_body();
        Ok(digest)
    }

    async fn computed_digest(&self, permit: &RequestPermit, url: &Url) -> Result<String, RegistryError> {
        let request = manifest_request(&Method::GET, url);
        let response = self.session.send(permit, request).await?;
        let limits = Limits {
            wire: MAX_MANIFEST,
            decoded: MAX_MANIFEST,
        };
        response
            .read(limits, |body| sha256(body).map_err(|error| read_error(&error)))
            .await
            .map_err(RegistryError::Fetch)
    }

    /// All tags that are versions.
    async fn tags(&self, permit: &RequestPermit) -> Result<TagList, RegistryError> {
        let mut list = PartialTagList {
            list: TagList::default(),
            reservation: self.budget.reservation(&self.access.namespace),
        };
        let mut page = self.endpoint.tags_url();
        for _ in 0..MAX_PAGES {
            let (more, next) = self.page(permit, &page, list).await?;
            list = more;
            let Some(next) = next else {
                list.list.shrink();
                return Ok(list.list);
            };
            page = next;
        }
        Err(RegistryError::TooManyPages {
            repo: self.shared_name(),
            pages: MAX_PAGES,
        })
    }

    /// Adds a page to a list, on the thread that reads it. Also returns the URL of the next page.
    async fn page(
        &self,
        permit: &RequestPermit,
        url: &Url,
        list: PartialTagList,
    ) -> Result<(PartialTagList, Option<Url>), RegistryError> {
        let request = RegistryRequest {
            kind: RequestKind::Tags,
            method: &Method::GET,
            url,
            accept: "application/json",
        };
        let response = self.session.send(permit, request).await?;
        let is_cross_origin = response.is_cross_origin();
        let links: Vec<HeaderValue> = response.headers().get_all(LINK).iter().cloned().collect();
        let next = link::next(links.iter().map(HeaderValue::as_bytes), url).map_err(|source| {
            if is_cross_origin {
                return RegistryError::invalid_response(url.as_str(), is_cross_origin, source.to_string());
            }
            RegistryError::Link {
                url: redacted(url.as_str()),
                source,
            }
        });
        let limits = Limits {
            wire: tags_page::MAX_LEN as u64,
            decoded: tags_page::MAX_LEN as u64,
        };
        let read = response
            .read(limits, move |body| list.with_page(body))
            .await
            .map_err(RegistryError::Fetch)?;
        let next = next?;
        let list = read.map_err(|error| match error {
            TagPageError::Page(error) => {
                RegistryError::invalid_response(url.as_str(), is_cross_origin, error.to_string())
            }
            TagPageError::List(source) => RegistryError::TagList {
                repo: self.shared_name(),
                source,
            },
        })?;
        Ok((list, next))
    }

    /// The repository for errors that are shared between HelmOps: without tag and digest, which belong to one HelmOp.
    fn shared_name(&self) -> String {
        format!("oci://{}/{}", self.reference.registry, self.reference.repository)
    }

    /// The error of a request that may have been sent for another HelmOp: what it reports about credentials is replaced by what
    /// applies to this HelmOp.
    fn own_error(&self, error: RegistryError) -> RegistryError {
        let not_sent = self.session.not_sent();
        let error = match error {
            RegistryError::Refused { url, status, .. } if not_sent.is_some() && is_about_login(status) => {
                let kind = FetchErrorKind::Status(status);
                RegistryError::Fetch(FetchError { url, kind })
            }
            other => other,
        };
        let RegistryError::Fetch(FetchError { url, kind }) = error else {
            return error;
        };
        match self.access.own_error(kind, not_sent) {
            // The form of every other refusal of a registry.
            FetchErrorKind::Status(status) if is_about_login(status) => RegistryError::Refused {
                url,
                repository: self.endpoint.repository.to_owned(),
                status,
                code: None,
                detail: String::new(),
            },
            kind => RegistryError::Fetch(FetchError { url, kind }),
        }
    }
}

fn is_about_login(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// A list of tags that is being read, and the memory that is reserved for it.
struct PartialTagList {
    list: TagList,
    reservation: Reservation,
}

/// Why a page cannot be added to a list.
enum TagPageError {
    Page(PageError),
    List(TagListError),
}

impl From<OverBudget> for TagPageError {
    fn from(error: OverBudget) -> Self {
        Self::List(error.into())
    }
}

impl PartialTagList {
    fn with_page(mut self, body: impl Read) -> Result<Result<Self, TagPageError>, FetchErrorKind> {
        let bytes = match self.body(body) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Ok(Err(error.into())),
            Err(error) => return Err(read_error(&error)),
        };
        Ok(self.add(&bytes).map(|()| self))
    }

    /// The body of a page.
    fn body(&mut self, mut body: impl Read) -> io::Result<Result<Vec<u8>, OverBudget>> {
        let mut bytes = Vec::new();
        let mut chunk = [0; CHUNK];
        loop {
            let count = body.read(&mut chunk)?;
            let Some(read) = chunk.get(..count).filter(|read| !read.is_empty()) else {
                return Ok(Ok(bytes));
            };
            bytes.extend_from_slice(read);
            let page = page_cost(bytes.capacity());
            if let Err(error) = self.reservation.reserve(self.list.bytes() + page) {
                return Ok(Err(error));
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), TagPageError> {
        let page = tags_page::decode(bytes).map_err(TagPageError::Page)?;
        let mut meter = OffsetMeter {
            reservation: &mut self.reservation,
            bytes: page_cost(bytes.len()),
        };
        for tag in page.tags {
            self.list.add(&tag, &mut meter).map_err(TagPageError::List)?;
        }
        Ok(())
    }
}

/// The memory of a page while it is read: its body, and the list of the tags in it, which refers to the body.
const fn page_cost(body: usize) -> usize {
    body + body / 2
}

/// Reserves memory in addition to `bytes`.
struct OffsetMeter<'r> {
    reservation: &'r mut Reservation,
    bytes: usize,
}

impl Meter for OffsetMeter<'_> {
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.reservation.reserve(self.bytes + bytes)
    }
}

/// The digest of a text, in the format of registries. The text is not stored.
fn sha256(mut text: impl Read) -> io::Result<String> {
    let mut digest = Context::new(&SHA256);
    let mut chunk = [0; CHUNK];
    loop {
        let count = text.read(&mut chunk)?;
        match chunk.get(..count) {
            Some(read) if !read.is_empty() => digest.update(read),
            _ => break,
        }
    }
    Ok(format!("sha256:{}", hex(digest.finish().as_ref())))
}

fn manifest_request<'a>(method: &'a Method, url: &'a Url) -> RegistryRequest<'a> {
    RegistryRequest {
        kind: RequestKind::Manifest,
        method,
        url,
        accept: MANIFEST_TYPES,
    }
}

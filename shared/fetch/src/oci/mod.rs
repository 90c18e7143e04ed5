//! Versions in an OCI registry: its tags and manifests. The requests and the decoding of responses are in
//! [`helmops_model::chart::registry`].

mod chart;
mod error;
mod session;
mod tag_pages;
mod tokens;

use std::{sync::Arc, time::Instant};

use helm_index::{
    Outlook, OwnedVersionRequest, VersionRequest, explain, outlook, select,
    tags::{self, TagList, TaggedVersion},
};
use helmops_fair::ByteBudget;
use helmops_model::chart::{
    registry::query::{RegistryQuery, allows, query},
    resolved::ChartVersion,
};
use helmops_runtime::compute::Compute;

use self::tokens::Tokens;
pub use self::{chart::RegistryChart, error::RegistryError, tokens::RegistryKey};
use super::{
    access::Access,
    cache::{Cache, CacheSettings, Sizes},
    explain::{ChartExplanation, Listed, ListedVersion, Listing},
    http::HttpClient,
    metrics::FetchMetrics,
    poll::PollQuery,
    selection::select_from,
};

/// OCI registries, with their cached tokens, tags and digests.
#[derive(Debug)]
pub struct Registries {
    tokens: Tokens,
    tags: Cache<RegistryKey, TagList, RegistryError>,
    /// Digests, by tag, and versions of charts, by digest.
    manifests: Cache<(RegistryKey, String), String, RegistryError>,
    budget: ByteBudget,
    /// The permits for selections from long lists.
    pub compute: Compute,
}

impl Registries {
    /// Creates empty caches.
    pub fn new(
        settings: &CacheSettings,
        budget: ByteBudget,
        compute: Compute,
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
            compute,
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

    /// Digest of the manifest of a tag, whatever version it has, from the content of the registry at `since` or later.
    ///
    /// # Errors
    /// If there is no such tag, or the registry cannot be read.
    pub async fn digest_of_tag(
        &self,
        chart: &RegistryChart<'_>,
        tag: &str,
        since: Instant,
    ) -> Result<String, RegistryError> {
        let tag = tags::of_version(tag);
        match self.digest(chart, &tag, since).await {
            Ok(digest) => Ok(String::clone(&digest)),
            // A response to HEAD has no body, which says whether the tag is missing, or the repository.
            Err(error) if error.is_unknown_manifest() => {
                let permit = chart.acquire_permit().await;
                let again = chart.manifest(&permit, &tag).await;
                Err(chart.own_error(again.err().unwrap_or(error)))
            }
            Err(error) => Err(chart.own_error(error)),
        }
    }

    /// As [`Self::version`], with what the same list of tags says about the deployed version; `None` if the tags are not needed.
    ///
    /// # Errors
    /// If the tags cannot be read. That no version matches is a result.
    pub async fn poll(
        &self,
        http: &HttpClient,
        access: &Access,
        repo: &str,
        PollQuery { request, deployed }: PollQuery<'_>,
        since: Instant,
    ) -> Result<(Result<ChartVersion, RegistryError>, Option<Outlook>), RegistryError> {
        let chart = self.chart(http, access, repo)?;
        if !matches!(query(&chart.reference, request), Ok(RegistryQuery::List)) {
            return Ok((self.version_of_chart(&chart, request, since).await, None));
        }
        let tags = self.tags(&chart, since).await;
        let tags = tags.map_err(|error| chart.own_error(error))?;
        let selected = self.select_tag(&chart, Arc::clone(&tags), request).await;
        let version = selected.as_ref().ok().map(|tagged| tagged.version.clone());
        let (owned, deployed) = (OwnedVersionRequest::from(request), deployed.to_owned());
        let work = {
            let tags = Arc::clone(&tags);
            move || outlook(tags.versions(), &owned.borrowed(), &deployed, version.as_deref())
        };
        let outlook = select_from(&self.compute, &access.namespace, tags.len(), work).await;
        let version = match selected {
            Ok(tagged) => self.manifest(&chart, &tagged, since).await,
            Err(error) => Err(error),
        };
        Ok((version.map_err(|error| chart.own_error(error)), Some(outlook)))
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
            RegistryQuery::OtherTag(tag) => {
                let digest = self.digest(chart, &tag, since).await?;
                self.named(chart, &format!(":{tag}"), &digest, request).await
            }
            RegistryQuery::Digest => {
                let digest = chart.pinned_digest().unwrap_or_default();
                self.named(chart, &format!("@{digest}"), digest, request).await
            }
        }
    }

    /// The chart with a digest, which the reference names by `:tag` or `@digest`: the version is that of the chart.
    async fn named(
        &self,
        chart: &RegistryChart<'_>,
        name: &str,
        digest: &str,
        request: &VersionRequest<'_>,
    ) -> Result<ChartVersion, RegistryError> {
        let key = (chart.session.key().clone(), digest.to_owned());
        let acquire = || chart.session.acquire_permit();
        // The version behind a digest never changes.
        let fetch = async |permit, known: Option<Arc<String>>| match known {
            Some(known) => Ok(known),
            None => chart.version(&permit, digest).await.map(Arc::new),
        };
        let requester = chart.requester(Instant::now());
        let version = self
            .manifests
            .get(&key, requester, |_| true, acquire, fetch)
            .await?;
        let url = chart.location(name);
        if !allows(request, &version) {
            return Err(RegistryError::OtherVersion {
                reference: url,
                found: String::clone(&version),
                requested: request.text().to_owned(),
            });
        }
        Ok(ChartVersion {
            version: String::clone(&version),
            digest: digest.to_owned(),
            url,
        })
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
        RegistryChart::new(http, &self.tokens, access, &self.budget, repo)
    }

    async fn select_from_tags(
        &self,
        chart: &RegistryChart<'_>,
        request: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let tags = self.tags(chart, since).await?;
        let selected = self.select_tag(chart, tags, request).await?;
        self.manifest(chart, &selected, since).await
    }

    async fn select_tag(
        &self,
        chart: &RegistryChart<'_>,
        tags: Arc<TagList>,
        request: &VersionRequest<'_>,
    ) -> Result<TaggedVersion, RegistryError> {
        let (len, repository, request) = (
            tags.len(),
            chart.reference.repository.to_owned(),
            OwnedVersionRequest::from(request),
        );
        let work = move || select(&repository, tags.versions(), &request.borrowed()).map(TaggedVersion::from);
        let selected = select_from(&self.compute, &chart.access.namespace, len, work).await;
        selected.map_err(|source| RegistryError::Select {
            repo: chart.repo.clone(),
            source,
        })
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
            RegistryQuery::TagThenList(_)
            | RegistryQuery::List
            | RegistryQuery::OtherTag(_)
            | RegistryQuery::Digest => None,
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
        Ok(Some(
            select_from(&self.compute, &chart.access.namespace, len, work).await,
        ))
    }

    /// Reads the digest of the manifest of a version.
    async fn manifest(
        &self,
        chart: &RegistryChart<'_>,
        tagged: &TaggedVersion,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let digest = self.digest(chart, &tagged.tag, since).await?;
        Ok(ChartVersion {
            version: tagged.version.clone(),
            digest: String::clone(&digest),
            url: chart.location(&format!(":{}", tagged.tag)),
        })
    }

    /// The digest of the manifest of a tag, at `since` or later: that of the reference, if it has one.
    async fn digest(
        &self,
        chart: &RegistryChart<'_>,
        tag: &str,
        since: Instant,
    ) -> Result<Arc<String>, RegistryError> {
        let key = (chart.session.key().clone(), tag.to_owned());
        let acquire = || chart.session.acquire_permit();
        let fetch = async |permit, _| chart.digest(&permit, tag).await.map(Arc::new);
        let digest = self
            .manifests
            .get(&key, chart.requester(since), |_| true, acquire, fetch)
            .await?;
        chart.check_digest(tag, &digest)?;
        Ok(digest)
    }
}

//! Versions in an OCI registry: its tags and manifests. What is asked, and what answers mean, is in
//! [`helmops_shared::chart::registry`].

mod error;
mod session;
mod tokens;

use std::{fmt::Write, sync::Arc, time::Instant};

use helmops_shared::chart::{
    registry::{
        ask::{Ask, ask},
        digest::Digest,
        endpoint::{Endpoint, MANIFEST_TYPES, Transport},
        link,
        reference::Reference,
        tag::{self, TaggedVersion},
        tags_page::{self, MAX_PAGES},
    },
    request::VersionRequest,
    resolved::ChartVersion,
    select::select,
    url::redacted,
};
use reqwest::{
    Method,
    header::{HeaderValue, LINK},
};
use ring::digest::{SHA256, digest};

pub use self::error::RegistryError;
use self::{
    session::{Request, Session},
    tokens::{Key, Tokens},
};
use super::{
    access::Access,
    cache::Cache,
    http::Web,
    metrics::{Fetches, Kind},
};

/// A manifest, in bytes; registries take none that are larger.
const MAX_MANIFEST: u64 = 4 << 20;

/// Registries, and what is known of them.
#[derive(Debug)]
pub struct Registries {
    tokens: Tokens,
    tags: Cache<Key, Vec<TaggedVersion>, RegistryError>,
    /// Digests, by tag.
    manifests: Cache<(Key, String), String, RegistryError>,
}

/// A chart in a registry, as one HelmOp sees it.
struct Chart<'a> {
    repo: String,
    reference: Reference<'a>,
    endpoint: Endpoint<'a>,
    session: Session<'a>,
}

impl Registries {
    /// Knows nothing yet, and keeps `capacity` bytes at the most.
    pub fn new(capacity: usize, fetches: Fetches) -> Self {
        let size = |tags: &Vec<TaggedVersion>| tags.iter().map(size_of_tag).sum();
        Self {
            tokens: Tokens::default(),
            tags: Cache::new(capacity / 2, size, fetches.clone()),
            manifests: Cache::new(capacity / 2, String::len, fetches),
        }
    }

    /// The version of a chart that is asked for, as the registry has it at `since` or later.
    ///
    /// # Errors
    /// Where there is none, or the registry cannot be asked.
    pub async fn version(
        &self,
        web: &Web,
        access: &Access,
        repo: &str,
        asked: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let chart = self.chart(web, access, repo)?;
        let what = ask(&chart.reference, asked).map_err(|source| RegistryError::Ask {
            repo: chart.repo.clone(),
            source,
        })?;
        match what {
            Ask::Tag(tagged) => self.manifest(&chart, &tagged, since).await,
            Ask::TagThenList(tagged) => match self.manifest(&chart, &tagged, since).await {
                Err(error) if error.is_unknown_manifest() => self.among_tags(&chart, asked, since).await,
                other => other,
            },
            Ask::List => self.among_tags(&chart, asked, since).await,
        }
    }

    fn chart<'a>(
        &'a self,
        web: &'a Web,
        access: &'a Access,
        repo: &'a str,
    ) -> Result<Chart<'a>, RegistryError> {
        let reference = Reference::parse(repo).map_err(|source| RegistryError::Reference {
            repo: redacted(repo),
            source,
        })?;
        let transport = if access.plain_http {
            Transport::PlainHttp
        } else {
            Transport::Https
        };
        let endpoint = Endpoint::of(transport, &reference);
        Ok(Chart {
            repo: redacted(repo),
            reference,
            endpoint,
            session: Session::new(web, &self.tokens, access, endpoint)?,
        })
    }

    async fn among_tags(
        &self,
        chart: &Chart<'_>,
        asked: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let fetch = async |_| chart.tags().await.map(Arc::new);
        let tags = self
            .tags
            .answer(chart.session.key(), since, |_| true, fetch)
            .await?;
        let chosen =
            select(chart.reference.repository, &tags, asked).map_err(|source| RegistryError::Select {
                repo: chart.repo.clone(),
                source,
            })?;
        self.manifest(chart, chosen, since).await
    }

    /// Looks at the manifest of a version.
    async fn manifest(
        &self,
        chart: &Chart<'_>,
        tagged: &TaggedVersion,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let key = (chart.session.key().clone(), tagged.tag.clone());
        let fetch = async |_| chart.digest(&tagged.tag).await.map(Arc::new);
        let digest = self.manifests.answer(&key, since, |_| true, fetch).await?;
        chart.found(tagged, &digest)
    }
}

impl Chart<'_> {
    /// Digest of the manifest that a tag names.
    async fn digest(&self, tag: &str) -> Result<String, RegistryError> {
        let url = self.endpoint.manifest_url(tag);
        match self.head(&url).await? {
            Some(digest) => Ok(digest),
            None => self.computed(&url).await,
        }
    }

    /// A version whose manifest was looked at.
    fn found(&self, tagged: &TaggedVersion, digest: &str) -> Result<ChartVersion, RegistryError> {
        if let Some(wanted) = self.reference.digest {
            wanted
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
                self.endpoint.host, self.endpoint.repository, tagged.tag
            ),
        })
    }

    /// The digest as the registry tells it without sending the manifest; not all do.
    async fn head(&self, url: &str) -> Result<Option<String>, RegistryError> {
        let answer = self.session.send(manifest_request(&Method::HEAD, url)).await?;
        let digest = answer
            .headers()
            .get("docker-content-digest")
            .and_then(|value| value.to_str().ok());
        // It is recorded, and may be anything.
        let digest = digest
            .filter(|text| Digest::parse(text).is_ok())
            .map(str::to_owned);
        answer.end();
        Ok(digest)
    }

    async fn computed(&self, url: &str) -> Result<String, RegistryError> {
        let answer = self.session.send(manifest_request(&Method::GET, url)).await?;
        let bytes = answer.bytes(MAX_MANIFEST).await.map_err(RegistryError::Fetch)?;
        let digest = digest(&SHA256, &bytes);
        let mut text = "sha256:".to_owned();
        for byte in digest.as_ref() {
            // Writing into a String does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text)
    }

    /// All tags that are versions.
    async fn tags(&self) -> Result<Vec<TaggedVersion>, RegistryError> {
        let mut versions = Vec::new();
        let mut page = self.endpoint.tags_url();
        for _ in 0..MAX_PAGES {
            let (tags, next) = self.page(&page).await?;
            versions.extend(tag::versions(tags));
            match next {
                Some(next) => page = next,
                None => return Ok(versions),
            }
        }
        Err(RegistryError::TooManyPages {
            repo: self.repo.clone(),
            pages: MAX_PAGES,
        })
    }

    async fn page(&self, url: &str) -> Result<(Vec<String>, Option<String>), RegistryError> {
        let request = Request {
            kind: Kind::Tags,
            method: &Method::GET,
            url,
            accept: "application/json",
        };
        let answer = self.session.send(request).await?;
        let links: Vec<HeaderValue> = answer.headers().get_all(LINK).iter().cloned().collect();
        let next =
            link::next(links.iter().map(HeaderValue::as_bytes), url).map_err(|source| RegistryError::Link {
                url: redacted(url),
                source,
            });
        let bytes = answer
            .bytes(tags_page::MAX_LEN as u64)
            .await
            .map_err(RegistryError::Fetch)?;
        let next = next?;
        let page =
            tags_page::decode(&bytes).map_err(|error| RegistryError::unusable(url, error.to_string()))?;
        Ok((page.tags, next))
    }
}

fn size_of_tag(tagged: &TaggedVersion) -> usize {
    size_of::<TaggedVersion>() + tagged.tag.len() + tagged.version.len()
}

fn manifest_request<'a>(method: &'a Method, url: &'a str) -> Request<'a> {
    Request {
        kind: Kind::Manifest,
        method,
        url,
        accept: MANIFEST_TYPES,
    }
}

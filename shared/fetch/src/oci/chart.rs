//! A chart in a registry, with the access of one HelmOp: the requests for its tags, manifests and blobs.

use std::{
    collections::HashSet,
    io::{self, Read},
    time::Instant,
};

use bounded_text::hex;
use helm_index::tags::TagList;
use helmops_fair::ByteBudget;
use helmops_model::chart::{
    registry::{
        digest::Digest,
        endpoint::{Endpoint, MANIFEST_TYPES, Transport},
        link::{self, LinkError},
        manifest,
        reference::Reference,
        tags_page::{self, MAX_PAGES},
    },
    url::redacted,
};
use reqwest::{
    Method, Url,
    header::{HeaderValue, LINK},
};
use ring::digest::{Context, SHA256};

use super::{
    error::RegistryError,
    session::{RegistryRequest, Session},
    tag_pages::{PartialTagList, TagPageError},
    tokens::{RegistryKey, Tokens},
};
use crate::{
    access::Access,
    bounds::ReadMemory,
    cache::Requester,
    http::{CHUNK, FetchError, FetchErrorKind, HttpClient, HttpResponse, Limits, read_error},
    metrics::RequestKind,
    permits::RequestPermit,
};

/// Maximum size of a manifest, in bytes; registries accept no larger ones.
const MAX_MANIFEST: u64 = 4 << 20;
/// Maximum size of the configuration of a chart, in bytes: a Chart.yaml is no larger.
const MAX_CONFIG: u64 = 1 << 20;

/// A chart in a registry, with the access of one HelmOp.
pub struct RegistryChart<'a> {
    pub(super) repo: String,
    pub(super) reference: Reference<'a>,
    endpoint: Endpoint<'a>,
    pub(super) session: Session<'a>,
    pub(super) access: &'a Access,
    budget: &'a ByteBudget,
}

impl<'a> RegistryChart<'a> {
    /// A chart in a registry.
    ///
    /// # Errors
    /// If the reference is invalid.
    pub fn new(
        http: &'a HttpClient,
        tokens: &'a Tokens,
        access: &'a Access,
        budget: &'a ByteBudget,
        repo: &'a str,
    ) -> Result<Self, RegistryError> {
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
        Ok(Self {
            repo: redacted(repo),
            reference,
            session: Session::new(http, tokens, access, endpoint.clone()),
            endpoint,
            access,
            budget,
        })
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

    /// The version of the chart whose manifest has a digest.
    pub(super) async fn version(
        &self,
        permit: &RequestPermit,
        digest: &str,
    ) -> Result<String, RegistryError> {
        let failed = |source| RegistryError::Manifest {
            reference: self.location(&format!("@{digest}")),
            source,
        };
        let manifest = self.manifest(permit, digest).await?;
        let config = manifest::config_digest(&manifest).map_err(failed)?;
        let response = self.blob(permit, &config).await?;
        let config = response.bytes(MAX_CONFIG).await.map_err(RegistryError::Fetch)?;
        manifest::chart_version(&config).map_err(failed)
    }

    /// The key for what is cached of the registry.
    pub const fn key(&self) -> &RegistryKey {
        self.session.key()
    }

    /// The digest in the reference.
    pub fn pinned_digest(&self) -> Option<&str> {
        self.reference.digest.map(Digest::as_str)
    }

    /// The tag in the reference.
    pub fn pinned_tag(&self) -> Option<&str> {
        self.reference.tag
    }

    /// Who requests something of the registry.
    pub fn requester(&self, since: Instant) -> Requester<'_> {
        Requester {
            namespace: &self.access.namespace,
            since,
        }
    }

    /// Digest of the manifest of a tag.
    pub(super) async fn digest(&self, permit: &RequestPermit, tag: &str) -> Result<String, RegistryError> {
        let url = self.endpoint.manifest_url(tag);
        match self.head_digest(permit, &url).await? {
            Some(digest) => Ok(digest),
            None => self.computed_digest(permit, &url).await,
        }
    }

    /// Compares the digest of the manifest of a tag with that of the reference, if it has one.
    ///
    /// # Errors
    /// If they differ.
    pub fn check_digest(&self, tag: &str, digest: &str) -> Result<(), RegistryError> {
        let Some(expected) = self.reference.digest else {
            return Ok(());
        };
        let checked = expected.check(tag, digest);
        checked.map_err(|source| RegistryError::Digest {
            repo: self.repo.clone(),
            source,
        })
    }

    /// The URL of a manifest, by `:tag` or `@digest`.
    pub fn location(&self, name: &str) -> String {
        format!(
            "oci://{}/{}{name}",
            self.reference.registry, self.reference.repository
        )
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
    pub(super) async fn tags(&self, permit: &RequestPermit) -> Result<TagList, RegistryError> {
        let mut list = PartialTagList {
            list: TagList::default(),
            memory: ReadMemory::new(self.budget, &self.access.namespace),
        };
        let mut page = self.endpoint.tags_url();
        let mut pages = HashSet::new();
        for _ in 0..MAX_PAGES {
            let (more, next) = self.page(permit, &page, list).await?;
            list = more;
            let Some(next) = next else {
                list.list.shrink();
                return Ok(list.list);
            };
            if pages.contains(&next) {
                return Err(RegistryError::Link {
                    url: redacted(page.as_str()),
                    source: LinkError::Loop {
                        page: redacted(next.as_str()),
                    },
                });
            }
            pages.insert(page);
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

    /// The error of a request that may have been sent for another HelmOp: what it reports about the login is replaced by what applies
    /// to this HelmOp.
    pub(super) fn own_error(&self, mut error: RegistryError) -> RegistryError {
        if let RegistryError::Refused { status, problem, .. } = &mut error {
            *problem = self.session.problem(*status);
        }
        error
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

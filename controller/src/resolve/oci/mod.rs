//! Versions in an OCI registry: its tags and manifests. What is asked, and what answers mean, is in
//! [`helmops_shared::chart::registry`].

mod error;
mod session;
mod tokens;

use std::{
    io::{self, Read},
    sync::Arc,
    time::Instant,
};

use helmops_shared::{
    chart::{
        meter::{Meter, OverBudget},
        registry::{
            ask::{RegistryQuery, ask},
            digest::Digest,
            endpoint::{Endpoint, MANIFEST_TYPES, Transport},
            link,
            reference::Reference,
            tag::TaggedVersion,
            tag_list::{TagList, TagListError},
            tags_page::{self, MAX_PAGES, PageError},
        },
        request::{OwnedVersionRequest, VersionRequest},
        resolved::ChartVersion,
        select::select,
        url::redacted,
    },
    text::hex,
};
use reqwest::{
    Method, StatusCode,
    header::{HeaderValue, LINK},
};
use ring::digest::{Context, SHA256};

pub use self::error::RegistryError;
use self::{
    session::{Request, Session},
    tokens::{Key, Tokens},
};
use super::{
    access::Access,
    budget::{Budget, Reservation},
    cache::{Cache, Sizes, Terms},
    choice::Choices,
    http::{Admission, Fault, FetchError, HttpClient, Limits, fault},
    metrics::{Fetches, Kind},
};

/// A manifest, in bytes; registries take none that are larger.
const MAX_MANIFEST: u64 = 4 << 20;

/// What is taken from a body at a time, in bytes.
const CHUNK: usize = 16 << 10;

/// Registries, and what is known of them.
#[derive(Debug)]
pub struct Registries {
    tokens: Tokens,
    tags: Cache<Key, TagList, RegistryError>,
    /// Digests, by tag.
    manifests: Cache<(Key, String), String, RegistryError>,
    budget: Budget,
    choices: Choices,
}

/// A chart in a registry, as one HelmOp sees it.
struct Chart<'a> {
    repo: String,
    reference: Reference<'a>,
    endpoint: Endpoint<'a>,
    session: Session<'a>,
    access: &'a Access,
    budget: &'a Budget,
}

impl Registries {
    /// Knows nothing yet.
    pub fn new(terms: &Terms, budget: Budget, choices: Choices, fetches: Fetches) -> Self {
        let tags = Sizes {
            key: Key::bytes,
            value: TagList::bytes,
        };
        let manifests = Sizes {
            key: |(key, tag): &(Key, String)| key.bytes() + tag.len(),
            value: String::len,
        };
        Self {
            tokens: Tokens::default(),
            tags: Cache::new(terms.part(2), tags, fetches.clone()),
            manifests: Cache::new(terms.part(2), manifests, fetches),
            budget,
            choices,
        }
    }

    /// The version of a chart that is asked for, as the registry has it at `since` or later.
    ///
    /// # Errors
    /// Where there is none, or the registry cannot be asked.
    pub async fn version(
        &self,
        web: &HttpClient,
        access: &Access,
        repo: &str,
        asked: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let chart = self.chart(web, access, repo)?;
        let found = self.found(&chart, asked, since).await;
        found.map_err(|error| chart.told(error))
    }

    async fn found(
        &self,
        chart: &Chart<'_>,
        asked: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let what = ask(&chart.reference, asked).map_err(|source| RegistryError::Ask {
            repo: chart.repo.clone(),
            source,
        })?;
        match what {
            RegistryQuery::Tag(tagged) => self.manifest(chart, &tagged, since).await,
            RegistryQuery::TagThenList(tagged) => match self.manifest(chart, &tagged, since).await {
                Err(error) if error.is_unknown_manifest() => self.among_tags(chart, asked, since).await,
                other => other,
            },
            RegistryQuery::List => self.among_tags(chart, asked, since).await,
        }
    }

    fn chart<'a>(
        &'a self,
        web: &'a HttpClient,
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
            access,
            budget: &self.budget,
        })
    }

    async fn among_tags(
        &self,
        chart: &Chart<'_>,
        asked: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let admit = || chart.session.admit();
        let fetch = async |admission, _| chart.tags(&admission).await.map(Arc::new);
        let tags = self
            .tags
            .answer(
                chart.session.key(),
                (&chart.access.namespace, since),
                |_| true,
                admit,
                fetch,
            )
            .await?;
        let (len, repository, request) = (
            tags.len(),
            chart.reference.repository.to_owned(),
            OwnedVersionRequest::from(asked),
        );
        let work = move || select(&repository, tags.versions(), &request.borrowed()).map(TaggedVersion::from);
        let chosen = self.choices.among(chart.access, len, work).await;
        let chosen = chosen.map_err(|source| RegistryError::Select {
            repo: chart.repo.clone(),
            source,
        })?;
        self.manifest(chart, &chosen, since).await
    }

    /// Looks at the manifest of a version.
    async fn manifest(
        &self,
        chart: &Chart<'_>,
        tagged: &TaggedVersion,
        since: Instant,
    ) -> Result<ChartVersion, RegistryError> {
        let key = (chart.session.key().clone(), tagged.tag.clone());
        let admit = || chart.session.admit();
        let fetch = async |admission, _| chart.digest(&admission, &tagged.tag).await.map(Arc::new);
        let around = (&chart.access.namespace, since);
        let digest = self
            .manifests
            .answer(&key, around, |_| true, admit, fetch)
            .await?;
        chart.found(tagged, &digest)
    }
}

impl Chart<'_> {
    /// Digest of the manifest that a tag names.
    async fn digest(&self, admission: &Admission, tag: &str) -> Result<String, RegistryError> {
        let url = self.endpoint.manifest_url(tag);
        match self.head(admission, &url).await? {
            Some(digest) => Ok(digest),
            None => self.computed(admission, &url).await,
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
    async fn head(&self, admission: &Admission, url: &str) -> Result<Option<String>, RegistryError> {
        let request = manifest_request(&Method::HEAD, url);
        let answer = self.session.send(admission, request).await?;
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

    async fn computed(&self, admission: &Admission, url: &str) -> Result<String, RegistryError> {
        let request = manifest_request(&Method::GET, url);
        let answer = self.session.send(admission, request).await?;
        let limits = Limits {
            wire: MAX_MANIFEST,
            decoded: MAX_MANIFEST,
        };
        answer
            .read(limits, |body| sha256(body).map_err(|error| fault(&error)))
            .await
            .map_err(RegistryError::Fetch)
    }

    /// All tags that are versions.
    async fn tags(&self, admission: &Admission) -> Result<TagList, RegistryError> {
        let mut list = Reading {
            list: TagList::default(),
            reservation: self.budget.start(&self.access.namespace),
        };
        let mut page = self.endpoint.tags_url();
        for _ in 0..MAX_PAGES {
            let (more, next) = self.page(admission, &page, list).await?;
            list = more;
            let Some(next) = next else {
                list.list.shrink();
                return Ok(list.list);
            };
            page = next;
        }
        Err(RegistryError::TooManyPages {
            repo: self.place(),
            pages: MAX_PAGES,
        })
    }

    /// Adds a page to a list, on the thread that reads it, and says where the next one is.
    async fn page(
        &self,
        admission: &Admission,
        url: &str,
        list: Reading,
    ) -> Result<(Reading, Option<String>), RegistryError> {
        let request = Request {
            kind: Kind::Tags,
            method: &Method::GET,
            url,
            accept: "application/json",
        };
        let answer = self.session.send(admission, request).await?;
        let is_foreign = answer.is_foreign();
        let links: Vec<HeaderValue> = answer.headers().get_all(LINK).iter().cloned().collect();
        let next = link::next(links.iter().map(HeaderValue::as_bytes), url).map_err(|source| {
            if is_foreign {
                return RegistryError::unusable(url, is_foreign, source.to_string());
            }
            RegistryError::Link {
                url: redacted(url),
                source,
            }
        });
        let limits = Limits {
            wire: tags_page::MAX_LEN as u64,
            decoded: tags_page::MAX_LEN as u64,
        };
        let read = answer
            .read(limits, move |body| list.with_page(body))
            .await
            .map_err(RegistryError::Fetch)?;
        let next = next?;
        let list = read.map_err(|error| match error {
            PageFault::Page(error) => RegistryError::unusable(url, is_foreign, error.to_string()),
            PageFault::List(source) => RegistryError::TagList {
                repo: self.place(),
                source,
            },
        })?;
        Ok((list, next))
    }

    /// The repository as it may be told to everybody who asks for it: without tag and digest, which others may not know.
    fn place(&self) -> String {
        format!("oci://{}/{}", self.endpoint.host, self.endpoint.repository)
    }

    /// A failure that may be somebody else's, who asked the same: what it says of credentials is about those of this one.
    fn told(&self, error: RegistryError) -> RegistryError {
        let withheld = self.session.withheld();
        let error = match error {
            RegistryError::Refused { url, status, .. } if withheld.is_some() && is_about_login(status) => {
                let fault = Fault::Status(status);
                RegistryError::Fetch(FetchError { url, fault })
            }
            other => other,
        };
        let RegistryError::Fetch(FetchError { url, fault }) = error else {
            return error;
        };
        match self.access.told(fault, withheld) {
            // Every other refusal of a registry is told this way too.
            Fault::Status(status) if is_about_login(status) => RegistryError::Refused {
                url,
                repository: self.endpoint.repository.to_owned(),
                status,
                code: None,
                told: String::new(),
            },
            fault => RegistryError::Fetch(FetchError { url, fault }),
        }
    }
}

fn is_about_login(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// A list of tags under way, and the memory that is reserved for it.
struct Reading {
    list: TagList,
    reservation: Reservation,
}

/// Why a page adds nothing to a list.
enum PageFault {
    Page(PageError),
    List(TagListError),
}

impl From<OverBudget> for PageFault {
    fn from(error: OverBudget) -> Self {
        Self::List(error.into())
    }
}

impl Reading {
    fn with_page(mut self, body: impl Read) -> Result<Result<Self, PageFault>, Fault> {
        let bytes = match self.body(body) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Ok(Err(error.into())),
            Err(error) => return Err(fault(&error)),
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

    fn add(&mut self, bytes: &[u8]) -> Result<(), PageFault> {
        let page = tags_page::decode(bytes).map_err(PageFault::Page)?;
        let mut meter = Beside {
            reservation: &mut self.reservation,
            bytes: page_cost(bytes.len()),
        };
        for tag in page.tags {
            self.list.add(&tag, &mut meter).map_err(PageFault::List)?;
        }
        Ok(())
    }
}

/// What a page takes in memory while it is read: its body, and the list of the tags in it, which refers to the body.
const fn page_cost(body: usize) -> usize {
    body + body / 2
}

/// Reserves memory for something beside so many bytes.
struct Beside<'r> {
    reservation: &'r mut Reservation,
    bytes: usize,
}

impl Meter for Beside<'_> {
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.reservation.reserve(self.bytes + bytes)
    }
}

/// The digest of a text, as registries write it. The text is not kept.
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

fn manifest_request<'a>(method: &'a Method, url: &'a str) -> Request<'a> {
    Request {
        kind: Kind::Manifest,
        method,
        url,
        accept: MANIFEST_TYPES,
    }
}

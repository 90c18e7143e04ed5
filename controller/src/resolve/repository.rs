//! Versions in a Helm repository: its `index.yaml`.

use std::{io::BufReader, sync::Arc, time::Instant};

use helmops_shared::{
    chart::{
        index::{self, ChartFilter, Index, IndexEntry, IndexError, Layout},
        request::{OwnedVersionRequest, VersionRequest},
        resolved::ChartVersion,
        select::{SelectError, select},
        url::redacted,
    },
    reason::Reason,
};
use percent_encoding::percent_decode_str;
use reqwest::{
    Method, StatusCode, Url,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
        IF_NONE_MATCH, LAST_MODIFIED,
    },
};
use thiserror::Error;

use super::{
    access::{Access, Credentials, Login, WithheldBecause},
    budget::Budget,
    cache::{Cache, Failed, Sizes, Terms},
    choice::Choices,
    error::{index_reason, select_reason},
    http::{Admission, Fault, FetchError, HttpClient, HttpRequest, HttpResponse, Limits, fault, parse},
    metrics::{Fetches, Kind},
    overflow::Overflows,
};
use crate::backoff::Pace;

/// Far beyond the largest public indexes. The memory that reading takes does not depend on it.
pub const LIMITS: Limits = Limits {
    wire: 128 << 20,
    decoded: 256 << 20,
};

/// The charts that are wanted of a repository, by all or by the HelmOps of one namespace, given the URL of its index as
/// [`index_of`] writes it.
pub type Interest<'a> = dyn Fn(&str, Option<&str>) -> ChartFilter + Send + Sync + 'a;

/// Why a repository gives no version.
#[derive(Clone, Debug, Error)]
pub enum RepositoryError {
    /// The index could not be fetched.
    #[error(transparent)]
    Fetch(FetchError),
    /// What was fetched is of no use.
    #[error("{url}: {source}")]
    Index {
        /// Where it came from, without credentials.
        url: String,
        /// Why.
        source: Arc<IndexError>,
    },
    /// The index has no version that will do.
    #[error("{source} ({url})")]
    Select {
        /// Where the index came from, without credentials.
        url: String,
        /// Why.
        source: SelectError,
    },
}

impl RepositoryError {
    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Fetch(error) => error.fault.reason(),
            Self::Index { source, .. } => index_reason(source),
            Self::Select { source, .. } => select_reason(source),
        }
    }

    /// When to try again.
    pub fn pace(&self) -> Pace {
        match self {
            Self::Fetch(error) => error.fault.pace(),
            Self::Index { source, .. } if matches!(**source, IndexError::OverBudget(_)) => Pace::TRANSIENT,
            Self::Index { .. } | Self::Select { .. } => Pace::SLOW,
        }
    }

    /// Whether fewer charts might do where all that are wanted are too many.
    fn is_too_much(&self) -> bool {
        matches!(self, Self::Index { source, .. }
            if matches!(**source, IndexError::TooManyVersions | IndexError::OverBudget(_)))
    }

    /// Whether that will be so for a while.
    fn is_too_large(&self) -> bool {
        matches!(self, Self::Index { source, .. } if matches!(**source, IndexError::TooManyVersions))
    }
}

impl Failed for RepositoryError {
    fn is_shared(&self) -> bool {
        // What one namespace has used up is nothing to others.
        !matches!(self, Self::Index { source, .. } if matches!(**source, IndexError::OverBudget(_)))
    }
}

/// Helm repositories, and what is known of them.
#[derive(Debug)]
pub struct Repositories {
    cache: Cache<Key, Listing, RepositoryError>,
    overflows: Overflows<Key>,
    limits: Limits,
    budget: Budget,
    choices: Choices,
    fetches: Fetches,
}

/// Who asks for what: an answer is for those alone who asked with the same credentials and the same trust.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    url: String,
    identity: [u8; 32],
    scope: Scope,
}

/// Whose charts are read together. Less at a time where more is too much, so that nobody suffers from what others want.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// Those that anybody wants.
    All,
    /// Those that HelmOps of this namespace want.
    Namespace(Arc<str>),
    /// This one.
    Chart(String),
}

impl Key {
    fn bytes(&self) -> usize {
        let scope = match &self.scope {
            Scope::All => 0,
            Scope::Namespace(namespace) => namespace.len(),
            Scope::Chart(chart) => chart.len(),
        };
        self.url.len() + scope
    }
}

/// What is kept of an index.
#[derive(Debug)]
struct Listing {
    index: Index,
    wanted: ChartFilter,
    layout: Layout,
    validators: HeaderMap,
}

/// A repository as one HelmOp sees it.
struct Source<'a> {
    url: Url,
    access: &'a Access,
    login: Option<Login>,
    /// Why the Secret's credentials are not sent, where none are.
    withheld: Option<WithheldBecause>,
}

impl Repositories {
    /// Knows nothing yet, and reads so much of an index.
    pub fn new(terms: Terms, limits: Limits, budget: Budget, choices: Choices, fetches: Fetches) -> Self {
        let sizes = Sizes {
            key: Key::bytes,
            value: Listing::bytes,
        };
        Self {
            cache: Cache::new(terms, sizes, fetches.clone()),
            overflows: Overflows::default(),
            limits,
            budget,
            choices,
            fetches,
        }
    }

    /// The version of a chart that is asked for, as the repository lists it at `since` or later.
    ///
    /// # Errors
    /// Where there is none, or the repository cannot be asked.
    pub async fn version(
        &self,
        web: &HttpClient,
        access: &Access,
        interest: &Interest<'_>,
        (repo, chart): (&str, &str),
        asked: &VersionRequest<'_>,
        since: Instant,
    ) -> Result<ChartVersion, RepositoryError> {
        let source = Source::new(repo, access).map_err(RepositoryError::Fetch)?;
        let listing = self
            .listing(web, &source, interest, chart, since)
            .await
            .map_err(|error| source.told(error))?;
        self.choose(access, listing, (chart, asked))
            .await
            .map_err(|error| match error {
                ChoiceError::Index(error) => source.broken(error),
                ChoiceError::Select(error) => RepositoryError::Select {
                    url: source.shown(),
                    source: error,
                },
            })
            .map(|entry| ChartVersion {
                digest: digest(&entry.digest).to_owned(),
                url: source.archive(&entry.url),
                version: entry.version,
            })
    }

    /// The entry of the version that is asked for.
    async fn choose(
        &self,
        access: &Access,
        listing: Arc<Listing>,
        (chart, asked): (&str, &VersionRequest<'_>),
    ) -> Result<IndexEntry, ChoiceError> {
        let versions = listing.index.versions(chart).map_err(ChoiceError::Index)?;
        let len = versions.len();
        let (chart, asked) = (chart.to_owned(), OwnedVersionRequest::from(asked));
        let work = move || {
            let entries = listing.index.versions(&chart).map_err(ChoiceError::Index)?;
            let chosen = select(&chart, entries, &asked.borrowed());
            chosen.cloned().map_err(ChoiceError::Select)
        };
        self.choices.among(access, len, work).await
    }

    /// The index, with the chart and whatever else can be read together with it.
    async fn listing(
        &self,
        web: &HttpClient,
        source: &Source<'_>,
        interest: &Interest<'_>,
        chart: &str,
        since: Instant,
    ) -> Result<Arc<Listing>, RepositoryError> {
        let namespace = &source.access.namespace;
        for scope in [Scope::All, Scope::Namespace(Arc::clone(namespace))] {
            let key = source.key(scope);
            if self.overflows.contains(&key, Instant::now()) {
                continue;
            }
            match self.scoped(web, source, interest, (&key, chart), since).await {
                Err(error) if error.is_too_large() => self.overflows.note(key, Instant::now()),
                Err(error) if error.is_too_much() => {}
                other => return other,
            }
        }
        let key = source.key(Scope::Chart(chart.to_owned()));
        self.scoped(web, source, interest, (&key, chart), since).await
    }

    async fn scoped(
        &self,
        web: &HttpClient,
        source: &Source<'_>,
        interest: &Interest<'_>,
        (key, chart): (&Key, &str),
        since: Instant,
    ) -> Result<Arc<Listing>, RepositoryError> {
        let namespace = &source.access.namespace;
        let suits = |listing: &Listing| listing.wanted.contains(chart);
        let admit = || web.admit(source.access, &source.url);
        self.cache
            .answer(key, (namespace, since), suits, admit, async |admission, kept| {
                let mut wanted = match &key.scope {
                    Scope::All => interest(&key.url, None),
                    Scope::Namespace(namespace) => interest(&key.url, Some(namespace)),
                    Scope::Chart(_) => ChartFilter::new(),
                };
                wanted.insert(chart.to_owned());
                self.fetch(web, &admission, source, wanted, kept).await
            })
            .await
    }

    async fn fetch(
        &self,
        web: &HttpClient,
        admission: &Admission,
        source: &Source<'_>,
        wanted: ChartFilter,
        kept: Option<Arc<Listing>>,
    ) -> Result<Arc<Listing>, RepositoryError> {
        let layout = kept.as_ref().map_or(Layout::Any, |listing| listing.layout);
        let answer = source
            .ask(web, admission, kept.as_deref())
            .await
            .map_err(RepositoryError::Fetch)?;
        if answer.status() == StatusCode::NOT_MODIFIED
            && let Some(kept) = kept
        {
            answer.end();
            return Ok(kept);
        }
        match self.read(source, answer, &wanted, layout).await {
            // What has gone by is not kept, so it is fetched once more, and from then on read with the general reader.
            Err(RepositoryError::Index { source: error, .. }) if matches!(*error, IndexError::OddLayout) => {
                let answer = source
                    .ask(web, admission, None)
                    .await
                    .map_err(RepositoryError::Fetch)?;
                self.read(source, answer, &wanted, Layout::General).await
            }
            other => other,
        }
        .map(Arc::new)
    }

    async fn read(
        &self,
        source: &Source<'_>,
        answer: HttpResponse,
        wanted: &ChartFilter,
        layout: Layout,
    ) -> Result<Listing, RepositoryError> {
        if answer.status() != StatusCode::OK {
            let fault = source.refusal(answer.status());
            return Err(RepositoryError::Fetch(answer.refuse(fault)));
        }
        let validators = validators(answer.headers());
        let is_foreign = answer.is_foreign();
        let reading = wanted.clone();
        let mut reservation = self.budget.start(&source.access.namespace);
        let index = answer
            .read(self.limits, move |body| {
                match index::read_metered(BufReader::new(body), &reading, layout, &mut reservation) {
                    Err(IndexError::Input(error)) => Err(fault(&error)),
                    other => Ok(other),
                }
            })
            .await
            .map_err(RepositoryError::Fetch)?
            .map_err(|error| match error {
                // Not about what is in it.
                IndexError::OddLayout | IndexError::TooManyVersions | IndexError::OverBudget(_) => {
                    source.broken(error)
                }
                _ if is_foreign => RepositoryError::Fetch(FetchError::new(&source.shown(), Fault::foreign())),
                _ => source.broken(error),
            })?;
        self.fetches.skipped_entries.inc_by(index.skipped);
        Ok(Listing {
            index,
            wanted: wanted.clone(),
            layout,
            validators,
        })
    }
}

/// Why an index gives no version.
enum ChoiceError {
    Index(IndexError),
    Select(SelectError),
}

impl Listing {
    fn bytes(&self) -> usize {
        let validators = self.validators.values().map(HeaderValue::len).sum::<usize>();
        self.index.bytes() + self.wanted.iter().map(String::len).sum::<usize>() + validators
    }
}

impl<'a> Source<'a> {
    fn new(repo: &str, access: &'a Access) -> Result<Self, FetchError> {
        let mut url = index_url(repo)?;
        let in_url = login_in(&url);
        // The client would send them a second time.
        without_login(&mut url);
        let credentials = access.credentials(&url);
        let withheld = credentials.withheld().filter(|_| in_url.is_none());
        let login = match credentials {
            Credentials::Login(login) => Some(login.clone()),
            Credentials::None | Credentials::Withheld(_) => in_url,
        };
        Ok(Self {
            url,
            access,
            login,
            withheld,
        })
    }

    async fn ask(
        &self,
        web: &HttpClient,
        admission: &Admission,
        kept: Option<&Listing>,
    ) -> Result<HttpResponse, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(login) = &self.login {
            headers.insert(AUTHORIZATION, login.basic());
        }
        if let Some(kept) = kept {
            headers.extend(kept.validators.clone());
        }
        let identity = self.access.identity(self.login.as_ref());
        let ask = HttpRequest {
            admission: admission.clone(),
            kind: Kind::Index,
            method: Method::GET,
            url: self.url.clone(),
            headers,
            transport: &self.access.transport,
            about: (&self.url, &identity),
        };
        web.ask(ask).await
    }

    fn refusal(&self, status: StatusCode) -> Fault {
        self.access.refusal(status, self.withheld)
    }

    /// A failure that may be somebody else's, who asked the same: what it says of credentials is about those of this one.
    fn told(&self, error: RepositoryError) -> RepositoryError {
        match error {
            RepositoryError::Fetch(FetchError { url, fault }) => RepositoryError::Fetch(FetchError {
                url,
                fault: self.access.told(fault, self.withheld),
            }),
            other => other,
        }
    }

    fn key(&self, scope: Scope) -> Key {
        Key {
            url: self.url.to_string(),
            identity: self.access.identity(self.login.as_ref()),
            scope,
        }
    }

    fn broken(&self, error: IndexError) -> RepositoryError {
        RepositoryError::Index {
            url: self.shown(),
            source: Arc::new(error),
        }
    }

    /// The URL of the index, for people.
    fn shown(&self) -> String {
        redacted(self.url.as_str())
    }

    /// Where an archive is, without credentials: the index names it relative to the repository, or absolutely. Empty where
    /// what it names is no URL: it is recorded, and may hold anything.
    fn archive(&self, url: &str) -> String {
        let absolute = self.url.join(url);
        absolute.map_or_else(|_| String::new(), |url| redacted(url.as_str()))
    }
}

/// The digest that an index lists, if it can be one: it is recorded, and may be anything.
fn digest(text: &str) -> &str {
    // The longest in use, SHA-512 in hexadecimal, has 128 characters and perhaps a name in front.
    let is_digest = text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_digest { text } else { "" }
}

/// What to send the next time, so that the server can say that nothing has changed. Both values are repeated byte by
/// byte: some servers send entity tags that are none.
fn validators(headers: &HeaderMap) -> HeaderMap {
    let pairs: [(HeaderName, HeaderName); 2] = [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)];
    pairs
        .into_iter()
        .filter_map(|(from, to)| Some((to, headers.get(from)?.clone())))
        .collect()
}

/// The URL of a repository's index without credentials: the same text for all spellings of the repository. `None` where it
/// is none.
pub fn index_of(repo: &str) -> Option<String> {
    let mut url = index_url(repo).ok()?;
    without_login(&mut url);
    Some(url.into())
}

fn without_login(url: &mut Url) {
    // They fail where a URL cannot have any.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

/// The URL of a repository's index: a slash at the end of the repository makes no difference, a query is kept.
fn index_url(repo: &str) -> Result<Url, FetchError> {
    let mut url = parse(repo)?;
    let path = format!("{}/index.yaml", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

/// The login in front of the host.
fn login_in(url: &Url) -> Option<Login> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let username = decoded(url.username());
    let password = decoded(url.password().unwrap_or_default());
    (!username.is_empty() || !password.is_empty()).then_some(Login { username, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_lies_beside_the_charts() {
        for (repo, index) in [
            ("https://h/charts", "https://h/charts/index.yaml"),
            ("https://h/charts//", "https://h/charts/index.yaml"),
            ("https://h", "https://h/index.yaml"),
            ("https://h/c?token=x#f", "https://h/c/index.yaml?token=x"),
        ] {
            assert_eq!(index_url(repo).unwrap().as_str(), index);
        }
    }

    #[test]
    fn a_login_may_stand_in_the_url() {
        let login = login_in(&Url::parse("https://user:p%40ss@h/").unwrap()).unwrap();
        assert_eq!(
            (login.username.as_str(), login.password.as_str()),
            ("user", "p@ss")
        );
        assert_eq!(login_in(&Url::parse("https://h/").unwrap()), None);
    }

    #[test]
    fn archives_lie_beside_the_index_or_elsewhere() {
        let access = Access::default();
        let source = Source::new("https://u:geheim@h/charts?token=geheim", &access).unwrap();
        assert_eq!(source.archive("web-1.0.0.tgz"), "https://h/charts/web-1.0.0.tgz");
        assert_eq!(
            source.archive("https://cdn/web-1.0.0.tgz?sig=geheim"),
            "https://cdn/web-1.0.0.tgz?…"
        );
        assert!(!source.shown().contains("geheim"));
    }

    #[test]
    fn an_archive_that_is_no_url_is_not_recorded() {
        let access = Access::default();
        let source = Source::new("https://h/charts", &access).unwrap();
        for text in [
            "https://[bad\u{7}\u{1b}[31m/web.tgz",
            "https://u:geheim@h:99999/web.tgz",
            "http://",
        ] {
            assert_eq!(source.archive(text), "", "{text:?}");
        }
        for text in ["web\n\u{1b}[31m.tgz", "https://cdn/\u{7}.tgz"] {
            let archive = source.archive(text);
            assert!(
                !archive.is_empty() && !archive.contains(char::is_control),
                "{archive:?}"
            );
        }
    }

    #[test]
    fn a_digest_that_is_none_is_not_recorded() {
        let sha = "0".repeat(64);
        assert_eq!(digest(&sha), sha);
        assert_eq!(digest(&format!("sha256:{sha}")), format!("sha256:{sha}"));
        for text in ["\u{1b}[31m", "a b", "ä", &"a".repeat(257)] {
            assert_eq!(digest(text), "", "{text:?}");
        }
    }

    #[test]
    fn entity_tags_are_opaque() {
        let mut headers = HeaderMap::new();
        headers.insert(ETAG, HeaderValue::from_bytes(b"no quotes \xff").unwrap());
        let sent = validators(&headers);
        assert_eq!(sent.get(IF_NONE_MATCH).unwrap().as_bytes(), b"no quotes \xff");
        assert_eq!(sent.len(), 1);
    }
}

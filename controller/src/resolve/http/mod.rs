//! Requests to repositories and registries.
//!
//! [`HttpClient`] admits a namespace to a request, and sends the request where nothing is spared that it needs, over a client that
//! trusts what the HelmOp trusts, to addresses that are allowed. What comes back is an [`HttpResponse`] of any status, or a
//! [`FetchError`]. Every request is counted once, when its answer has been read or has failed.

mod addresses;
mod admission;
mod body;
mod client;
mod fault;
mod names;
mod pauses;
mod readers;
mod redirects;
mod retry_after;

use std::{
    io::{self, Read},
    sync::Arc,
    time::Instant,
};

use helmops_shared::chart::url::redacted;
use reqwest::{
    Client, Method, Request, Response, StatusCode, Url,
    header::{HeaderMap, RETRY_AFTER},
};

#[cfg(test)]
pub use self::body::LeastRate;
pub use self::{
    addresses::{Addresses, Cidr, CidrError},
    admission::Admission,
    body::{Limits, fault},
    client::Timeouts,
    fault::{Fault, FetchError, parse},
};
use self::{
    admission::Admissions,
    body::Reading,
    client::Clients,
    fault::Scope,
    pauses::{Key, Pauses},
    readers::{Readers, Threads},
};
use super::{
    access::{Access, TlsConfig, origin},
    metrics::{Fetches, Kind, Outcome},
};
use crate::metrics::Present;

/// Sends requests.
#[derive(Debug)]
pub struct HttpClient {
    admissions: Admissions,
    addresses: Arc<Addresses>,
    clients: Clients,
    /// Servers that cannot be reached, for those who have the same way to reach them.
    hosts: Pauses,
    /// Repositories that are in trouble or limit requests, for those who ask with the same credentials.
    repositories: Arc<Pauses>,
    readers: Readers,
    timeouts: Timeouts,
    fetches: Fetches,
}

/// A request.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// The right to send it.
    pub admission: Admission,
    /// What is asked for.
    pub kind: Kind,
    /// GET or HEAD.
    pub method: Method,
    /// The URL, without credentials.
    pub url: Url,
    /// Its headers, credentials included.
    pub headers: HeaderMap,
    /// Whom to trust.
    pub transport: &'a Arc<TlsConfig>,
    /// The repository that it is about, and whose credentials and trust it is sent with.
    pub about: (&'a Url, &'a [u8; 32]),
}

/// The head of an answer, with the body still to come.
#[derive(Debug)]
pub struct HttpResponse {
    response: Response,
    is_foreign: bool,
    fetch: Fetch,
}

/// A request that is counted, timed and held against its repository.
#[derive(Debug)]
struct Fetch {
    kind: Kind,
    url: String,
    repository: (Arc<Pauses>, Key),
    threads: Threads,
    started: Instant,
    timeouts: Timeouts,
    fetches: Fetches,
    _in_flight: Present,
    admission: Admission,
}

impl HttpClient {
    /// Makes what requests are sent with.
    ///
    /// # Errors
    /// Where the system refuses what it needs.
    pub fn new(timeouts: Timeouts, addresses: Addresses, fetches: Fetches) -> io::Result<Self> {
        let addresses = Arc::new(addresses);
        Ok(Self {
            admissions: Admissions::default(),
            clients: Clients::new(timeouts, Arc::clone(&addresses)),
            addresses,
            hosts: Pauses::default(),
            repositories: Arc::default(),
            readers: Readers::new()?,
            timeouts,
            fetches,
        })
    }

    /// Waits until the namespace of a HelmOp may send a request to the host of a URL. The clock of the HelmOp stands
    /// meanwhile.
    pub async fn admit(&self, access: &Access, url: &Url) -> Admission {
        let admission = self.admissions.admit(&access.namespace, url);
        access.clock.stopped(admission).await
    }

    /// Sends a request and waits for the head of the answer. Redirects are followed.
    ///
    /// # Errors
    /// Where there is no answer, the server is in trouble (5xx), or limits requests.
    pub async fn ask(&self, ask: HttpRequest<'_>) -> Result<HttpResponse, FetchError> {
        let url = redacted(ask.url.as_str());
        let failed = |fault| FetchError {
            url: url.clone(),
            fault,
        };
        let (home, repository_home) = (origin(&ask.url), origin(ask.about.0));
        self.addresses
            .check_url(&ask.url)
            .map_err(|error| failed(error.into()))?;
        let client = self.clients.get(ask.transport, &home).map_err(failed)?;
        let repository = self.repositories.key((&home, ask.about));
        self.repositories.check(repository).map_err(failed)?;
        self.hosts
            .check(self.host(ask.transport, &home))
            .map_err(failed)?;
        let fetch = Fetch {
            kind: ask.kind,
            url: url.clone(),
            repository: (Arc::clone(&self.repositories), repository),
            threads: self.readers.threads(),
            started: Instant::now(),
            timeouts: self.timeouts,
            fetches: self.fetches.clone(),
            _in_flight: self.fetches.in_flight(),
            admission: ask.admission.clone(),
        };
        let response = match self.follow(&client, ask, fetch.deadline()).await {
            Ok(response) => response,
            Err(fault) => return Err(fetch.failed(fault, 0)),
        };
        match trouble(&response) {
            Some(fault) => Err(fetch.failed(fault, 0)),
            None => Ok(HttpResponse {
                is_foreign: origin(response.url()) != repository_home,
                response,
                fetch,
            }),
        }
    }

    /// Sends a request and follows redirects, to the last answer.
    async fn follow(
        &self,
        client: &Client,
        ask: HttpRequest<'_>,
        deadline: Instant,
    ) -> Result<Response, Fault> {
        let (mut url, mut headers) = (ask.url, ask.headers);
        let mut redirects = 0;
        loop {
            let mut request = Request::new(ask.method.clone(), url.clone());
            *request.headers_mut() = headers.clone();
            *request.timeout_mut() = Some(deadline.saturating_duration_since(Instant::now()));
            let host = self.host(ask.transport, &origin(&url));
            self.hosts.check(host)?;
            let response = self.send(client, request, host).await?;
            let Some(to) = redirects::next(&response, redirects)? else {
                return Ok(response);
            };
            self.addresses.check_url(&to)?;
            redirects::strip(&mut headers, &url, &to);
            url = to;
            redirects += 1;
        }
    }

    async fn send(&self, client: &Client, request: Request, host: Key) -> Result<Response, Fault> {
        match client.execute(request).await {
            Ok(response) => {
                self.hosts.answered(host);
                Ok(response)
            }
            Err(error) => {
                let fault = Fault::of(error);
                if fault.scope() == Scope::Host {
                    self.hosts.failed(host, &fault);
                }
                Err(fault)
            }
        }
    }

    /// A server as it is reached by those with one kind of trust: to others it may well answer.
    fn host(&self, transport: &Arc<TlsConfig>, origin: &str) -> Key {
        self.hosts.key((origin, transport))
    }
}

impl HttpResponse {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// What was asked for, for people.
    pub fn url(&self) -> &str {
        &self.fetch.url
    }

    /// Whether it comes from another scheme, host or port than those of the repository: a redirect led there, or the registry
    /// names it as its token server. Nothing of such an answer is quoted, since whoever reads the message may not be allowed
    /// to read what is there: the controller may reach what he cannot.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Leaves the body unread: the head said it all.
    pub fn end(self) {
        self.fetch.answered(self.response.status(), 0);
    }

    /// Leaves the body unread, and makes an error of it.
    pub fn refuse(self, fault: Fault) -> FetchError {
        self.fetch.failed(fault, 0)
    }

    /// The whole body, which must be small.
    ///
    /// # Errors
    /// Where it is larger than `limit` bytes, or breaks off.
    pub async fn bytes(self, limit: u64) -> Result<Vec<u8>, FetchError> {
        let limits = Limits {
            wire: limit,
            decoded: limit,
        };
        self.read(limits, |mut body| {
            let mut bytes = Vec::new();
            body.read_to_end(&mut bytes)
                .map(|_| bytes)
                .map_err(|error| fault(&error))
        })
        .await
    }

    /// Hands the body to a reader on a thread of its own while it arrives.
    ///
    /// # Errors
    /// Those of the reader, who gets the body's own as I/O errors; see [`fault()`].
    pub async fn read<T, E>(
        self,
        limits: Limits,
        reader: impl FnOnce(Box<dyn Read + Send>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, FetchError>
    where
        T: Send + 'static,
        E: Into<Fault> + Send + 'static,
    {
        let Self {
            response,
            is_foreign,
            fetch,
        } = self;
        let status = response.status();
        let how = Reading {
            limits,
            deadline: fetch.deadline(),
            rate: fetch.timeouts.rate,
            threads: fetch.threads.clone(),
        };
        let (read, bytes) = body::read(response, how, reader).await;
        match read.and_then(|read| read.map_err(Into::into)) {
            Ok(value) => {
                fetch.answered(status, bytes);
                Ok(value)
            }
            Err(fault) if is_foreign => Err(fetch.failed(fault.without_quotes(), bytes)),
            Err(fault) => Err(fetch.failed(fault, bytes)),
        }
    }
}

impl Fetch {
    /// For the whole answer, redirects and the reading of it included.
    fn deadline(&self) -> Instant {
        (self.started + self.timeouts.total).min(self.admission.until)
    }

    fn answered(self, status: StatusCode, bytes: u64) {
        let (pauses, key) = &self.repository;
        pauses.answered(*key);
        self.fetches
            .ended(self.kind, outcome(status), bytes, self.started.elapsed());
    }

    fn failed(self, fault: Fault, bytes: u64) -> FetchError {
        let (pauses, key) = &self.repository;
        match fault.scope() {
            Scope::Repository => pauses.failed(*key, &fault),
            Scope::Request => pauses.answered(*key),
            Scope::Host => {}
        }
        let outcome = Outcome::Failed(fault.reason());
        self.fetches
            .ended(self.kind, outcome, bytes, self.started.elapsed());
        FetchError { url: self.url, fault }
    }
}

/// The outcome of a request in metrics.
fn outcome(status: StatusCode) -> Outcome {
    match status {
        StatusCode::NOT_MODIFIED => Outcome::NotModified,
        status if status.is_success() => Outcome::Success,
        status => Outcome::Failed(Fault::Status(status).reason()),
    }
}

/// What keeps the server from answering anything at all.
fn trouble(response: &Response) -> Option<Fault> {
    let status = response.status();
    let after = retry_after::parse(response.headers().get(RETRY_AFTER), std::time::SystemTime::now());
    let is_limit = status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::SERVICE_UNAVAILABLE && after.is_some();
    if is_limit {
        Some(Fault::RateLimited { status, after })
    } else {
        status.is_server_error().then_some(Fault::Status(status))
    }
}

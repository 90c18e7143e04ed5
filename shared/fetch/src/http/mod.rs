//! Requests to repositories and registries.
//!
//! [`HttpClient`] sends a request for which there is a permit, unless its host or repository is backing off, with the trust of
//! the HelmOp, to allowed addresses only. It returns an [`HttpResponse`] of any status, or a [`FetchError`]. Every request is counted once, when its response has been read or has failed.

mod addresses;
mod body;
mod client;
mod error;
mod dns;
mod exchange;
mod post;
mod backoff;
mod readers;
mod redirects;
mod retry_after;
mod tcp;
mod tls;

use std::{
    io::{self, Read},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use helmops_model::chart::url::redacted;
use helmops_runtime::{
    error_class::{ClassifiedError, Scope},
    metrics::GaugeGuard,
};
use reqwest::{
    Client, Method, Request, Response, StatusCode, Url,
    header::{HeaderMap, RETRY_AFTER},
};

pub use self::{
    addresses::{Addresses, Cidr, CidrError},
    body::{CHUNK, Limits, read_error},
    client::Timeouts,
    error::{FetchError, FetchErrorKind},
    exchange::{Exchange, ExchangeError, ExchangeRequest, ExchangeResponse},
    post::{PostError, PostRequest, Poster},
    readers::Threads,
    tls::{CaCertificate, Connection, ProxyConfig, TlsConfig, origin},
};
use self::{
    backoff::{BackoffKey, Backoffs},
    body::ReadOptions,
    client::Clients,
    readers::Readers,
};
use super::{
    metrics::{FetchMetrics, RequestKind, RequestOutcome},
    permits::{Permits, RequestPermit},
};

/// Sends requests.
#[derive(Debug)]
pub struct HttpClient {
    /// The permits for requests, and for what needs them.
    pub permits: Permits,
    addresses: Arc<Addresses>,
    clients: Clients,
    /// Backoff of unreachable servers, for all requests with the same TLS configuration, and of repositories that fail or limit requests,
    /// for all requests with the same credentials.
    backoffs: Arc<Backoffs>,
    readers: Readers,
    timeouts: Timeouts,
    fetches: FetchMetrics,
}

/// A request.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// The permit to send it.
    pub permit: RequestPermit,
    /// What is requested.
    pub kind: RequestKind,
    /// GET, HEAD or POST.
    pub method: Method,
    /// The URL, without credentials.
    pub url: Url,
    /// Its headers, including credentials.
    pub headers: HeaderMap,
    /// Its body; empty for none.
    pub body: Bytes,
    /// How the server is reached.
    pub connection: &'a Connection,
    /// The repository that it belongs to, which backs off if the request fails.
    pub repository: RepositoryId<'a>,
}

/// Identifies a repository for backoff, by its URL and a digest of credentials and trust.
#[derive(Clone, Copy, Debug, Hash)]
pub struct RepositoryId<'a> {
    /// Its URL.
    pub url: &'a Url,
    /// See [`crate::access::Access::identity`].
    pub identity: &'a [u8; 32],
}

/// The head of a response, whose body has not been read yet.
#[derive(Debug)]
pub struct HttpResponse {
    response: Response,
    is_cross_origin: bool,
    tracked: TrackedRequest,
}

/// A request in flight: its metrics, and the backoff of its repository.
#[derive(Debug)]
struct TrackedRequest {
    kind: RequestKind,
    url: String,
    repository: (Arc<Backoffs>, BackoffKey),
    threads: Threads,
    started: Instant,
    timeouts: Timeouts,
    fetches: FetchMetrics,
    _in_flight: GaugeGuard,
    _permit: RequestPermit,
}

impl HttpClient {
    /// Creates the client.
    ///
    /// # Errors
    /// If the operating system refuses a resource.
    pub fn new(timeouts: Timeouts, addresses: Addresses, fetches: FetchMetrics) -> io::Result<Self> {
        let addresses = Arc::new(addresses);
        Ok(Self {
            permits: Permits::default(),
            clients: Clients::new(timeouts, Arc::clone(&addresses)),
            addresses,
            backoffs: Arc::default(),
            readers: Readers::new()?,
            timeouts,
            fetches,
        })
    }

    /// Sends a request and waits for the head of the response. Redirects are followed.
    ///
    /// # Errors
    /// If there is no response, the server fails (5xx), or it limits requests.
    pub async fn send(&self, request: HttpRequest<'_>) -> Result<HttpResponse, FetchError> {
        let url = redacted(request.url.as_str());
        let failed = |kind| FetchError {
            url: url.clone(),
            kind,
        };
        let (request_origin, repository_origin) = (origin(&request.url), origin(request.repository.url));
        self.addresses
            .check_url(&request.url)
            .map_err(|error| failed(error.into()))?;
        if let Some(proxy) = &request.connection.proxy {
            self.addresses
                .check_url(&proxy.address)
                .map_err(|error| failed(error.into()))?;
        }
        let client = self.clients.get(request.connection, &request_origin);
        let client = client.map_err(failed)?;
        let repository = self.backoffs.key((&request_origin, request.repository));
        self.backoffs.check(repository).map_err(failed)?;
        let host = self.host(request.connection, &request_origin);
        self.backoffs.check(host).map_err(failed)?;
        let tracked = TrackedRequest {
            kind: request.kind,
            url: url.clone(),
            repository: (Arc::clone(&self.backoffs), repository),
            threads: self.readers.threads(),
            started: Instant::now(),
            timeouts: self.timeouts,
            fetches: self.fetches.clone(),
            _in_flight: self.fetches.in_flight(),
            _permit: Arc::clone(&request.permit),
        };
        let response = match self.follow(&client, request, tracked.deadline()).await {
            Ok(response) => response,
            Err(kind) => return Err(tracked.failed(kind, 0)),
        };
        match server_error(&response) {
            Some(kind) => Err(tracked.failed(kind, 0)),
            None => Ok(HttpResponse {
                is_cross_origin: origin(response.url()) != repository_origin,
                response,
                tracked,
            }),
        }
    }

    /// Sends a request, follows redirects, and returns the last response.
    async fn follow(
        &self,
        client: &Client,
        request: HttpRequest<'_>,
        deadline: Instant,
    ) -> Result<Response, FetchErrorKind> {
        let (mut url, mut headers) = (request.url, request.headers);
        let mut redirects = 0;
        loop {
            let mut step = Request::new(request.method.clone(), url.clone());
            *step.headers_mut() = headers.clone();
            if !request.body.is_empty() {
                *step.body_mut() = Some(request.body.clone().into());
            }
            *step.timeout_mut() = Some(deadline.saturating_duration_since(Instant::now()));
            let host = self.host(request.connection, &origin(&url));
            self.backoffs.check(host)?;
            let response = self.execute(client, step, host).await?;
            let Some(to) = redirects::next(&response, redirects)? else {
                return Ok(response);
            };
            redirects::check_method(&request.method, response.status(), &url, &to)?;
            self.addresses.check_url(&to)?;
            redirects::strip(&mut headers, &url, &to);
            url = to;
            redirects += 1;
        }
    }

    async fn execute(
        &self,
        client: &Client,
        request: Request,
        host: BackoffKey,
    ) -> Result<Response, FetchErrorKind> {
        match client.execute(request).await {
            Ok(response) => {
                self.backoffs.responded(host);
                Ok(response)
            }
            Err(error) => {
                let kind = FetchErrorKind::from_reqwest(error);
                if kind.class().scope() == Scope::Host {
                    self.backoffs.failed(host, &kind);
                }
                Err(kind)
            }
        }
    }

    /// The backoff key of a server that is reached in this way: in another one it may be reachable.
    fn host(&self, connection: &Connection, origin: &str) -> BackoffKey {
        self.backoffs.key((origin, connection))
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

    /// The requested URL, for messages.
    pub fn url(&self) -> &str {
        &self.tracked.url
    }

    /// The URL that it comes from, behind redirects.
    pub fn location(&self) -> &Url {
        self.response.url()
    }

    /// Whether it comes from another scheme, host or port than those of the repository: by a redirect, or because the registry
    /// names it as its token server. Nothing of such a response is quoted in messages, because the controller may reach servers
    /// that the user who reads the message must not read.
    pub fn is_cross_origin(&self) -> bool {
        self.is_cross_origin
    }

    /// Discards the body: the head is sufficient.
    pub fn discard_body(self) {
        self.tracked.responded(self.response.status(), 0);
    }

    /// Discards the body, and returns an error for the response.
    pub fn into_error(self, kind: FetchErrorKind) -> FetchError {
        self.tracked.failed(kind, 0)
    }

    /// Reads the whole body, which must be small.
    ///
    /// # Errors
    /// If it is larger than `limit` bytes, or incomplete.
    pub async fn bytes(self, limit: u64) -> Result<Vec<u8>, FetchError> {
        let limits = Limits {
            wire: limit,
            decoded: limit,
        };
        self.read(limits, |mut body| {
            let mut bytes = Vec::new();
            body.read_to_end(&mut bytes)
                .map(|_| bytes)
                .map_err(|error| read_error(&error))
        })
        .await
    }

    /// Passes the body to a reader on a separate thread while it arrives.
    ///
    /// # Errors
    /// Those of the reader, which gets the errors of the body as I/O errors; see [`read_error()`].
    pub async fn read<T, E>(
        self,
        limits: Limits,
        reader: impl FnOnce(Box<dyn Read + Send>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, FetchError>
    where
        T: Send + 'static,
        E: Into<FetchErrorKind> + Send + 'static,
    {
        self.read_with(limits, false, reader).await
    }

    /// As [`Self::read`], but passes the body as received: some servers declare the compression of an archive as
    /// `Content-Encoding`, and without it the archive would be another one.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub async fn read_raw<T, E>(
        self,
        limit: u64,
        reader: impl FnOnce(Box<dyn Read + Send>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, FetchError>
    where
        T: Send + 'static,
        E: Into<FetchErrorKind> + Send + 'static,
    {
        let limits = Limits {
            wire: limit,
            decoded: limit,
        };
        self.read_with(limits, true, reader).await
    }

    async fn read_with<T, E>(
        self,
        limits: Limits,
        is_raw: bool,
        reader: impl FnOnce(Box<dyn Read + Send>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, FetchError>
    where
        T: Send + 'static,
        E: Into<FetchErrorKind> + Send + 'static,
    {
        let Self {
            response,
            is_cross_origin,
            tracked,
        } = self;
        let status = response.status();
        let options = ReadOptions {
            limits,
            is_raw,
            deadline: tracked.deadline(),
            threads: tracked.threads.clone(),
        };
        let (read, bytes) = body::read(response, options, reader).await;
        match read.and_then(|read| read.map_err(Into::into)) {
            Ok(value) => {
                tracked.responded(status, bytes);
                Ok(value)
            }
            Err(kind) if is_cross_origin => Err(tracked.failed(kind.without_response_text(), bytes)),
            Err(kind) => Err(tracked.failed(kind, bytes)),
        }
    }
}

impl TrackedRequest {
    /// For the whole response, including redirects and reading.
    fn deadline(&self) -> Instant {
        self.started + self.timeouts.total
    }

    fn responded(self, status: StatusCode, bytes: u64) {
        let (backoff, key) = &self.repository;
        backoff.responded(*key);
        self.fetches
            .record(self.kind, outcome(status), bytes, self.started.elapsed());
    }

    fn failed(self, kind: FetchErrorKind, bytes: u64) -> FetchError {
        let (backoff, key) = &self.repository;
        match kind.class().scope() {
            Scope::Repository => backoff.failed(*key, &kind),
            // The server works, and only this request failed.
            Scope::Object | Scope::Namespace => backoff.responded(*key),
            Scope::Host => {}
        }
        let outcome = RequestOutcome::Failed(kind.reason());
        self.fetches
            .record(self.kind, outcome, bytes, self.started.elapsed());
        FetchError { url: self.url, kind }
    }
}

/// The outcome of a request in metrics.
fn outcome(status: StatusCode) -> RequestOutcome {
    match status {
        StatusCode::NOT_MODIFIED => RequestOutcome::NotModified,
        status if status.is_success() => RequestOutcome::Success,
        status => RequestOutcome::Failed(FetchErrorKind::Status(status).reason()),
    }
}

/// The error of a server that fails or limits requests.
fn server_error(response: &Response) -> Option<FetchErrorKind> {
    let status = response.status();
    let after = retry_after::parse(response.headers().get(RETRY_AFTER), std::time::SystemTime::now());
    let is_rate_limit = status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::SERVICE_UNAVAILABLE && after.is_some();
    if is_rate_limit {
        Some(FetchErrorKind::RateLimited { status, after })
    } else {
        status.is_server_error().then_some(FetchErrorKind::Status(status))
    }
}

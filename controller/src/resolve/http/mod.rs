//! Requests to repositories and registries.
//!
//! [`Web`] sends one request: when its host may be asked, over a client that trusts what the HelmOp trusts. What comes
//! back is an [`Answer`] of any status, or a [`FetchError`]. Every request is counted once, when its answer has been
//! read or has failed.

mod body;
mod client;
mod fault;
mod hosts;
mod retry_after;

use std::{
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_shared::chart::url::redacted;
use reqwest::{
    Method, Request, Response, StatusCode, Url,
    header::{HeaderMap, RETRY_AFTER},
};

pub use self::{
    body::{Limits, fault},
    client::Timeouts,
    fault::{Fault, FetchError, parse},
};
use self::{
    client::Clients,
    hosts::{Hosts, Turn},
};
use super::{
    access::{Transport, origin},
    metrics::{Fetches, Kind},
};
use crate::metrics::Present;

/// Sends requests.
#[derive(Debug)]
pub struct Web {
    clients: Clients,
    hosts: Hosts,
    total: Duration,
    fetches: Fetches,
}

/// A request.
#[derive(Debug)]
pub struct Ask<'a> {
    /// What is asked for.
    pub kind: Kind,
    /// GET or HEAD.
    pub method: Method,
    /// The URL, without credentials.
    pub url: Url,
    /// Its headers, credentials included.
    pub headers: HeaderMap,
    /// Whom to trust.
    pub transport: &'a Arc<Transport>,
}

/// The head of an answer, with the body still to come.
#[derive(Debug)]
pub struct Answer {
    response: Response,
    fetch: Fetch,
}

/// A request that is counted, timed and held against its host.
#[derive(Debug)]
struct Fetch {
    kind: Kind,
    url: String,
    turn: Turn,
    started: Instant,
    /// For the whole answer, the reading of it included.
    total: Duration,
    fetches: Fetches,
    _in_flight: Present,
}

impl Web {
    /// Makes what requests are sent with.
    pub fn new(timeouts: Timeouts, fetches: Fetches) -> Self {
        Self {
            clients: Clients::new(timeouts),
            hosts: Hosts::default(),
            total: timeouts.total,
            fetches,
        }
    }

    /// Sends a request and waits for the head of the answer.
    ///
    /// # Errors
    /// Where there is no answer, the server is in trouble (5xx), or limits requests.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Answer, FetchError> {
        let url = redacted(ask.url.as_str());
        let failed = |fault| FetchError {
            url: url.clone(),
            fault,
        };
        let client = self.clients.get(ask.transport).map_err(failed)?;
        let turn = self.hosts.turn(&origin(&ask.url)).await.map_err(failed)?;
        let fetch = Fetch {
            kind: ask.kind,
            url: url.clone(),
            turn,
            started: Instant::now(),
            total: self.total,
            fetches: self.fetches.clone(),
            _in_flight: self.fetches.in_flight(),
        };
        let mut request = Request::new(ask.method, ask.url);
        *request.headers_mut() = ask.headers;
        let response = match client.execute(request).await {
            Ok(response) => response,
            Err(error) => return Err(fetch.failed(Fault::of(error), 0)),
        };
        match trouble(&response) {
            Some(fault) => Err(fetch.failed(fault, 0)),
            None => Ok(Answer { response, fetch }),
        }
    }
}

impl Answer {
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
        let Self { response, fetch } = self;
        let status = response.status();
        let deadline = fetch.started + fetch.total;
        let (read, bytes) = body::read(response, limits, deadline, reader).await;
        match read.and_then(|read| read.map_err(Into::into)) {
            Ok(value) => {
                fetch.answered(status, bytes);
                Ok(value)
            }
            Err(fault) => Err(fetch.failed(fault, bytes)),
        }
    }
}

impl Fetch {
    fn answered(self, status: StatusCode, bytes: u64) {
        self.turn.answered();
        self.fetches
            .ended(self.kind, outcome(status), bytes, self.started.elapsed());
    }

    fn failed(self, fault: Fault, bytes: u64) -> FetchError {
        self.turn.failed(&fault);
        let reason = fault.reason().as_str();
        self.fetches
            .ended(self.kind, reason, bytes, self.started.elapsed());
        FetchError { url: self.url, fault }
    }
}

/// The word for an answer in metrics.
fn outcome(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_MODIFIED => super::metrics::NOT_MODIFIED,
        status if status.is_success() => super::metrics::SUCCESS,
        status => Fault::Status(status).reason().as_str(),
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

//! The requests of a store, sent by the client for all others: to allowed addresses only, with the trust and the proxy of the Secret, within
//! the limits of size, time and memory, and with one permit. Each is sent once, and a response that is no success is an error here, so the
//! store repeats none.

use std::{
    fmt,
    io::Read,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use helm_index::{Meter, OverBudget};
use helmops_bucket::{Operation, Refusal};
use helmops_model::chart::url::redacted;
use helmops_process::lock;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName};
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use reqwest::Url;
use thiserror::Error;

use super::{Access, HttpClient, ReadMemory, RequestPermit};
use crate::{
    http::{self as client, CHUNK, FetchError, FetchErrorKind, Limits, RepositoryId, origin, read_error},
    metrics::RequestKind,
};

/// The region of a bucket, in the responses of servers of another one.
const REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");
/// Bytes that are read of a response that is no success.
const MAX_ERROR: u64 = 16 << 10;
/// Memory for each byte of a response: it is copied once, and a list is parsed.
const COPIES: usize = 3;

/// The requests of a store.
pub(super) struct Exchange {
    pub http: Arc<HttpClient>,
    pub access: Arc<Access>,
    pub permit: RequestPermit,
    pub operation: Operation,
    /// The URL of the bucket.
    pub url: Url,
    /// What distinguishes its credentials and trust from others.
    pub identity: [u8; 32],
    /// The largest response, in bytes.
    pub limit: u64,
    pub memory: Mutex<SessionMemory>,
    /// Why the last request failed. The store has another error for it, without what a user needs.
    pub failure: Mutex<Option<Failure>>,
}

/// The memory of a response, on top of what is kept of others.
#[derive(Debug)]
pub(super) struct SessionMemory {
    pub meter: ReadMemory,
    pub kept: usize,
}

/// Why a request has no usable response.
#[derive(Debug)]
pub(super) enum Failure {
    Fetch(FetchError),
    Refused(Refusal, Operation),
    /// To another server, which does not accept the request. Its URL has no query.
    Redirected(String),
    Memory,
}

/// The cause is kept in [`Exchange::failure`].
#[derive(Debug, Error)]
#[error("the request failed")]
struct Kept;

/// What a store sends its requests by.
#[derive(Debug)]
pub(super) struct Service(pub Arc<Exchange>);

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Self(exchange) = self;
        exchange.send(request).await.map_err(|failure| {
            *lock(&exchange.failure) = Some(failure);
            HttpError::new(HttpErrorKind::Unknown, Kept)
        })
    }
}

impl SessionMemory {
    fn reserve(&mut self, response: usize) -> Result<(), OverBudget> {
        self.meter.reserve(self.kept + response * COPIES)
    }
}

impl Exchange {
    async fn send(self: &Arc<Self>, request: HttpRequest) -> Result<HttpResponse, Failure> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|error| {
            let kind = FetchErrorKind::Url(error.to_string());
            Failure::Fetch(FetchError::new(self.url.as_str(), kind))
        })?;
        // Tokens come from another server.
        let operation = if origin(&url) == origin(&self.url) {
            self.operation
        } else {
            Operation::Token
        };
        let request = client::HttpRequest {
            permit: Arc::clone(&self.permit),
            kind: match operation {
                Operation::List => RequestKind::Listing,
                Operation::Get => RequestKind::Object,
                Operation::Token => RequestKind::Token,
            },
            method: head.method,
            url,
            headers: head.headers,
            body: body.as_bytes().cloned().unwrap_or_default(),
            connection: &self.access.connection,
            repository: RepositoryId {
                url: &self.url,
                identity: &self.identity,
            },
        };
        let response = self.http.send(request).await.map_err(Failure::Fetch)?;
        if response.status().is_success() {
            self.read(response, operation).await
        } else {
            Err(refusal(response, operation).await)
        }
    }

    async fn read(
        self: &Arc<Self>,
        response: client::HttpResponse,
        operation: Operation,
    ) -> Result<HttpResponse, Failure> {
        let (status, headers) = (response.status(), response.headers().clone());
        let exchange = Arc::clone(self);
        let reader = move |body: Box<dyn Read + Send>| read_all(body, &exchange.memory);
        let body = match operation {
            // The same bytes as in the bucket.
            Operation::Get => response.read_raw(self.limit, reader).await,
            Operation::List | Operation::Token => {
                let limits = Limits {
                    wire: self.limit,
                    decoded: self.limit,
                };
                response.read(limits, reader).await
            }
        };
        let body = body.map_err(Failure::Fetch)?;
        let body = body.map_err(|OverBudget| Failure::Memory)?;
        Ok(complete(status, headers, body))
    }
}

/// A response for a store, which requires a length.
fn complete(status: http::StatusCode, mut headers: HeaderMap, body: Vec<u8>) -> HttpResponse {
    headers.insert(CONTENT_LENGTH, body.len().into());
    let mut response = HttpResponse::new(HttpResponseBody::from(Bytes::from(body)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

async fn refusal(response: client::HttpResponse, operation: Operation) -> Failure {
    if operation != Operation::Token && response.is_cross_origin() {
        let to = redacted(response.location().as_str());
        response.discard_body();
        return Failure::Redirected(to);
    }
    let status = response.status().as_u16();
    let region = response.headers().get(REGION);
    let region = region.and_then(|region| region.to_str().ok());
    let region = region.unwrap_or_default().to_owned();
    // Without the body the status has to do.
    let body = response.bytes(MAX_ERROR).await.unwrap_or_default();
    Failure::Refused(Refusal::new(status, &body, &region), operation)
}

fn read_all(
    mut body: Box<dyn Read + Send>,
    memory: &Mutex<SessionMemory>,
) -> Result<Result<Vec<u8>, OverBudget>, FetchErrorKind> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = body.read(&mut chunk).map_err(|error| read_error(&error))?;
        if length == 0 {
            return Ok(Ok(bytes));
        }
        if lock(memory).reserve(bytes.len() + length).is_err() {
            return Ok(Err(OverBudget));
        }
        bytes.extend_from_slice(chunk.get(..length).unwrap_or_default());
    }
}

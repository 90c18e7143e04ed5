//! Requests that send something: to a URL of a user, with the same clients, denied addresses and trust as requests to repositories.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bounded_text::cut;
use helmops_model::{chart::location::without_credentials, reason::Reason};
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, Scope, classified};
use reqwest::{
    Body, Client, Method, Request, Response, StatusCode, Url,
    header::{HeaderMap, LOCATION, RETRY_AFTER},
};
use thiserror::Error;

use super::{
    addresses::Addresses,
    client::{Clients, Timeouts},
    error::FetchErrorKind,
    exchange::read_whole,
    retry_after::{self, MAX_RETRY_AFTER},
    tls::{Connection, ProxyConfig, TlsConfig, origin},
};

/// Redirects that are followed, one after the other.
const MAX_REDIRECTS: usize = 3;
/// Maximum length of a response that is read, in bytes. The rest is not read, and the connection is closed.
const MAX_RESPONSE: usize = 64 << 10;
/// Maximum time for the body of a response.
const READING: Duration = Duration::from_secs(5);
/// Longest host that an error quotes, in bytes.
const MAX_QUOTE: usize = 128;

/// Sends requests with a body.
#[derive(Debug)]
pub struct Poster {
    addresses: Arc<Addresses>,
    clients: Clients,
}

/// A request with a body.
#[derive(Clone, Debug)]
pub struct PostRequest {
    /// The URL.
    pub url: Url,
    /// Its headers, including credentials.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
    /// The TLS configuration.
    pub tls: Arc<TlsConfig>,
    /// The proxy; `None` for those of the environment.
    pub proxy: Option<Arc<ProxyConfig>>,
    /// Maximum time until the head of the response.
    pub timeout: Duration,
}

/// Why a request was not accepted. Nothing of a response is quoted: the sender may reach servers that the user who reads the message
/// must not read.
#[derive(Clone, Debug, Error)]
pub enum PostError {
    /// There is no response.
    #[error(transparent)]
    NoResponse(#[from] FetchErrorKind),
    /// A response with another status than that of a success.
    #[error("the server responds with status {status}")]
    Status {
        /// The status.
        status: StatusCode,
        /// The value of `Retry-After`.
        after: Option<Duration>,
    },
    /// A redirect that is not followed.
    #[error(
        "the server redirects to {0}, and requests are redirected on the same host only, with status 307 or 308; correct the address"
    )]
    Redirect(String),
    /// A document that is longer than allowed.
    #[error("the response has more than {} KiB; it is not the document that is expected", MAX_RESPONSE >> 10)]
    TooLarge,
}

impl ClassifiedError for PostError {
    fn classify(&self) -> Classified {
        match self {
            Self::NoResponse(error) => error.classify(),
            Self::Status { status, after } if is_temporary(*status) => {
                let class = after.map_or(Class::Transient(Scope::Repository), |after| {
                    Class::RateLimited(after.min(MAX_RETRY_AFTER))
                });
                classified(Reason::DeliveryFailed, class)
            }
            // Such a request waits for a change of its URL, its credentials or its content.
            Self::Status { .. } | Self::Redirect(_) => classified(Reason::DeliveryFailed, Class::Absent),
            Self::TooLarge => classified(Reason::ResponseTooLarge, Class::Absent),
        }
    }
}

/// Whether a server that responds with this status may accept the same request later.
fn is_temporary(status: StatusCode) -> bool {
    let again = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    again.contains(&status) || status.is_server_error()
}

impl Poster {
    /// Sends requests to these addresses only.
    pub fn new(addresses: Addresses) -> Self {
        let addresses = Arc::new(addresses);
        Self {
            clients: Clients::new(Timeouts::default(), Arc::clone(&addresses)),
            addresses,
        }
    }

    /// Sends a request, and returns the start of the response.
    ///
    /// # Errors
    /// If it was not accepted.
    pub async fn post(&self, request: PostRequest) -> Result<Vec<u8>, PostError> {
        let timeout = request.timeout;
        let response = tokio::time::timeout(timeout, self.follow(request)).await;
        let late =
            |_| FetchErrorKind::Timeout(format!("there is no response within {} s", timeout.as_secs_f64()));
        read(response.map_err(late)??).await
    }

    /// Sends a request, and returns the whole response, which is short. Its end has to arrive in time, too.
    ///
    /// # Errors
    /// If it was not accepted, or the response is not complete.
    pub async fn exchange(&self, request: PostRequest) -> Result<Vec<u8>, PostError> {
        let timeout = request.timeout;
        let exchange = async { read_all(self.follow(request).await?).await };
        within(timeout, exchange).await
    }

    /// Reads a short document, without following redirects. Unlike the response to [`Self::post`], it has to be complete.
    ///
    /// # Errors
    /// If there is no response, or another one than a success, or its end does not arrive in time.
    pub async fn get(&self, url: Url, timeout: Duration) -> Result<Vec<u8>, PostError> {
        self.addresses.check_url(&url).map_err(FetchErrorKind::from)?;
        let key = Connection {
            tls: Arc::default(),
            proxy: None,
        };
        let client = self.clients.get(&key, &origin(&url))?;
        let document = async { read_all(execute(&client, Request::new(Method::GET, url)).await?).await };
        within(timeout, document).await
    }

    async fn follow(&self, request: PostRequest) -> Result<Response, PostError> {
        let PostRequest {
            mut url,
            headers,
            body,
            tls,
            proxy,
            ..
        } = request;
        let key = Connection { tls, proxy };
        let body = bytes::Bytes::from(body);
        let mut redirects = 0;
        // A name is checked when it is resolved, an address never reaches the resolver.
        if let Some(proxy) = &key.proxy {
            self.addresses
                .check_url(&proxy.address)
                .map_err(FetchErrorKind::from)?;
        }
        loop {
            self.addresses.check_url(&url).map_err(FetchErrorKind::from)?;
            let client = self.clients.get(&key, &origin(&url))?;
            let mut step = Request::new(Method::POST, url.clone());
            *step.headers_mut() = headers.clone();
            *step.body_mut() = Some(Body::from(body.clone()));
            let response = execute(&client, step).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            url = target(&response, &url, redirects)?;
            redirects += 1;
        }
    }
}

/// A whole response, if it is there within this time.
async fn within(
    timeout: Duration,
    response: impl Future<Output = Result<Vec<u8>, PostError>>,
) -> Result<Vec<u8>, PostError> {
    let late = |_| {
        let seconds = timeout.as_secs_f64();
        FetchErrorKind::Timeout(format!("there is no complete response within {seconds} s"))
    };
    tokio::time::timeout(timeout, response).await.map_err(late)?
}

async fn execute(client: &Client, request: Request) -> Result<Response, FetchErrorKind> {
    client
        .execute(request)
        .await
        .map_err(FetchErrorKind::from_reqwest)
}

/// The target of a redirect that is followed.
fn target(response: &Response, from: &Url, redirects: usize) -> Result<Url, PostError> {
    let location = response.headers().get(LOCATION);
    let location = location.map(|location| String::from_utf8_lossy(location.as_bytes()));
    let to = location
        .and_then(|location| from.join(&location).ok())
        .map(without_credentials);
    let keeps_method = matches!(
        response.status(),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    );
    match to {
        Some(to) if keeps_method && redirects < MAX_REDIRECTS && origin(&to) == origin(from) => Ok(to),
        Some(to) => Err(PostError::Redirect(cut(origin(&to), MAX_QUOTE))),
        None => Err(PostError::Redirect("nowhere".to_owned())),
    }
}

/// An error for another status than that of a success.
fn check_status(response: &Response) -> Result<(), PostError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let after = retry_after::parse(response.headers().get(RETRY_AFTER), SystemTime::now());
    Err(PostError::Status { status, after })
}

/// A whole document.
async fn read_all(response: Response) -> Result<Vec<u8>, PostError> {
    check_status(&response)?;
    let body = read_whole(response, MAX_RESPONSE).await?;
    body.ok_or(PostError::TooLarge)
}

/// The start of a successful response.
async fn read(mut response: Response) -> Result<Vec<u8>, PostError> {
    check_status(&response)?;
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_RESPONSE {
                body.truncate(MAX_RESPONSE);
                return;
            }
        }
    };
    // The request was accepted, whatever becomes of the rest of the response.
    let _ = tokio::time::timeout(READING, reading).await;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let failed = |class| classified(Reason::DeliveryFailed, class);
        let status = |code, after: Option<u64>| PostError::Status {
            status: StatusCode::from_u16(code).unwrap(),
            after: after.map(Duration::from_secs),
        };
        let transient = failed(Class::Transient(Scope::Repository));
        let limited = |after| failed(Class::RateLimited(after));
        let absent = failed(Class::Absent);
        for (error, expected) in [
            (status(408, None), transient),
            (status(425, None), transient),
            (status(429, None), transient),
            (status(503, None), transient),
            (status(429, Some(7)), limited(Duration::from_secs(7))),
            (status(500, Some(7)), limited(Duration::from_secs(7))),
            (status(429, Some(u64::MAX)), limited(MAX_RETRY_AFTER)),
            (status(304, None), absent),
            (status(400, None), absent),
            (status(404, Some(7)), absent),
            (PostError::Redirect("nowhere".to_owned()), absent),
            (
                PostError::TooLarge,
                classified(Reason::ResponseTooLarge, Class::Absent),
            ),
        ] {
            assert_eq!(error.classify(), expected, "{error}");
        }
    }

    #[test]
    fn without_a_response_the_class_is_that_of_a_request_to_a_repository() {
        let text = || "x".to_owned();
        for (kind, class) in [
            (FetchErrorKind::Url(text()), Class::Absent),
            (FetchErrorKind::Certificate(text()), Class::Absent),
            (FetchErrorKind::InvalidResponse(text()), Class::Absent),
            (
                FetchErrorKind::TooLarge {
                    limit: 1,
                    measured: "",
                },
                Class::Absent,
            ),
            (FetchErrorKind::ConnectionRefused, Class::Transient(Scope::Host)),
            (
                FetchErrorKind::Timeout(text()),
                Class::Transient(Scope::Repository),
            ),
        ] {
            let expected = kind.classify();
            assert_eq!(expected.class, class, "{kind}");
            assert_eq!(PostError::from(kind).classify(), expected);
        }
    }
}

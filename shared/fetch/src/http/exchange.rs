//! Single requests to a server that a user names and that may be hostile, such as the API server of another cluster: of any method, to
//! allowed addresses only, without a redirect or a retry, and with a response of bounded length.

use std::{sync::Arc, time::Duration};

use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, classified};
use reqwest::{Body, Method, Request, Response, StatusCode, Url, header::HeaderMap};
use thiserror::Error;

use super::{
    addresses::Addresses,
    client::{Clients, Timeouts},
    error::FetchErrorKind,
    tls::{Connection, TlsConfig, origin},
};

/// An API server that is there responds within milliseconds. The caller has a deadline for several requests.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    read: Duration::from_secs(10),
    total: Duration::from_secs(15),
};

/// Sends single requests.
#[derive(Debug)]
pub struct Exchange {
    addresses: Arc<Addresses>,
    clients: Clients,
}

/// A request.
#[derive(Clone, Debug)]
pub struct ExchangeRequest {
    /// The method.
    pub method: Method,
    /// The URL, without credentials.
    pub url: Url,
    /// Its headers, including credentials.
    pub headers: HeaderMap,
    /// Its body; empty for none.
    pub body: Vec<u8>,
    /// The TLS configuration.
    pub tls: Arc<TlsConfig>,
    /// Maximum length of the response, in bytes.
    pub limit: usize,
}

/// A response, of any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeResponse {
    /// The status.
    pub status: StatusCode,
    /// The whole body.
    pub body: Vec<u8>,
}

/// Why there is no usable response.
#[derive(Clone, Debug, Error)]
pub enum ExchangeError {
    /// There is no response.
    #[error(transparent)]
    NoResponse(#[from] FetchErrorKind),
    /// It is longer than allowed.
    #[error("the response has more than {} KiB, which no object of an agent needs", .limit >> 10)]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

impl ClassifiedError for ExchangeError {
    fn classify(&self) -> Classified {
        match self {
            Self::NoResponse(error) => error.classify(),
            Self::TooLarge { .. } => classified(Reason::ResponseTooLarge, Class::Absent),
        }
    }
}

impl Exchange {
    /// Sends requests to these addresses only.
    pub fn new(addresses: Addresses) -> Self {
        let addresses = Arc::new(addresses);
        Self {
            clients: Clients::new(TIMEOUTS, Arc::clone(&addresses)),
            addresses,
        }
    }

    /// Sends a request, and returns the response, whatever its status is. A redirect is a response like any other.
    ///
    /// # Errors
    /// If there is no response, or it is too long.
    pub async fn send(&self, request: ExchangeRequest) -> Result<ExchangeResponse, ExchangeError> {
        // A name is checked when it is resolved, an address never reaches the resolver.
        self.addresses
            .check_url(&request.url)
            .map_err(FetchErrorKind::from)?;
        let connection = Connection {
            tls: request.tls,
            proxy: None,
        };
        let client = self.clients.get(&connection, &origin(&request.url))?;
        let mut sent = Request::new(request.method, request.url);
        *sent.headers_mut() = request.headers;
        if !request.body.is_empty() {
            *sent.body_mut() = Some(Body::from(request.body));
        }
        let response = client.execute(sent).await.map_err(FetchErrorKind::from_reqwest)?;
        let status = response.status();
        let limit = request.limit;
        let body = read_whole(response, limit).await?;
        let body = body.ok_or(ExchangeError::TooLarge { limit })?;
        Ok(ExchangeResponse { status, body })
    }
}

/// A whole body; `None` if it is longer than the limit: a part of it must not be mistaken for all of it.
pub(super) async fn read_whole(
    mut response: Response,
    limit: usize,
) -> Result<Option<Vec<u8>>, FetchErrorKind> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(FetchErrorKind::from_reqwest)? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

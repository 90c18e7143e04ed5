//! Requests to an endpoint of a user that is no repository: JSON to it, and its response back.

use std::time::Duration;

use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, classified};
use kube::Client;
use reqwest::{
    Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use thiserror::Error;

use super::{
    Resolver,
    access::{Access, Target},
    http::{Connection, PostError, PostRequest, Poster, origin},
    permits::Permits,
    secret::{AccessSource, SecretError},
};

/// A request to an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointRequest {
    /// The URL.
    pub url: Url,
    /// JSON.
    pub body: Vec<u8>,
    /// Maximum time until the end of the response.
    pub timeout: Duration,
}

/// Why an endpoint did not accept a request.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// The Secret does not exist.
    #[error("Secret {name} does not exist in namespace {namespace}; create it there, or correct secretName")]
    NoSecret {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// The Secret cannot be used.
    #[error(transparent)]
    Secret(SecretError),
    /// The request was not accepted.
    #[error(transparent)]
    Request(#[from] PostError),
}

impl ClassifiedError for EndpointError {
    fn classify(&self) -> Classified {
        match self {
            Self::NoSecret { .. } => classified(Reason::SecretNotFound, Class::Absent),
            Self::Secret(error) => error.classify(),
            Self::Request(error) => error.classify(),
        }
    }
}

impl From<SecretError> for EndpointError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::NotFound { namespace, name } => Self::NoSecret { namespace, name },
            error => Self::Secret(error),
        }
    }
}

impl Resolver {
    /// Sends JSON to an endpoint, with the login and the trust of a Secret, to allowed addresses only. Returns the response.
    ///
    /// What waits to send one is bounded like what waits for repositories: see [`Self::acquire_permit`].
    ///
    /// # Errors
    /// If the Secret cannot be used, or the endpoint does not respond with a success.
    pub async fn post(
        &self,
        client: &Client,
        source: AccessSource<'_>,
        request: EndpointRequest,
    ) -> Result<Vec<u8>, EndpointError> {
        let _resolve_permit = self.acquire_permit(&source.charged_to.into()).await;
        let (access, _memory) = self.access(client, source).await?;
        Ok(send(&self.http.permits, &self.poster, access, request).await?)
    }
}

/// Sends a request with this access, once its namespace may send one to its host.
pub async fn send(
    permits: &Permits,
    poster: &Poster,
    mut access: Access,
    request: EndpointRequest,
) -> Result<Vec<u8>, PostError> {
    let EndpointRequest { url, body, timeout } = request;
    let _permit = permits.request(&access.namespace, &url).await;
    access.origin = origin(&url);
    let Target { url, login } = access.target(url);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(login) = login {
        headers.insert(AUTHORIZATION, login.basic());
    }
    let Connection { tls, proxy } = access.connection;
    let request = PostRequest {
        url,
        headers,
        body,
        tls,
        proxy,
        timeout,
    };
    poster.exchange(request).await
}

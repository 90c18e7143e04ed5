//! Requests to a registry, with the credentials that it requires.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use helmops_model::chart::registry::{
    challenge::{self, Bearer, Scheme},
    endpoint::Endpoint,
    error_body, realm, token,
};
use k8s_openapi::jiff::Timestamp;
use reqwest::{
    Method, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE},
};

use super::{
    error::RegistryError,
    tokens::{RegistryKey, Tokens},
};
use crate::{
    access::{Access, is_about_login},
    http::{HttpClient, HttpRequest, HttpResponse, RepositoryId},
    login::{Login, LoginProblem},
    metrics::RequestKind,
    permits::RequestPermit,
};

/// How long basic authentication is sent without a challenge: after an hour, a request without credentials finds out whether
/// the registry still uses it.
const BASIC_LIFETIME: Duration = Duration::from_hours(1);

/// A repository in a registry, with the access of one HelmOp.
#[derive(Debug)]
pub struct Session<'a> {
    http: &'a HttpClient,
    tokens: &'a Tokens,
    access: &'a Access,
    endpoint: Endpoint<'a>,
    login: Option<&'a Login>,
    repository_url: Url,
    key: RegistryKey,
}

/// A request to a registry.
#[derive(Clone, Copy, Debug)]
pub struct RegistryRequest<'a> {
    /// What is requested.
    pub kind: RequestKind,
    /// GET or HEAD.
    pub method: &'a Method,
    /// The URL.
    pub url: &'a Url,
    /// The accepted media types.
    pub accept: &'static str,
}

impl<'a> Session<'a> {
    /// Prepares requests to an endpoint.
    pub fn new(http: &'a HttpClient, tokens: &'a Tokens, access: &'a Access, endpoint: Endpoint<'a>) -> Self {
        let repository_url = endpoint.tags_url();
        let login = access.login_for(&repository_url);
        let key = RegistryKey {
            identity: access.identity(login),
            repository_url: repository_url.to_string(),
        };
        Self {
            http,
            tokens,
            access,
            endpoint,
            login,
            repository_url,
            key,
        }
    }

    /// Waits until the namespace of the HelmOp may send requests to the registry.
    pub async fn acquire_permit(&self) -> RequestPermit {
        let permits = &self.http.permits;
        permits
            .request(&self.access.namespace, &self.repository_url)
            .await
    }

    /// The key for cached responses.
    pub const fn key(&self) -> &RegistryKey {
        &self.key
    }

    /// Why the registry may refuse a request, if it does so with this status.
    pub fn problem(&self, status: StatusCode) -> Option<Box<LoginProblem>> {
        let problem = || self.access.problem(&self.repository_url, self.login);
        is_about_login(status).then(problem).flatten().map(Box::new)
    }

    /// Sends a request, and again with credentials if the registry requires them. Returns a successful response.
    ///
    /// Only the registry itself can require credentials: otherwise the target of a redirect could choose the server that the
    /// login is sent to.
    ///
    /// # Errors
    /// If the registry refuses the request, or cannot be reached.
    pub async fn send(
        &self,
        permit: &RequestPermit,
        request: RegistryRequest<'_>,
    ) -> Result<HttpResponse, RegistryError> {
        let known = self.tokens.get(&self.key, Instant::now());
        let response = self.send_once(permit, request, known.clone()).await?;
        if response.status() != StatusCode::UNAUTHORIZED || response.is_cross_origin() {
            return self.success(response).await;
        }
        if let Some(refused) = known {
            self.tokens.remove(&self.key, &refused);
        }
        let (authorization, lifetime) = self.authorization(permit, response).await?;
        let response = self
            .send_once(permit, request, Some(authorization.clone()))
            .await?;
        // Whatever other error the registry returns: it accepted the credentials.
        if response.status() != StatusCode::UNAUTHORIZED {
            self.tokens
                .put(self.key.clone(), authorization, lifetime, Instant::now());
        }
        self.success(response).await
    }

    async fn send_once(
        &self,
        permit: &RequestPermit,
        request: RegistryRequest<'_>,
        authorization: Option<HeaderValue>,
    ) -> Result<HttpResponse, RegistryError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(request.accept));
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        let request = HttpRequest {
            permit: Arc::clone(permit),
            kind: request.kind,
            method: request.method.clone(),
            url: request.url.clone(),
            headers,
            body: Bytes::new(),
            connection: &self.access.connection,
            repository: RepositoryId {
                url: &self.repository_url,
                identity: &self.key.identity,
            },
        };
        self.http.send(request).await.map_err(RegistryError::Fetch)
    }

    /// The value of `Authorization` that the registry requires, and its lifetime.
    ///
    /// The response ends before a token is requested: a permit allows one request at a time.
    async fn authorization(
        &self,
        permit: &RequestPermit,
        response: HttpResponse,
    ) -> Result<(HeaderValue, Duration), RegistryError> {
        match (scheme(&response), self.login) {
            (Ok(Scheme::Basic), Some(login)) => {
                response.discard_body();
                Ok((login.basic(), BASIC_LIFETIME))
            }
            (Ok(Scheme::Basic), None) => Err(self.refusal(response, StatusCode::UNAUTHORIZED).await),
            (Ok(Scheme::Bearer(bearer)), _) => {
                let url = response.url().to_owned();
                response.discard_body();
                self.token(permit, url, &bearer).await
            }
            (Err(error), _) => {
                response.discard_body();
                Err(error)
            }
        }
    }

    /// Requests the token that the response for `requested_url` requires.
    async fn token(
        &self,
        permit: &RequestPermit,
        requested_url: String,
        bearer: &Bearer,
    ) -> Result<(HeaderValue, Duration), RegistryError> {
        let registry = self.endpoint.transport;
        let url = realm::token_url(bearer, registry, &self.endpoint.pull_scope()).map_err(|source| {
            RegistryError::Realm {
                url: requested_url,
                source,
            }
        })?;
        let request = RegistryRequest {
            kind: RequestKind::Token,
            method: &Method::GET,
            url: &url,
            accept: "application/json",
        };
        let basic = self.login.map(Login::basic);
        let response = self.send_once(permit, request, basic).await?;
        let response = self.success(response).await?;
        let is_cross_origin = response.is_cross_origin();
        let bytes = response
            .bytes(token::MAX_LEN as u64)
            .await
            .map_err(RegistryError::Fetch)?;
        let token = token::decode(&bytes).map_err(|error| {
            RegistryError::invalid_response(url.as_str(), is_cross_origin, error.to_string())
        })?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.secret())).map_err(|_| {
            RegistryError::invalid_response(
                url.as_str(),
                is_cross_origin,
                "the token contains characters that no header can carry".to_owned(),
            )
        })?;
        value.set_sensitive(true);
        Ok((value, token.fresh_for(Timestamp::now())))
    }

    async fn success(&self, response: HttpResponse) -> Result<HttpResponse, RegistryError> {
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(self.refusal(response, status).await),
        }
    }

    async fn refusal(&self, response: HttpResponse, status: StatusCode) -> RegistryError {
        let url = response.url().to_owned();
        let is_cross_origin = response.is_cross_origin();
        // The body is optional: if it is incomplete, the status is sufficient.
        let body = response
            .bytes(error_body::MAX_LEN as u64)
            .await
            .unwrap_or_default();
        let registry_error = error_body::decode(&body).filter(|_| !is_cross_origin);
        RegistryError::Refused {
            url,
            repository: self.endpoint.repository.to_owned(),
            status,
            problem: self.problem(status),
            detail: registry_error
                .as_ref()
                .map_or_else(String::new, |registry_error| format!(": {registry_error}")),
            code: registry_error.map(|registry_error| registry_error.code),
        }
    }
}

fn scheme(response: &HttpResponse) -> Result<Scheme, RegistryError> {
    let values = response.headers().get_all(WWW_AUTHENTICATE);
    let challenges = challenge::parse(values.iter().map(HeaderValue::as_bytes));
    challenge::pick(&challenges).map_err(|source| RegistryError::Challenge {
        url: response.url().to_owned(),
        source,
    })
}

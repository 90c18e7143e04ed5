//! Requests to a registry, with the credentials that it asks for.

use std::time::{Duration, Instant};

use helmops_shared::chart::registry::{
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
    tokens::{Key, Tokens},
};
use crate::resolve::{
    access::{Access, Credentials, Login, WithheldBecause},
    http::{Admission, Fault, HttpClient, HttpRequest, HttpResponse, parse},
    metrics::Kind,
};

/// How long a registry that takes user name and password is remembered as one: it is asked once an hour otherwise.
const BASIC_LIFETIME: Duration = Duration::from_hours(1);

/// A repository in a registry, as one HelmOp sees it.
#[derive(Debug)]
pub struct Session<'a> {
    web: &'a HttpClient,
    tokens: &'a Tokens,
    access: &'a Access,
    endpoint: Endpoint<'a>,
    credentials: Credentials<'a>,
    place: Url,
    key: Key,
}

/// A request to a registry.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is asked for.
    pub kind: Kind,
    /// GET or HEAD.
    pub method: &'a Method,
    /// The URL.
    pub url: &'a str,
    /// The media types that will do.
    pub accept: &'static str,
}

impl<'a> Session<'a> {
    /// Prepares requests.
    ///
    /// # Errors
    /// Where the endpoint is no URL.
    pub fn new(
        web: &'a HttpClient,
        tokens: &'a Tokens,
        access: &'a Access,
        endpoint: Endpoint<'a>,
    ) -> Result<Self, RegistryError> {
        let url = endpoint.tags_url();
        let place = parse(&url).map_err(RegistryError::Fetch)?;
        let credentials = access.credentials(&place);
        let key = Key {
            identity: access.identity(login(&credentials)),
            place: url,
        };
        Ok(Self {
            web,
            tokens,
            access,
            endpoint,
            credentials,
            place,
            key,
        })
    }

    /// Waits until the namespace of the HelmOp may send requests to the registry.
    pub async fn admit(&self) -> Admission {
        self.web.admit(self.access, &self.place).await
    }

    /// Whom an answer is for.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Why credentials are not sent, if there are some that are not.
    pub const fn withheld(&self) -> Option<WithheldBecause> {
        self.credentials.withheld()
    }

    /// Sends a request, and again with credentials if the registry asks for some. The answer is a success.
    ///
    /// Only the registry itself can ask for credentials: the host that a redirect led to would name the place that the
    /// login is sent to.
    ///
    /// # Errors
    /// Where the registry refuses, or cannot be asked.
    pub async fn send(
        &self,
        admission: &Admission,
        request: Request<'_>,
    ) -> Result<HttpResponse, RegistryError> {
        let known = self.tokens.get(&self.key, Instant::now());
        let answer = self.once(admission, request, known.clone()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || answer.is_foreign() {
            return self.success(answer).await;
        }
        if let Some(refused) = known {
            self.tokens.forget(&self.key, &refused);
        }
        let (authorization, lifetime) = self.authorization(admission, answer).await?;
        let answer = self.once(admission, request, Some(authorization.clone())).await?;
        // Whatever else it has against the request: the credentials are those that it wanted.
        if answer.status() != StatusCode::UNAUTHORIZED {
            self.tokens
                .put(self.key.clone(), authorization, lifetime, Instant::now());
        }
        self.success(answer).await
    }

    async fn once(
        &self,
        admission: &Admission,
        request: Request<'_>,
        authorization: Option<HeaderValue>,
    ) -> Result<HttpResponse, RegistryError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(request.accept));
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        let ask = HttpRequest {
            admission: admission.clone(),
            kind: request.kind,
            method: request.method.clone(),
            url: parse(request.url).map_err(RegistryError::Fetch)?,
            headers,
            transport: &self.access.transport,
            about: (&self.place, &self.key.identity),
        };
        self.web.ask(ask).await.map_err(RegistryError::Fetch)
    }

    /// What the registry wants to be sent, and for how long it will do.
    ///
    /// The answer ends before a token is asked for: an admission is the right to one request at a time.
    async fn authorization(
        &self,
        admission: &Admission,
        answer: HttpResponse,
    ) -> Result<(HeaderValue, Duration), RegistryError> {
        match (scheme(&answer), login(&self.credentials)) {
            (Ok(Scheme::Basic), Some(login)) => {
                answer.end();
                Ok((login.basic(), BASIC_LIFETIME))
            }
            (Ok(Scheme::Basic), None) => Err(self.refusal(answer, StatusCode::UNAUTHORIZED).await),
            (Ok(Scheme::Bearer(bearer)), _) => {
                let url = answer.url().to_owned();
                answer.end();
                self.token(admission, url, &bearer).await
            }
            (Err(error), _) => {
                answer.end();
                Err(error)
            }
        }
    }

    /// A token, which an answer for `asked` demands.
    async fn token(
        &self,
        admission: &Admission,
        asked: String,
        bearer: &Bearer,
    ) -> Result<(HeaderValue, Duration), RegistryError> {
        let registry = self.endpoint.transport;
        let url = realm::token_url(bearer, registry, &self.endpoint.pull_scope())
            .map_err(|source| RegistryError::Realm { url: asked, source })?;
        let request = Request {
            kind: Kind::Token,
            method: &Method::GET,
            url: &url,
            accept: "application/json",
        };
        let basic = login(&self.credentials).map(Login::basic);
        let answer = self.once(admission, request, basic).await?;
        let answer = self.success(answer).await?;
        let is_foreign = answer.is_foreign();
        let bytes = answer
            .bytes(token::MAX_LEN as u64)
            .await
            .map_err(RegistryError::Fetch)?;
        let token = token::decode(&bytes)
            .map_err(|error| RegistryError::unusable(&url, is_foreign, error.to_string()))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.secret())).map_err(|_| {
            RegistryError::unusable(
                &url,
                is_foreign,
                "the token holds characters that no header can".to_owned(),
            )
        })?;
        value.set_sensitive(true);
        Ok((value, token.fresh_for(Timestamp::now())))
    }

    async fn success(&self, answer: HttpResponse) -> Result<HttpResponse, RegistryError> {
        match answer.status() {
            status if status.is_success() => Ok(answer),
            status => Err(self.refusal(answer, status).await),
        }
    }

    async fn refusal(&self, answer: HttpResponse, status: StatusCode) -> RegistryError {
        if let fault @ (Fault::Withheld { .. } | Fault::Unencrypted { .. }) =
            self.access.refusal(status, self.withheld())
        {
            return RegistryError::Fetch(answer.refuse(fault));
        }
        let url = answer.url().to_owned();
        let is_foreign = answer.is_foreign();
        // What it says is a help, and no more: where it breaks off the status has to do.
        let body = answer.bytes(error_body::MAX_LEN as u64).await.unwrap_or_default();
        let told = error_body::decode(&body).filter(|_| !is_foreign);
        RegistryError::Refused {
            url,
            repository: self.endpoint.repository.to_owned(),
            status,
            told: told.as_ref().map_or_else(String::new, |told| format!(": {told}")),
            code: told.map(|told| told.code),
        }
    }
}

fn scheme(answer: &HttpResponse) -> Result<Scheme, RegistryError> {
    let values = answer.headers().get_all(WWW_AUTHENTICATE);
    let challenges = challenge::parse(values.iter().map(HeaderValue::as_bytes));
    challenge::pick(&challenges).map_err(|source| RegistryError::Challenge {
        url: answer.url().to_owned(),
        source,
    })
}

fn login<'a>(credentials: &Credentials<'a>) -> Option<&'a Login> {
    match credentials {
        Credentials::Login(login) => Some(login),
        Credentials::None | Credentials::Withheld(_) => None,
    }
}

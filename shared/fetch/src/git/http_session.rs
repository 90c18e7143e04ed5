//! Requests to a Git server over HTTP.

use std::{io::Read, sync::Mutex};

use bytes::Bytes;
use helmops_git::wire::{PROTOCOL, advertisement, fetch_request, pack_body, references, references_request};
use helmops_model::chart::{location::without_credentials, url::redacted};
use helmops_process::lock;
use reqwest::{
    Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use super::{
    Advertisement, Arc, FetchRequest, GitError, Greeting, Location, Pack, ReadMemory, ReferenceQuery,
    References, RequestPermit, Source, Url,
    read::{Awaited, ReadFailure, git_error},
};
use crate::{
    access::Target,
    http::{FetchError, FetchErrorKind, HttpRequest, HttpResponse, Limits, RepositoryId},
    metrics::RequestKind,
};

/// Which version of the protocol the client has.
const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");
/// What follows the URL of a repository in the request for the greeting.
const GREETING: &str = "info/refs?service=git-upload-pack";
/// What follows it in other requests.
const SERVICE: &str = "git-upload-pack";
/// Media types of requests and responses.
const REQUEST: &str = "application/x-git-upload-pack-request";
const RESPONSE: &str = "application/x-git-upload-pack-result";
/// Bytes of a list of references. A repository with 100,000 branches has 10 MiB.
const REFERENCES: u64 = 16 << 20;

/// Requests with one permit, one after the other.
#[derive(Clone, Copy)]
pub(super) struct HttpSession<'a> {
    pub source: Source<'a>,
    pub permit: &'a RequestPermit,
}

impl HttpSession<'_> {
    /// The greeting of the server, with the references that an older one sends.
    pub async fn greeting(&self, query: &ReferenceQuery) -> Result<(Greeting, Option<References>), GitError> {
        let url = Location::service_url(self.source.url, GREETING);
        let requested = without_credentials(url.clone());
        let response = self.send(RequestKind::References, url, None).await?;
        let is_redirected = *response.location() != requested;
        let url = repository_url(response.location()).ok_or_else(|| {
            let problem =
                "it redirects to a URL that does not end with /info/refs, as that of a Git repository does";
            GitError::Fetch(FetchError::new(
                &self.source.shown(),
                FetchErrorKind::Redirect(problem.to_owned()),
            ))
        })?;
        let (query, limits) = (query.clone(), self.source.repositories.limits);
        let mut memory = self.source.memory();
        let read = move |body: Box<dyn Read + Send>| Ok(advertisement(body, &query, limits, &mut memory)?);
        let Advertisement {
            capabilities,
            references,
        } = self.read(response, REFERENCES, read).await?;
        let greeting = Greeting {
            url,
            is_redirected,
            capabilities,
        };
        Ok((greeting, references))
    }

    /// References, in version 2 of the protocol.
    pub async fn references(
        &self,
        greeting: &Greeting,
        query: &ReferenceQuery,
    ) -> Result<References, GitError> {
        let body = references_request(greeting.capabilities, query);
        let response = self.post(RequestKind::References, greeting, body).await?;
        let (query, limits) = (query.clone(), self.source.repositories.limits);
        let mut memory = self.source.memory();
        let read = move |body: Box<dyn Read + Send>| Ok(references(body, &query, limits, &mut memory)?);
        self.read(response, REFERENCES, read).await
    }

    /// A pack of objects, with the memory that it is charged for.
    pub async fn pack(
        &self,
        greeting: &Greeting,
        wanted: &FetchRequest,
    ) -> Result<(Pack, ReadMemory), GitError> {
        let body = fetch_request(greeting.capabilities, wanted);
        let response = self.post(RequestKind::Pack, greeting, body).await?;
        let (capabilities, limits) = (greeting.capabilities, self.source.repositories.limits);
        let mut memory = self.source.memory();
        let awaited = Awaited::lasting(self.source.http.total_timeout());
        let is_over = awaited.is_over();
        let read = move |body: Box<dyn Read + Send>| {
            let pack = pack_body(body, capabilities)?;
            let pack = Pack::read(pack, capabilities.format, limits, &mut memory, is_over)?;
            Ok((pack, memory))
        };
        // Progress and the heads of packets come on top.
        self.read(response, limits.pack as u64 * 2, read).await
    }

    async fn post(
        &self,
        kind: RequestKind,
        greeting: &Greeting,
        body: Vec<u8>,
    ) -> Result<HttpResponse, GitError> {
        let url = Location::service_url(&greeting.url, SERVICE);
        self.send(kind, url, Some(body)).await
    }

    /// Sends a request with the login of the repository, if it is sent to the same host.
    async fn send(
        &self,
        kind: RequestKind,
        url: Url,
        body: Option<Vec<u8>>,
    ) -> Result<HttpResponse, GitError> {
        let Source { http, access, .. } = self.source;
        let own = access.target(self.source.url.clone());
        let Target { url, login } = access.target(url);
        let mut headers = HeaderMap::new();
        headers.insert(GIT_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(REQUEST));
            headers.insert(ACCEPT, HeaderValue::from_static(RESPONSE));
        }
        if let Some(authorization) = access.authorization(&url, login.as_ref()) {
            headers.insert(AUTHORIZATION, authorization);
        }
        let request = HttpRequest {
            permit: Arc::clone(self.permit),
            kind,
            method: if body.is_some() { Method::POST } else { Method::GET },
            url: url.clone(),
            headers,
            body: Bytes::from(body.unwrap_or_default()),
            connection: &access.connection,
            repository: RepositoryId {
                url: &own.url,
                identity: &access.identity(own.login.as_ref()),
            },
        };
        let response = http.send(request).await.map_err(GitError::Fetch)?;
        match response.status() {
            StatusCode::OK => Ok(response),
            status => {
                let kind = access.refusal(status, &url, own.login.as_ref().or(login.as_ref()));
                Err(GitError::Fetch(response.into_error(kind)))
            }
        }
    }

    /// Reads a body on a thread of its own. What the server says is quoted unless it is another server than the repository's.
    async fn read<T: Send + 'static>(
        &self,
        response: HttpResponse,
        limit: u64,
        reader: impl FnOnce(Box<dyn Read + Send>) -> Result<T, ReadFailure> + Send + 'static,
    ) -> Result<T, GitError> {
        let url = redacted(without_credentials(response.location().clone()).as_str());
        let is_cross_origin = response.is_cross_origin();
        let limits = Limits {
            wire: limit,
            decoded: limit,
        };
        // For the metrics and the backoff it is a failure as any other; for the message it is more.
        let (failed, own) = (Arc::new(Mutex::new(None)), url.clone());
        let kept = Arc::clone(&failed);
        let read = response.read(limits, move |body| {
            reader(body).map_err(|failure| match failure.of_connection() {
                Err(kind) => kind,
                Ok(ReadFailure::Wire(error)) if is_cross_origin && error.has_response_text() => {
                    FetchErrorKind::cross_origin()
                }
                Ok(failure) => {
                    let error = git_error(own, failure);
                    let kind = error.as_request();
                    *lock(&kept) = Some(error);
                    kind
                }
            })
        });
        let read = read.await;
        read.map_err(|error| lock(&failed).take().unwrap_or(GitError::Fetch(error)))
    }
}

/// The URL of the repository that a greeting comes from.
fn repository_url(greeting: &Url) -> Option<Url> {
    let path = greeting.path().strip_suffix("/info/refs")?;
    let mut url = without_credentials(greeting.clone());
    url.set_path(path);
    url.set_query(None);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_where_its_greeting_comes_from() {
        let at = |text: &str| repository_url(&Url::parse(text).unwrap()).map(String::from);
        let found = at("https://h/g/n.git/info/refs?service=git-upload-pack");
        assert_eq!(found.as_deref(), Some("https://h/g/n.git"));
        assert_eq!(at("https://h/login?next=/g/n.git/info/refs"), None);
    }

    #[test]
    fn a_login_in_the_url_is_one_of_the_repository() {
        let login = crate::login::Login {
            username: "u".to_owned(),
            password: "p".to_owned(),
        };
        let access = crate::access::Access::default();
        let target = access.target(Url::parse("https://u:p@h/n.git").unwrap());
        assert_eq!(
            (target.login, target.url.as_str()),
            (Some(login), "https://h/n.git")
        );
    }
}

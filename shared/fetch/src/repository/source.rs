//! A repository with the access of one HelmOp: the request for its index, and the errors of that request.

use std::sync::Arc;

use bytes::Bytes;
use helm_index::IndexError;
use helmops_model::chart::{
    location::{self, without_credentials},
    url::redacted,
};
use reqwest::{
    Method, StatusCode, Url,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
        IF_NONE_MATCH, LAST_MODIFIED,
    },
};

use super::{
    SelectionError,
    cached::{CachedIndex, ChartScope, IndexKey},
    error::RepositoryError,
};
use crate::{
    access::{Access, Target},
    http::{FetchError, FetchErrorKind, HttpClient, HttpRequest, HttpResponse, RepositoryId},
    login::Login,
    metrics::RequestKind,
    permits::RequestPermit,
};

/// A repository with the access of one HelmOp.
#[derive(Debug)]
pub(super) struct IndexSource<'a> {
    pub url: Url,
    pub access: &'a Access,
    login: Option<Login>,
}

impl<'a> IndexSource<'a> {
    pub fn new(repo: &str, access: &'a Access) -> Result<Self, FetchError> {
        let Target { url, login } = access.target(index_url(repo)?);
        Ok(Self { url, access, login })
    }

    pub async fn request(
        &self,
        http: &HttpClient,
        permit: &RequestPermit,
        cached: Option<&CachedIndex>,
    ) -> Result<HttpResponse, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(login) = &self.login {
            headers.insert(AUTHORIZATION, login.basic());
        }
        if let Some(cached) = cached {
            headers.extend(cached.validators.clone());
        }
        let identity = self.access.identity(self.login.as_ref());
        let request = HttpRequest {
            permit: Arc::clone(permit),
            kind: RequestKind::Index,
            method: Method::GET,
            url: self.url.clone(),
            headers,
            body: Bytes::new(),
            connection: &self.access.connection,
            repository: RepositoryId {
                url: &self.url,
                identity: &identity,
            },
        };
        http.send(request).await
    }

    pub fn refusal(&self, status: StatusCode) -> FetchErrorKind {
        self.access.refusal(status, &self.url, self.login.as_ref())
    }

    /// The error of a request that may have been sent for another HelmOp: what it reports about credentials is replaced by what
    /// applies to this HelmOp.
    pub fn own_error(&self, error: RepositoryError) -> RepositoryError {
        match error {
            RepositoryError::Fetch(FetchError { url, kind }) => RepositoryError::Fetch(FetchError {
                url,
                kind: self.access.own_error(kind, &self.url, self.login.as_ref()),
            }),
            other => other,
        }
    }

    pub fn key(&self, scope: ChartScope) -> IndexKey {
        IndexKey {
            url: self.url.to_string(),
            identity: self.access.identity(self.login.as_ref()),
            scope,
        }
    }

    pub fn index_error(&self, error: IndexError) -> RepositoryError {
        RepositoryError::Index {
            url: self.display_url(),
            source: Arc::new(error),
        }
    }

    pub fn selection_error(&self, error: SelectionError) -> RepositoryError {
        match error {
            SelectionError::Index(error) => self.index_error(error),
            SelectionError::Select(error) => RepositoryError::Select {
                url: self.display_url(),
                source: error,
            },
        }
    }

    /// The URL of the index, for messages.
    pub fn display_url(&self) -> String {
        redacted(self.url.as_str())
    }
}

/// The headers of the next conditional request. Both values are repeated byte by byte: some servers send invalid entity
/// tags.
pub(super) fn validators(headers: &HeaderMap) -> HeaderMap {
    let pairs: [(HeaderName, HeaderName); 2] = [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)];
    pairs
        .into_iter()
        .filter_map(|(from, to)| Some((to, headers.get(from)?.clone())))
        .collect()
}

/// The URL of the index of a repository, without credentials and normalised: the same text for all spellings of the
/// repository. `None` if it is not a URL.
pub fn normalized_index_url(repo: &str) -> Option<String> {
    let url = index_url(repo).ok()?;
    Some(without_credentials(url).into())
}

/// The URL of the index of a repository, with the credentials of the repository.
pub fn index_url(repo: &str) -> Result<Url, FetchError> {
    let url =
        location::url(repo).map_err(|error| FetchError::new(repo, FetchErrorKind::Url(error.to_string())))?;
    Ok(location::index_url(&url))
}

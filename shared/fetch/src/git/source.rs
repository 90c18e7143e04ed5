//! A repository with the access of one HelmOp: its key, its errors, and how it is reached.

use helmops_git::{Location, SshLocation};
use helmops_model::chart::{location::without_credentials, url::redacted};

use super::{
    Access, Capabilities, FetchRequest, GitError, GitRepositories, HttpClient, HttpSession, Pack, ReadMemory,
    RepositoryKey, RequestPermit, SshSession, Url,
};
use crate::{access::Target, http::FetchError};

/// A repository with the access of one HelmOp.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub repositories: &'a GitRepositories,
    pub http: &'a HttpClient,
    pub access: &'a Access,
    pub location: &'a Location,
    /// Its URL, for the permits of its host and for messages.
    pub url: &'a Url,
}

/// How a repository is reached.
pub(super) enum Transport<'a> {
    Http(HttpSession<'a>),
    Ssh(SshSession<'a>),
}

/// The URL of a repository.
pub(super) fn url(location: &Location) -> Option<Url> {
    match location {
        Location::Http(url) => Some(url.clone()),
        Location::Ssh(SshLocation {
            user,
            host,
            port,
            path,
        }) => {
            let host = if host.contains(':') {
                format!("[{host}]")
            } else {
                host.clone()
            };
            Url::parse(&format!(
                "ssh://{user}@{host}:{port}/{}",
                path.trim_start_matches('/')
            ))
            .ok()
        }
    }
}

impl<'a> Source<'a> {
    /// How it is reached, with a permit for its host.
    pub fn transport<'s>(&self, permit: &'s RequestPermit) -> Transport<'s>
    where
        'a: 's,
    {
        match self.location {
            Location::Http(_) => Transport::Http(HttpSession {
                source: *self,
                permit,
            }),
            Location::Ssh(location) => Transport::Ssh(SshSession {
                source: *self,
                location,
            }),
        }
    }

    /// Waits until the namespace of the HelmOp may send requests to the server.
    pub async fn acquire_permit(&self) -> RequestPermit {
        self.http.permits.request(&self.access.namespace, self.url).await
    }

    /// The memory of a response.
    pub fn memory(&self) -> ReadMemory {
        ReadMemory::new(&self.repositories.budget, &self.access.namespace)
    }

    /// The key for what is cached of the repository.
    pub fn key(&self) -> RepositoryKey {
        let login = self.access.target(self.url.clone()).login;
        let url = match self.location {
            Location::Http(url) => without_credentials(url.clone()).into(),
            // Another user may be shown other repositories, and a path may be relative to the home of the user.
            Location::Ssh(SshLocation {
                user,
                host,
                port,
                path,
            }) => format!("{user}@{host}:{port}:{path}"),
        };
        RepositoryKey {
            identity: self.access.identity(login.as_ref()),
            url,
        }
    }

    /// The URL for messages.
    pub fn shown(&self) -> String {
        redacted(self.url.as_str())
    }

    /// The error of a request that may have been sent for another HelmOp, as it applies to this one.
    pub fn own_error(&self, error: GitError) -> GitError {
        let GitError::Fetch(FetchError { url, kind }) = error else {
            return error;
        };
        let Target { url: own, login } = self.access.target(self.url.clone());
        GitError::Fetch(FetchError {
            url,
            kind: self.access.own_error(kind, &own, login.as_ref()),
        })
    }

    /// A pack of objects, with the memory that it is charged for, and what the server can do.
    pub async fn pack(
        &self,
        permit: &RequestPermit,
        wanted: FetchRequest,
    ) -> Result<(Pack, ReadMemory, Capabilities), GitError> {
        match self.transport(permit) {
            Transport::Ssh(session) => session.pack(wanted).await,
            Transport::Http(session) => {
                let (pack, memory, mut greeting) = self.pack_over_http(session, &wanted).await?;
                let capabilities = greeting.capabilities;
                if matches!(wanted, FetchRequest::Whole(_)) {
                    // It does not send single files, so the next commit is not requested without them.
                    greeting.capabilities.has_filter = false;
                    self.keep_greeting(greeting);
                }
                Ok((pack, memory, capabilities))
            }
        }
    }
}

//! Why no version could be resolved from a registry.

use helm_index::SelectError;
use helm_index::tags::TagListError;
use helmops_core::{
    chart::registry::{
        challenge::ChallengeError, digest::DigestMismatch, error_body::RegistryCode as Code, link::LinkError,
        query::QueryError, realm::RealmError, reference::ReferenceError,
    },
    reason::Reason,
};
use reqwest::StatusCode;
use thiserror::Error;

use crate::{
    backoff::BackoffPolicy,
    resolve::{
        cache::FetchFailure,
        error::select_reason,
        http::{FetchError, FetchErrorKind},
    },
};

/// Why no version could be resolved from a registry.
#[derive(Clone, Debug, Error)]
pub enum RegistryError {
    /// The reference is invalid.
    #[error("spec.helm.repo {repo:?}: {source}")]
    Reference {
        /// The reference.
        repo: String,
        /// The cause.
        source: ReferenceError,
    },
    /// Reference and version contradict each other.
    #[error("{repo}: {source}")]
    Query {
        /// The reference.
        repo: String,
        /// The cause.
        source: QueryError,
    },
    /// A request failed.
    #[error(transparent)]
    Fetch(FetchError),
    /// The registry requires an authentication scheme that is not supported.
    #[error("{url}: {source}")]
    Challenge {
        /// The requested URL.
        url: String,
        /// The cause.
        source: ChallengeError,
    },
    /// The registry names a token server that is not used.
    #[error("{url}: {source}")]
    Realm {
        /// The requested URL.
        url: String,
        /// The cause.
        source: RealmError,
    },
    /// The registry refused the request.
    #[error("{url}: {advice}; the registry responded with status {status}{detail}", status = .status.as_u16(), advice = advice(*.status, .code.as_ref(), .repository))]
    Refused {
        /// The requested URL.
        url: String,
        /// Name of the repository in the registry.
        repository: String,
        /// The status of the response.
        status: StatusCode,
        /// The error code of the registry.
        code: Option<Code>,
        /// Code and message of the registry, after a colon; empty if there are none.
        detail: String,
    },
    /// The next page of the tags cannot be fetched.
    #[error("{url}: the next page of the tag list has a URL that cannot be used: {source}")]
    Link {
        /// The page.
        url: String,
        /// The cause.
        source: LinkError,
    },
    /// The list of tags has too many pages.
    #[error("{repo}: the list of tags has more than {pages} pages, which is the limit; use an exact version")]
    TooManyPages {
        /// The reference.
        repo: String,
        /// The number of pages read.
        pages: usize,
    },
    /// The list of tags is too large.
    #[error("{repo}: {source}")]
    TagList {
        /// The repository.
        repo: String,
        /// The cause.
        source: TagListError,
    },
    /// No tag matches.
    #[error("could not find tag matching constraint: {source} ({repo})")]
    Select {
        /// The reference.
        repo: String,
        /// The cause.
        source: SelectError,
    },
    /// The tag has another digest than the reference.
    #[error("{repo}: {source}")]
    Digest {
        /// The reference.
        repo: String,
        /// The cause.
        source: DigestMismatch,
    },
}

impl RegistryError {
    /// An invalid response of the registry or its token server. The cause is omitted for a response from another host.
    pub fn invalid_response(url: &str, is_cross_origin: bool, cause: String) -> Self {
        let kind = FetchErrorKind::InvalidResponse(cause);
        let kind = if is_cross_origin {
            kind.without_response_text()
        } else {
            kind
        };
        Self::Fetch(FetchError::new(url, kind))
    }

    /// The reason for conditions and metrics.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Reference { .. } => Reason::InvalidURL,
            Self::Query { .. } => Reason::InvalidVersion,
            Self::Fetch(error) => error.kind.reason(),
            Self::Challenge { .. } | Self::Realm { .. } | Self::Link { .. } | Self::TooManyPages { .. } => {
                Reason::RepositoryError
            }
            Self::TagList { source, .. } => match source {
                TagListError::TooLong => Reason::ResponseTooLarge,
                TagListError::OverBudget(_) => Reason::Busy,
            },
            Self::Refused { status, code, .. } => refusal_reason(*status, code.as_ref()),
            Self::Select { source, .. } => select_reason(source),
            Self::Digest { .. } => Reason::NoMatchingVersion,
        }
    }

    /// When to retry; `None` if a retry is useless until the HelmOp changes.
    pub fn backoff_policy(&self) -> Option<BackoffPolicy> {
        match self {
            Self::Reference { .. } | Self::Query { .. } => None,
            Self::Fetch(error) => Some(error.kind.backoff_policy()),
            Self::TagList {
                source: TagListError::OverBudget(_),
                ..
            } => Some(BackoffPolicy::TRANSIENT),
            Self::Challenge { .. }
            | Self::Realm { .. }
            | Self::Refused { .. }
            | Self::Link { .. }
            | Self::TooManyPages { .. }
            | Self::TagList { .. }
            | Self::Select { .. }
            | Self::Digest { .. } => Some(BackoffPolicy::SLOW),
        }
    }

    /// Whether this manifest is unknown, while the repository may have others.
    pub fn is_unknown_manifest(&self) -> bool {
        matches!(self, Self::Refused { status, code, .. }
            if *status == StatusCode::NOT_FOUND && *code != Some(Code::NameUnknown))
    }
}

impl FetchFailure for RegistryError {
    fn is_shared(&self) -> bool {
        // The exhausted share of one namespace does not concern others.
        !matches!(
            self,
            Self::TagList {
                source: TagListError::OverBudget(_),
                ..
            }
        )
    }
}

/// Registries report an error by status, code or both; the code is more specific.
fn refusal_reason(status: StatusCode, code: Option<&Code>) -> Reason {
    match code {
        Some(Code::NameUnknown | Code::NameInvalid) => Reason::RepositoryNotFound,
        Some(Code::ManifestUnknown) => Reason::NoMatchingVersion,
        Some(Code::Denied) => Reason::Forbidden,
        Some(Code::Unauthorized) => Reason::Unauthorized,
        Some(Code::TooManyRequests) => Reason::RateLimited,
        Some(Code::Unsupported | Code::Other(_)) | None => FetchErrorKind::Status(status).reason(),
    }
}

fn advice(status: StatusCode, code: Option<&Code>, repository: &str) -> String {
    match refusal_reason(status, code) {
        Reason::RepositoryNotFound => format!(
            "repository {repository:?} not found in the registry; check spec.helm.repo, whose last part must be the chart's name; some registries return the same if a login is missing"
        ),
        Reason::NoMatchingVersion => format!("repository {repository:?} has no such version"),
        Reason::Unauthorized => {
            "the registry requires other credentials: check the Secret that spec.helmSecretName names"
                .to_owned()
        }
        Reason::Forbidden => format!(
            "the login may not pull from repository {repository:?}, or there is none: check the Secret that spec.helmSecretName names"
        ),
        _ => "not a response that a registry returns to this request".to_owned(),
    }
}

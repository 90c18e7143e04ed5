//! Why a registry gives no version.

use helmops_shared::{
    chart::{
        registry::{
            ask::QueryError, challenge::ChallengeError, digest::DigestMismatch,
            error_body::RegistryCode as Code, link::LinkError, realm::RealmError, reference::ReferenceError,
            tag_list::TagListError,
        },
        select::SelectError,
    },
    reason::Reason,
};
use reqwest::StatusCode;
use thiserror::Error;

use crate::{
    backoff::Pace,
    resolve::{
        cache::Failed,
        error::select_reason,
        http::{Fault, FetchError},
    },
};

/// Why a registry gives no version.
#[derive(Clone, Debug, Error)]
pub enum RegistryError {
    /// The reference is none.
    #[error("spec.helm.repo {repo:?}: {source}")]
    Reference {
        /// The reference.
        repo: String,
        /// What is wrong with it.
        source: ReferenceError,
    },
    /// Reference and version contradict each other.
    #[error("{repo}: {source}")]
    Ask {
        /// The reference.
        repo: String,
        /// How.
        source: QueryError,
    },
    /// A request failed.
    #[error(transparent)]
    Fetch(FetchError),
    /// The registry wants credentials in a way that nobody understands.
    #[error("{url}: {source}")]
    Challenge {
        /// What was asked for.
        url: String,
        /// How.
        source: ChallengeError,
    },
    /// The registry sends for a token to a place where none is asked for.
    #[error("{url}: {source}")]
    Realm {
        /// What was asked for.
        url: String,
        /// Why.
        source: RealmError,
    },
    /// The registry has something against the request, and says what.
    #[error("{url}: {advice}; the registry responded with status {status}{told}", status = .status.as_u16(), advice = advice(*.status, .code.as_ref(), .repository))]
    Refused {
        /// What was asked for.
        url: String,
        /// Name of the repository in the registry.
        repository: String,
        /// What it answered.
        status: StatusCode,
        /// The registry's word for it.
        code: Option<Code>,
        /// The same in its own words, behind a colon; empty if it has none.
        told: String,
    },
    /// The next page of the tags cannot be fetched.
    #[error("{url}: the next page of the tag list has a URL that cannot be used: {source}")]
    Link {
        /// The page.
        url: String,
        /// Why.
        source: LinkError,
    },
    /// The tags never end.
    #[error("{repo}: the list of tags has more than {pages} pages, which is the limit; use an exact version")]
    TooManyPages {
        /// The reference.
        repo: String,
        /// How many were read.
        pages: usize,
    },
    /// The list of tags is larger than is kept.
    #[error("{repo}: {source}")]
    TagList {
        /// The repository.
        repo: String,
        /// Why.
        source: TagListError,
    },
    /// None of the tags will do.
    #[error("could not find tag matching constraint: {source} ({repo})")]
    Select {
        /// The reference.
        repo: String,
        /// Why.
        source: SelectError,
    },
    /// The tag is not what the reference says.
    #[error("{repo}: {source}")]
    Digest {
        /// The reference.
        repo: String,
        /// How.
        source: DigestMismatch,
    },
}

impl RegistryError {
    /// What the registry, or its token server, answered is of no use. Why is not said where another host answered.
    pub fn unusable(url: &str, is_foreign: bool, why: String) -> Self {
        let fault = Fault::HttpResponse(why);
        let fault = if is_foreign { fault.without_quotes() } else { fault };
        Self::Fetch(FetchError::new(url, fault))
    }

    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Reference { .. } => Reason::InvalidURL,
            Self::Ask { .. } => Reason::InvalidVersion,
            Self::Fetch(error) => error.fault.reason(),
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

    /// When to try again; `None` for never, before the HelmOp changes.
    pub fn pace(&self) -> Option<Pace> {
        match self {
            Self::Reference { .. } | Self::Ask { .. } => None,
            Self::Fetch(error) => Some(error.fault.pace()),
            Self::TagList {
                source: TagListError::OverBudget(_),
                ..
            } => Some(Pace::TRANSIENT),
            Self::Challenge { .. }
            | Self::Realm { .. }
            | Self::Refused { .. }
            | Self::Link { .. }
            | Self::TooManyPages { .. }
            | Self::TagList { .. }
            | Self::Select { .. }
            | Self::Digest { .. } => Some(Pace::SLOW),
        }
    }

    /// Whether the registry says that it has no such manifest, while it may well have others.
    pub fn is_unknown_manifest(&self) -> bool {
        matches!(self, Self::Refused { status, code, .. }
            if *status == StatusCode::NOT_FOUND && *code != Some(Code::NameUnknown))
    }
}

impl Failed for RegistryError {
    fn is_shared(&self) -> bool {
        // What one namespace has used up is nothing to others.
        !matches!(
            self,
            Self::TagList {
                source: TagListError::OverBudget(_),
                ..
            }
        )
    }
}

/// Registries say with the status, the code or both what is wrong; the code is the closer word.
fn refusal_reason(status: StatusCode, code: Option<&Code>) -> Reason {
    match code {
        Some(Code::NameUnknown | Code::NameInvalid) => Reason::RepositoryNotFound,
        Some(Code::ManifestUnknown) => Reason::NoMatchingVersion,
        Some(Code::Denied) => Reason::Forbidden,
        Some(Code::Unauthorized) => Reason::Unauthorized,
        Some(Code::TooManyRequests) => Reason::RateLimited,
        Some(Code::Unsupported | Code::Other(_)) | None => Fault::Status(status).reason(),
    }
}

fn advice(status: StatusCode, code: Option<&Code>, repository: &str) -> String {
    match refusal_reason(status, code) {
        Reason::RepositoryNotFound => format!(
            "repository {repository:?} not found in the registry; check spec.helm.repo, whose last part must be the chart's name; some registries say the same where a login is missing"
        ),
        Reason::NoMatchingVersion => format!("repository {repository:?} has no such version"),
        Reason::Unauthorized => {
            "the registry requires other credentials: check the Secret that spec.helmSecretName names"
                .to_owned()
        }
        Reason::Forbidden => format!(
            "the login may not pull from repository {repository:?}, or there is none: check the Secret that spec.helmSecretName names"
        ),
        _ => "not an answer that a registry gives to this".to_owned(),
    }
}

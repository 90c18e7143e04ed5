//! Why no version could be resolved from a registry.

use helm_index::{SelectError, tags::TagListError};
use helmops_model::{
    chart::registry::{
        challenge::ChallengeError, digest::DigestMismatch, error_body::RegistryCode as Code, link::LinkError,
        manifest::ManifestError, query::QueryError, realm::RealmError, reference::ReferenceError,
    },
    reason::Reason,
};
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, classified};
use reqwest::StatusCode;
use thiserror::Error;

use crate::{
    chart_errors,
    http::{FetchError, FetchErrorKind},
    login::LoginProblem,
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
    #[error("{url}: {advice}; the registry responded with status {status}{detail}", status = .status.as_u16(), advice = advice(*.status, .code.as_ref(), .repository, .problem.as_deref()))]
    Refused {
        /// The requested URL.
        url: String,
        /// Name of the repository in the registry.
        repository: String,
        /// The status of the response.
        status: StatusCode,
        /// The error code of the registry.
        code: Option<Code>,
        /// What is wrong with the login, if that is the probable cause.
        problem: Option<Box<LoginProblem>>,
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
    /// A manifest is not that of a chart.
    #[error("{reference}: {source}")]
    Manifest {
        /// The reference, with its tag or digest.
        reference: String,
        /// The cause.
        source: ManifestError,
    },
    /// The chart with the tag or digest of the reference has a version that is not requested.
    #[error(
        "{reference} is version {found:?}, which is not in version {requested:?}; change spec.helm.version, or leave it empty to accept \
         every version"
    )]
    OtherVersion {
        /// The reference, with its tag or digest.
        reference: String,
        /// The version of the chart.
        found: String,
        /// The version field.
        requested: String,
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

    /// Whether this manifest is unknown, while the repository may have others.
    pub fn is_unknown_manifest(&self) -> bool {
        matches!(self, Self::Refused { status, code, .. }
            if *status == StatusCode::NOT_FOUND && *code != Some(Code::NameUnknown))
    }
}

impl ClassifiedError for RegistryError {
    fn classify(&self) -> Classified {
        match self {
            Self::Reference { .. } => classified(Reason::InvalidURL, Class::Permanent),
            Self::Query { .. } => classified(Reason::InvalidVersion, Class::Permanent),
            Self::Fetch(error) => error.kind.classify(),
            Self::Challenge { .. } | Self::Realm { .. } | Self::Link { .. } | Self::TooManyPages { .. } => {
                classified(Reason::RepositoryError, Class::Absent)
            }
            Self::TagList { source, .. } => chart_errors::of_tags(*source),
            Self::Refused {
                status,
                code,
                problem,
                ..
            } => {
                let of_login = problem.as_deref().and_then(LoginProblem::reason);
                let of_response = || refusal_reason(*status, code.as_ref());
                classified(of_login.unwrap_or_else(of_response), Class::Absent)
            }
            Self::Select { source, .. } => chart_errors::of_selection(source),
            Self::Manifest { .. } => classified(Reason::InvalidChart, Class::Absent),
            Self::OtherVersion { .. } | Self::Digest { .. } => {
                classified(Reason::NoMatchingVersion, Class::Absent)
            }
        }
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

fn advice(
    status: StatusCode,
    code: Option<&Code>,
    repository: &str,
    problem: Option<&LoginProblem>,
) -> String {
    if let Some(problem) = problem {
        return problem.to_string();
    }
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
            "the login may not pull from repository {repository:?}: check its permissions in the registry, and the Secret that spec.helmSecretName names"
        ),
        _ => "not a response that a registry returns to this request".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use helmops_runtime::error_class::Scope;
    use reqwest::Url;

    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of all errors")]
    fn every_error_has_a_reason_and_a_class() {
        let repo = || "oci://r.example.com/web".to_owned();
        let refused = |status: u16, code| RegistryError::Refused {
            url: repo(),
            repository: repo(),
            status: StatusCode::from_u16(status).unwrap(),
            code,
            problem: None,
            detail: String::new(),
        };
        let scheme = ReferenceError::Scheme { scheme: repo() };
        let query = QueryError::Mismatch {
            tag: repo(),
            version: String::new(),
        };
        let challenge = ChallengeError::None;
        let bad_realm = RealmError::BadUrl {
            realm: repo(),
            source: Url::parse("https://").unwrap_err(),
        };
        let link = LinkError::TooLong;
        let mismatch = DigestMismatch {
            tag: repo(),
            found: repo(),
            expected: repo(),
        };
        for (error, reason, class) in [
            (
                RegistryError::Reference {
                    repo: repo(),
                    source: scheme,
                },
                Reason::InvalidURL,
                Class::Permanent,
            ),
            (
                RegistryError::Query {
                    repo: repo(),
                    source: query,
                },
                Reason::InvalidVersion,
                Class::Permanent,
            ),
            (
                RegistryError::Fetch(FetchError::new(&repo(), FetchErrorKind::NotAccepted)),
                Reason::Timeout,
                Class::Transient(Scope::Host),
            ),
            (
                RegistryError::Challenge {
                    url: repo(),
                    source: challenge,
                },
                Reason::RepositoryError,
                Class::Absent,
            ),
            (
                RegistryError::Realm {
                    url: repo(),
                    source: bad_realm,
                },
                Reason::RepositoryError,
                Class::Absent,
            ),
            (refused(401, None), Reason::Unauthorized, Class::Absent),
            (
                refused(404, Some(Code::NameUnknown)),
                Reason::RepositoryNotFound,
                Class::Absent,
            ),
            (
                refused(404, Some(Code::NameInvalid)),
                Reason::RepositoryNotFound,
                Class::Absent,
            ),
            (
                refused(404, Some(Code::ManifestUnknown)),
                Reason::NoMatchingVersion,
                Class::Absent,
            ),
            (refused(401, Some(Code::Denied)), Reason::Forbidden, Class::Absent),
            (
                refused(403, Some(Code::Unauthorized)),
                Reason::Unauthorized,
                Class::Absent,
            ),
            (
                refused(400, Some(Code::TooManyRequests)),
                Reason::RateLimited,
                Class::Absent,
            ),
            (
                refused(400, Some(Code::Unsupported)),
                Reason::RepositoryError,
                Class::Absent,
            ),
            (
                RegistryError::Link {
                    url: repo(),
                    source: link,
                },
                Reason::RepositoryError,
                Class::Absent,
            ),
            (
                RegistryError::TooManyPages {
                    repo: repo(),
                    pages: 9,
                },
                Reason::RepositoryError,
                Class::Absent,
            ),
            (
                RegistryError::TagList {
                    repo: repo(),
                    source: TagListError::TooLong,
                },
                Reason::ResponseTooLarge,
                Class::Absent,
            ),
            (
                RegistryError::Select {
                    repo: repo(),
                    source: SelectError::NoVersions { chart: repo() },
                },
                Reason::NoMatchingVersion,
                Class::Absent,
            ),
            (
                RegistryError::Manifest {
                    reference: repo(),
                    source: ManifestError::Version { found: repo() },
                },
                Reason::InvalidChart,
                Class::Absent,
            ),
            (
                RegistryError::OtherVersion {
                    reference: repo(),
                    found: repo(),
                    requested: repo(),
                },
                Reason::NoMatchingVersion,
                Class::Absent,
            ),
            (
                RegistryError::Digest {
                    repo: repo(),
                    source: mismatch,
                },
                Reason::NoMatchingVersion,
                Class::Absent,
            ),
        ] {
            assert_eq!(error.classify(), classified(reason, class), "{error}");
        }
    }
}

//! Why a chart cannot be read from a Git repository.

use std::sync::Arc;

use helmops_git::{ObjectId, PackError, SelectError, chart::ChartError, wire::WireError};
use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, Scope, classified};
use reqwest::StatusCode;
use thiserror::Error;

use super::ssh::HostKeyError;
use crate::{
    chart_errors,
    http::{FetchError, FetchErrorKind},
};

/// Why a chart cannot be read from a Git repository. Clones are shared by all that wait for the same request.
#[derive(Clone, Debug, Error)]
pub enum GitError {
    /// A request failed.
    #[error("{}", request(.0))]
    Fetch(FetchError),
    /// A response is not that of a Git server, or reports an error.
    #[error("{url}: {source}")]
    Wire {
        /// The URL of the request, without credentials.
        url: String,
        /// The cause.
        source: Arc<WireError>,
    },
    /// A pack is damaged or too large.
    #[error("{url}: {source}")]
    Pack {
        /// The URL of the request, without credentials.
        url: String,
        /// The cause.
        source: Arc<PackError>,
    },
    /// The repository has no such commit.
    #[error("{url}: {source}")]
    Select {
        /// The URL of the repository, without credentials.
        url: String,
        /// The cause.
        source: SelectError,
    },
    /// The commit has no such chart, or one that is refused.
    #[error("{url}, commit {commit}: {source}")]
    Chart {
        /// The URL of the repository, without credentials.
        url: String,
        /// The commit.
        commit: ObjectId,
        /// The cause.
        source: Arc<ChartError>,
    },
    /// The location cannot be written as a URL.
    #[error("the address of the Git repository has a host that is none; check spec.chartSource.git.url")]
    Location,
    /// The server is not trusted over SSH, or does not trust the key of the Secret.
    #[error("{url}: {problem}")]
    Ssh {
        /// The URL of the repository, without the user.
        url: String,
        /// The cause.
        problem: SshProblem,
    },
    /// Packs lack files that were requested.
    #[error(
        "{url}: the Git server does not send all files of the chart that its folders name; check the repository with `git fsck`"
    )]
    MissingFiles {
        /// The URL of the repository, without credentials.
        url: String,
    },
    /// The chart is another one than the one that was resolved.
    #[error(
        "{url}: the chart is another one than it was when it was resolved; the next poll deploys it as it is now"
    )]
    Changed {
        /// The URL of the repository, without credentials.
        url: String,
    },
}

/// Why there is no session over SSH.
#[derive(Clone, Debug, Error)]
pub enum SshProblem {
    /// The Secret has no keys.
    #[error(
        "SSH needs a Secret with the keys identity (a private key) and known_hosts (the public keys of the server): name it in \
         spec.chartSource.git.secretRef"
    )]
    NoKeys,
    /// The private key is none.
    #[error(
        "key identity of the Secret is not a private key as ssh-keygen writes it; create it again from the file"
    )]
    Identity,
    /// The private key is encrypted.
    #[error(
        "key identity of the Secret is encrypted with a passphrase, which is not supported; remove it with `ssh-keygen -p`"
    )]
    Encrypted,
    /// The private key is of another kind.
    #[error(
        "key identity of the Secret is of a kind that is not supported; use Ed25519 or ECDSA (ssh-keygen -t ed25519)"
    )]
    IdentityKind,
    /// The key of the host is of another kind.
    #[error(
        "key known_hosts of the Secret has only keys of kinds that are not supported; add the Ed25519 or ECDSA key of the server"
    )]
    HostKeyKind,
    /// The server is not the one that it should be.
    #[error(transparent)]
    HostKey(#[from] HostKeyError),
    /// The server refuses the key.
    #[error(
        "the server refuses key identity of the Secret for user {0:?}; register its public key there, with permission to read the repository"
    )]
    Login(String),
}

impl GitError {
    /// Whether a server may fail so because it is another one, or configured in another way, than when it said what it can do.
    pub(super) fn may_be_of_another_server(&self) -> bool {
        match self {
            Self::Wire { source, .. } => matches!(
                **source,
                WireError::Malformed(_) | WireError::Server(_) | WireError::Unsupported(_)
            ),
            Self::Fetch(error) => {
                let is_too_large = matches!(error.kind, FetchErrorKind::TooLarge { .. });
                !is_too_large && !error.kind.class().is_transient()
            }
            _ => false,
        }
    }

    /// The outcome of a request in metrics.
    pub(super) fn as_request(&self) -> FetchErrorKind {
        match self {
            Self::Fetch(error) => error.kind.clone(),
            Self::Ssh { problem, .. } => match problem {
                SshProblem::HostKey(error) => FetchErrorKind::Certificate(error.to_string()),
                SshProblem::Login(_) => FetchErrorKind::Status(StatusCode::UNAUTHORIZED),
                _ => FetchErrorKind::CaCertificates("key identity of the Secret"),
            },
            Self::Pack { source, .. } => match **source {
                PackError::TooLarge { limit } => FetchErrorKind::TooLarge {
                    limit: limit as u64,
                    measured: "as a pack",
                },
                PackError::Stopped => FetchErrorKind::Timeout(source.to_string()),
                _ => FetchErrorKind::InvalidResponse(source.to_string()),
            },
            _ => FetchErrorKind::InvalidResponse(String::new()),
        }
    }
}

impl ClassifiedError for GitError {
    fn classify(&self) -> Classified {
        match self {
            Self::Fetch(error) => error.kind.classify(),
            Self::Wire { source, .. } => match **source {
                WireError::Input(_) => {
                    classified(Reason::ConnectionFailed, Class::Transient(Scope::Repository))
                }
                WireError::Malformed(_) | WireError::Server(_) | WireError::Unsupported(_) => {
                    classified(Reason::RepositoryError, Class::Absent)
                }
                WireError::TooManyReferences { .. } => classified(Reason::ResponseTooLarge, Class::Absent),
                WireError::Memory(_) => busy(),
            },
            Self::Pack { source, .. } => of_pack(source),
            Self::Select { .. } => classified(Reason::NoMatchingVersion, Class::Absent),
            Self::Chart { source, .. } => chart_errors::of_chart(source, of_pack),
            Self::Location => classified(Reason::InvalidURL, Class::Absent),
            Self::Ssh { problem, .. } => match problem {
                SshProblem::HostKey(_) => classified(Reason::CertificateError, Class::Absent),
                SshProblem::Login(_) => classified(Reason::Unauthorized, Class::Absent),
                _ => classified(Reason::InvalidSecret, Class::Absent),
            },
            Self::MissingFiles { .. } => classified(Reason::RepositoryError, Class::Absent),
            Self::Changed { .. } => classified(Reason::DigestMismatch, Class::Absent),
        }
    }
}

fn of_pack(error: &PackError) -> Classified {
    match error {
        PackError::Input(_) => classified(Reason::ConnectionFailed, Class::Transient(Scope::Repository)),
        PackError::Stopped => classified(Reason::Timeout, Class::Transient(Scope::Repository)),
        PackError::NoCommit => classified(Reason::NoMatchingVersion, Class::Absent),
        PackError::Damaged(_) => classified(Reason::RepositoryError, Class::Absent),
        PackError::TooLarge { .. }
        | PackError::TooManyObjects { .. }
        | PackError::TooMuch { .. }
        | PackError::ObjectTooLarge { .. } => classified(Reason::ResponseTooLarge, Class::Absent),
        PackError::Memory(_) => busy(),
    }
}

fn busy() -> Classified {
    classified(Reason::Busy, Class::Transient(Scope::Namespace))
}

/// The message of a failed request.
fn request(error: &FetchError) -> String {
    let FetchError { url, kind } = error;
    match kind {
        // Servers respond so to a login without permission, too: they keep secret what exists.
        FetchErrorKind::Status(StatusCode::NOT_FOUND | StatusCode::GONE) => format!(
            "failed to fetch {url}: error code: 404: there is no Git repository at this URL, or the login has no permission to read it: check \
             spec.chartSource.git.url and the Secret that spec.chartSource.git.secretRef names"
        ),
        _ => in_terms_of_git(&error.to_string()),
    }
}

/// Requests to repositories of Helm have the same errors, with the fields that those have.
pub fn in_terms_of_git(message: &str) -> String {
    message
        .replace(
            "could not read Helm auth from secret",
            "could not read the access to the Git repository",
        )
        .replace("spec.helmSecretName", "spec.chartSource.git.secretRef")
        .replace("spec.helm.repo", "spec.chartSource.git.url")
        .replace("chart repository or registry", "Git server")
}

#[cfg(test)]
mod tests {
    use std::io;

    use helm_index::OverBudget;
    use helmops_git::chart::ChartPath;

    use super::*;

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let url = || "https://h/n.git".to_owned();
        let absent = |reason| classified(reason, Class::Absent);
        let retried = |reason| classified(reason, Class::Transient(Scope::Repository));
        let wire = |source| GitError::Wire {
            url: url(),
            source: Arc::new(source),
        };
        let pack = |source| GitError::Pack {
            url: url(),
            source: Arc::new(source),
        };
        let chart = |source| GitError::Chart {
            url: url(),
            commit: ObjectId::from_hex(&"0".repeat(40)).unwrap(),
            source: Arc::new(source),
        };
        let ssh = |problem| GitError::Ssh { url: url(), problem };
        let no_chart = ChartError::NoChart {
            path: ChartPath::default(),
            problem: "",
            charts: String::new(),
        };
        let refused = ChartError::Refused {
            path: String::new(),
            problem: "",
        };
        let select = GitError::Select {
            url: url(),
            source: SelectError::NoHead,
        };
        for (error, expected) in [
            (
                wire(WireError::Input(io::ErrorKind::Other.into())),
                retried(Reason::ConnectionFailed),
            ),
            (wire(WireError::Malformed(url())), absent(Reason::RepositoryError)),
            (wire(WireError::Server(url())), absent(Reason::RepositoryError)),
            (
                wire(WireError::Unsupported(url())),
                absent(Reason::RepositoryError),
            ),
            (
                wire(WireError::TooManyReferences { limit: 1 }),
                absent(Reason::ResponseTooLarge),
            ),
            (wire(WireError::Memory(OverBudget)), busy()),
            (
                pack(PackError::Input(io::ErrorKind::Other.into())),
                retried(Reason::ConnectionFailed),
            ),
            (pack(PackError::Damaged("")), absent(Reason::RepositoryError)),
            (pack(PackError::Stopped), retried(Reason::Timeout)),
            (pack(PackError::NoCommit), absent(Reason::NoMatchingVersion)),
            (
                pack(PackError::TooLarge { limit: 1 }),
                absent(Reason::ResponseTooLarge),
            ),
            (pack(PackError::Memory(OverBudget)), busy()),
            (chart(ChartError::Tree(PackError::Memory(OverBudget))), busy()),
            (chart(no_chart), absent(Reason::ChartNotFound)),
            (chart(refused), absent(Reason::InvalidChart)),
            (ssh(SshProblem::NoKeys), absent(Reason::InvalidSecret)),
            (
                ssh(SshProblem::HostKey(HostKeyError::Changed)),
                absent(Reason::CertificateError),
            ),
            (ssh(SshProblem::Login(url())), absent(Reason::Unauthorized)),
            (select, absent(Reason::NoMatchingVersion)),
            (
                GitError::MissingFiles { url: url() },
                absent(Reason::RepositoryError),
            ),
            (GitError::Location, absent(Reason::InvalidURL)),
            (GitError::Changed { url: url() }, absent(Reason::DigestMismatch)),
        ] {
            assert_eq!(error.classify(), expected, "{error}");
        }
    }
}

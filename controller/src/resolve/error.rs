//! Why no version could be resolved.

use std::time::Duration;

use helm_index::{IndexError, SelectError};
use helmops_core::reason::Reason;
use thiserror::Error;

use super::{oci::RegistryError, repository::RepositoryError, secret::SecretError};
use crate::backoff::BackoffPolicy;

/// Why no version could be resolved.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// The Secret is missing or invalid.
    #[error(transparent)]
    Secret(SecretError),
    /// A Helm repository could not be read, or lists no matching version.
    #[error(transparent)]
    Repository(RepositoryError),
    /// An OCI registry could not be read, or has no matching version.
    #[error(transparent)]
    Registry(RegistryError),
    /// All resolutions of the HelmOp together took too long.
    #[error(
        "resolving the charts of this HelmOp took longer than {} s in total; check the server and the network, or \
         use fewer charts in one HelmOp",
        limit.as_secs()
    )]
    Deadline {
        /// The time limit.
        limit: Duration,
    },
}

impl ResolveError {
    /// The reason for conditions and metrics.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Secret(error) => error.reason(),
            Self::Repository(error) => error.reason(),
            Self::Registry(error) => error.reason(),
            Self::Deadline { .. } => Reason::Timeout,
        }
    }

    /// Whether a retry may succeed without any change by a user.
    pub fn is_transient(&self) -> bool {
        self.backoff_policy().is_some_and(|policy| policy.is_transient)
    }

    /// When to retry; `None` if a retry is useless until the HelmOp changes.
    pub fn backoff_policy(&self) -> Option<BackoffPolicy> {
        match self {
            Self::Secret(error) => Some(error.backoff_policy()),
            Self::Repository(error) => Some(error.backoff_policy()),
            Self::Registry(error) => error.backoff_policy(),
            Self::Deadline { .. } => Some(BackoffPolicy::TRANSIENT),
        }
    }
}

/// The reason for an index error.
pub fn index_reason(error: &IndexError) -> Reason {
    match error {
        IndexError::NoSuchChart(_) => Reason::ChartNotFound,
        IndexError::OverBudget(_) => Reason::Busy,
        _ => Reason::InvalidIndex,
    }
}

/// The reason for a list of versions of which none matches.
pub fn select_reason(error: &SelectError) -> Reason {
    match error {
        SelectError::OnlyPrereleases { .. } => Reason::OnlyPrereleases,
        _ => Reason::NoMatchingVersion,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helmop_over_its_time_limit_is_retried() {
        let limit = Duration::from_mins(5);
        let error = ResolveError::Deadline { limit };
        assert_eq!(
            (error.reason(), error.backoff_policy()),
            (Reason::Timeout, Some(BackoffPolicy::TRANSIENT))
        );
        assert!(
            error.is_transient() && error.to_string().contains("300 s"),
            "{error}"
        );
    }
}

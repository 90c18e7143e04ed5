//! Why no version could be determined.

use std::time::Duration;

use helmops_shared::{
    chart::{index::IndexError, select::SelectError},
    reason::Reason,
};
use thiserror::Error;

use super::{oci::RegistryError, repository::RepositoryError, secret::SecretError};
use crate::backoff::Pace;

/// Why no version could be determined.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// The Secret is of no use.
    #[error(transparent)]
    Secret(SecretError),
    /// The repository gives none.
    #[error(transparent)]
    Repository(RepositoryError),
    /// The registry gives none.
    #[error(transparent)]
    Registry(RegistryError),
    /// Everything that the HelmOp asks for took too long together.
    #[error(
        "looking up the charts of this HelmOp took longer than {} s in all; check the server and the network, or \
         name fewer charts in one HelmOp",
        limit.as_secs()
    )]
    Deadline {
        /// The longest time allowed.
        limit: Duration,
    },
}

impl ResolveError {
    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Secret(error) => error.reason(),
            Self::Repository(error) => error.reason(),
            Self::Registry(error) => error.reason(),
            Self::Deadline { .. } => Reason::Timeout,
        }
    }

    /// Whether it may pass by itself: nobody need do anything yet.
    pub fn is_transient(&self) -> bool {
        self.reason() == Reason::RateLimited || self.pace() == Some(Pace::TRANSIENT)
    }

    /// When to try again; `None` for never, before the HelmOp changes.
    pub fn pace(&self) -> Option<Pace> {
        match self {
            Self::Secret(error) => Some(error.pace()),
            Self::Repository(error) => Some(error.pace()),
            Self::Registry(error) => error.pace(),
            Self::Deadline { .. } => Some(Pace::TRANSIENT),
        }
    }
}

/// The word for an index that gives no version.
pub fn index_reason(error: &IndexError) -> Reason {
    match error {
        IndexError::NoSuchChart(_) => Reason::ChartNotFound,
        IndexError::OverBudget(_) => Reason::Busy,
        _ => Reason::InvalidIndex,
    }
}

/// The word for a list of versions of which none will do.
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
    fn a_helmop_that_takes_too_long_is_tried_again() {
        let limit = Duration::from_mins(5);
        let error = ResolveError::Deadline { limit };
        assert_eq!(
            (error.reason(), error.pace()),
            (Reason::Timeout, Some(Pace::TRANSIENT))
        );
        assert!(
            error.is_transient() && error.to_string().contains("300 s"),
            "{error}"
        );
    }
}

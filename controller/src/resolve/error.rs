//! Why no version could be determined.

use helmops_shared::{
    chart::{index::IndexError, select::SelectError},
    reason::Reason,
};
use thiserror::Error;

use super::{credentials::CredentialsError, http::FetchError};
use crate::backoff::Pace;

/// Why no version could be determined.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// The Secret is of no use.
    #[error(transparent)]
    Credentials(CredentialsError),
    /// The index could not be fetched.
    #[error(transparent)]
    Fetch(FetchError),
    /// What was fetched is of no use.
    #[error("{url}: {source}")]
    Index {
        /// Where it came from, without credentials.
        url: String,
        /// Why.
        source: IndexError,
    },
    /// The index has no version that will do.
    #[error("{source} ({url})")]
    Select {
        /// Where the index came from, without credentials.
        url: String,
        /// Why.
        source: SelectError,
    },
    /// A registry, and no exact version.
    #[error(
        "{repo}: version {version:?} is a range, and ranges are not looked up in OCI registries by this release; give an exact version such as 1.2.3"
    )]
    OciRange {
        /// The reference, without credentials.
        repo: String,
        /// What was asked for.
        version: String,
    },
}

impl ResolveError {
    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Credentials(error) => error.reason(),
            Self::Fetch(error) => error.reason(),
            Self::Index {
                source: IndexError::NoSuchChart(_),
                ..
            } => Reason::ChartNotFound,
            Self::Index {
                source: IndexError::Malformed(_) | IndexError::NotAnIndex(_),
                ..
            } => Reason::InvalidIndex,
            Self::Select { .. } => Reason::NoMatchingVersion,
            Self::OciRange { .. } => Reason::UnsupportedSource,
        }
    }

    /// When to try again; `None` for never, before the HelmOp changes.
    pub fn pace(&self) -> Option<Pace> {
        match self {
            Self::Credentials(error) => Some(error.pace()),
            Self::Fetch(error) => Some(error.pace()),
            Self::Index { .. } | Self::Select { .. } => Some(Pace::SLOW),
            Self::OciRange { .. } => None,
        }
    }
}

//! Why no version could be resolved from a repository.

use std::sync::Arc;

use helm_index::{IndexError, SelectError};
use helmops_runtime::error_class::{Classified, ClassifiedError};
use thiserror::Error;

use crate::{chart_errors, http::FetchError};

/// Why no version could be resolved from a repository.
#[derive(Clone, Debug, Error)]
pub enum RepositoryError {
    /// The index could not be fetched.
    #[error(transparent)]
    Fetch(FetchError),
    /// The index is invalid, too large, or lacks the chart.
    #[error("{url}: {source}")]
    Index {
        /// Its URL, without credentials.
        url: String,
        /// The cause.
        source: Arc<IndexError>,
    },
    /// The index has no matching version.
    #[error("{source} ({url})")]
    Select {
        /// URL of the index, without credentials.
        url: String,
        /// The cause.
        source: SelectError,
    },
}

impl ClassifiedError for RepositoryError {
    fn classify(&self) -> Classified {
        match self {
            Self::Fetch(error) => error.kind.classify(),
            Self::Index { source, .. } => chart_errors::of_index(source),
            Self::Select { source, .. } => chart_errors::of_selection(source),
        }
    }
}

impl RepositoryError {
    /// Whether the request for the index failed.
    pub const fn is_of_request(&self) -> bool {
        matches!(self, Self::Fetch(_))
    }

    /// Whether reading fewer charts may succeed.
    pub(super) fn may_succeed_with_fewer_charts(&self) -> bool {
        matches!(self, Self::Index { source, .. }
            if matches!(**source, IndexError::TooManyVersions | IndexError::OverBudget(_)))
    }

    /// Whether that stays so for a while.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self, Self::Index { source, .. } if matches!(**source, IndexError::TooManyVersions))
    }
}

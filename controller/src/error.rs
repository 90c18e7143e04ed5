//! What can go wrong with a HelmOp, and what that means for its next try.

use helmops_shared::{
    bundle::{Foreign, MissingVersion},
    reason::Reason,
};
use thiserror::Error;

use crate::{backoff::Pace, client::ApiError, resolve::ResolveError};

/// Why a HelmOp could not be brought to what it asks for.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The Bundle of its name is somebody else's.
    #[error(transparent)]
    Foreign(Foreign),
    /// The Bundle of its name does not decode.
    #[error("Bundle {name} does not decode: {error}")]
    OddBundle {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: String,
    },
    /// No version could be determined.
    #[error("could not get a chart version: {0}")]
    Resolve(#[source] Box<ResolveError>),
    /// A version is missing that was not looked up.
    #[error(transparent)]
    Unresolved(MissingVersion),
    /// The Bundle could not be written.
    #[error("could not write Bundle {name}: {source}")]
    Bundle {
        /// Its name.
        name: String,
        /// Why.
        source: ApiError,
    },
    /// The status could not be written.
    #[error("could not write the status of HelmOp {name}: {source}")]
    Status {
        /// Name of the HelmOp.
        name: String,
        /// Why.
        source: ApiError,
    },
    /// A finalizer that Fleet left could not be removed.
    #[error("could not remove what Fleet left of HelmOp {name}: {source}")]
    Cleanup {
        /// Name of the HelmOp.
        name: String,
        /// Why.
        source: ApiError,
    },
}

impl ReconcileError {
    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Foreign(_) => Reason::BundleConflict,
            Self::OddBundle { .. } => Reason::Undecodable,
            Self::Resolve(error) => error.reason(),
            Self::Unresolved(_) => Reason::Progressing,
            Self::Bundle { .. } | Self::Status { .. } | Self::Cleanup { .. } => Reason::ApiError,
        }
    }

    /// When to try again; `None` for never, before something changes.
    pub fn pace(&self) -> Option<Pace> {
        match self {
            // A change of that Bundle is seen.
            Self::Foreign(_) | Self::OddBundle { .. } => None,
            Self::Resolve(error) => error.pace(),
            Self::Unresolved(_) => Some(Pace::TRANSIENT),
            Self::Bundle { source, .. } | Self::Status { source, .. } | Self::Cleanup { source, .. } => {
                Some(if source.is_conflict() {
                    Pace::CONFLICT
                } else {
                    Pace::TRANSIENT
                })
            }
        }
    }

    /// Whether it is only the API server's word that somebody else was quicker: nothing to tell a user.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Bundle { source, .. } | Self::Status { source, .. } | Self::Cleanup { source, .. } => {
                source.is_conflict()
            }
            Self::Foreign(_) | Self::OddBundle { .. } | Self::Resolve(_) | Self::Unresolved(_) => false,
        }
    }
}

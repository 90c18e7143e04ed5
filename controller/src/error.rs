//! What can go wrong with a HelmOp, and what that means for its next try.

use std::time::Duration;

use helmops_shared::{
    bundle::{MissingVersion, OwnershipConflict},
    reason::Reason,
    text::cut,
};
use thiserror::Error;

use crate::{
    backoff::Pace, client::ApiError, memory::Failure, resolve::ResolveError, watch::MissingKey,
    workers::Interrupted,
};

/// What is reported of an object that cannot be read, in bytes: what an event has room for.
const LONGEST_ERROR: usize = 1000;

/// Why an object cannot be read, for the log and for events. The text of the object may be in it, of any length.
pub fn shown(error: &str) -> String {
    cut(error.to_owned(), LONGEST_ERROR)
}

/// Why a HelmOp could not be brought to what it asks for.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The Bundle of its name is somebody else's.
    #[error(transparent)]
    OwnershipConflict(OwnershipConflict),
    /// The Bundle of its name cannot be read: it does not decode, or the namespace has no memory left for it.
    #[error("Bundle {name} cannot be read: {error}")]
    OddBundle {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: String,
    },
    /// Policies have not been seen yet.
    #[error("the Policy cache is not synced yet")]
    UnknownPolicies,
    /// No version could be determined.
    #[error("could not get a chart version: {0}")]
    Resolve(#[source] Box<ResolveError>),
    /// Rancher's authorities cannot be told.
    #[error(transparent)]
    RancherCa(MissingKey),
    /// The process stops, or leads no more, and nothing is known yet.
    #[error(transparent)]
    Interrupted(Interrupted),
    /// The HelmOp was changed while its versions were looked up, or its Policies in a way that matters to it.
    #[error("the HelmOp or a Policy of its namespace changed during the reconciliation")]
    Superseded,
    /// Repositories have been requested for the HelmOp too often of late.
    #[error("rate limit of this HelmOp reached: its repository is requested again in {0:?}")]
    TooSoon(Duration),
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
    #[error("could not remove Fleet's finalizer from HelmOp {name}: {source}")]
    Cleanup {
        /// Name of the HelmOp.
        name: String,
        /// Why.
        source: ApiError,
    },
}

impl Failure for ReconcileError {
    fn reason(&self) -> Reason {
        match self {
            Self::OwnershipConflict(_) => Reason::BundleConflict,
            Self::OddBundle { .. } => Reason::DecodeError,
            Self::Resolve(error) => error.reason(),
            Self::RancherCa(_) => Reason::InvalidSecret,
            Self::UnknownPolicies
            | Self::Interrupted(_)
            | Self::Superseded
            | Self::TooSoon(_)
            | Self::Unresolved(_) => Reason::Progressing,
            Self::Bundle { .. } | Self::Status { .. } | Self::Cleanup { .. } => Reason::APIError,
        }
    }

    fn pace(&self) -> Option<Pace> {
        match self {
            // Bundles of others are not watched.
            Self::OwnershipConflict(_) => Some(Pace::SLOW),
            // A change of that Bundle, Secret or HelmOp, or of Policies, is seen.
            Self::UnknownPolicies
            | Self::OddBundle { .. }
            | Self::RancherCa(_)
            | Self::Superseded
            | Self::Interrupted(Interrupted::Stopping)
            // It says itself when to come back.
            | Self::TooSoon(_) => None,
            // Its next turn comes when this replica leads again.
            Self::Interrupted(Interrupted::LeadershipLost) => Some(Pace::CONFLICT),
            Self::Resolve(error) => error.pace(),
            Self::Unresolved(_) => Some(Pace::TRANSIENT),
            Self::Bundle { source, .. } | Self::Status { source, .. } | Self::Cleanup { source, .. } => {
                Some(if source.is_benign() {
                    Pace::CONFLICT
                } else {
                    Pace::TRANSIENT
                })
            }
        }
    }

    fn is_benign(&self) -> bool {
        match self {
            Self::Bundle { source, .. } | Self::Status { source, .. } | Self::Cleanup { source, .. } => {
                source.is_benign()
            }
            Self::UnknownPolicies | Self::Interrupted(_) | Self::Superseded | Self::TooSoon(_) => true,
            Self::OwnershipConflict(_)
            | Self::OddBundle { .. }
            | Self::Resolve(_)
            | Self::RancherCa(_)
            | Self::Unresolved(_) => false,
        }
    }
}

impl ReconcileError {
    /// Whether it may pass by itself: nobody need do anything yet.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Resolve(error) => error.is_transient(),
            _ => matches!(self.pace(), Some(Pace::TRANSIENT | Pace::CONFLICT)),
        }
    }

    /// Whether a Bundle of the name exists that was not seen.
    pub fn is_unseen_bundle(&self) -> bool {
        matches!(self, Self::Bundle { source, .. } if source.exists_already())
    }
}

//! Errors of the HelmOp loop, with the reason and the backoff of each.

use std::time::Duration;

use bounded_text::cut;
use helmops_core::{
    bundle::{MissingVersion, OwnershipConflict},
    reason::Reason,
};
use thiserror::Error;

use crate::{
    backoff::BackoffPolicy, client::ApiError, resolve::ResolveError, retry_state::ClassifiedError,
    watch::MissingKey, workers::Interrupted,
};

/// Maximum length of a reported decode error in bytes: what fits into an Event.
const MAX_DECODE_ERROR: usize = 1000;

/// A decode error, cut for the log and for Events: it may contain text of the object, of any length.
pub fn cut_error(error: &str) -> String {
    cut(error.to_owned(), MAX_DECODE_ERROR)
}

/// Why a HelmOp could not be reconciled.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The Bundle of the same name belongs to another owner.
    #[error(transparent)]
    OwnershipConflict(OwnershipConflict),
    /// The Bundle of the same name cannot be read: it does not decode, or the cache has no memory left for its namespace.
    #[error("Bundle {name} cannot be read: {error}")]
    InvalidBundle {
        /// Name of the Bundle.
        name: String,
        /// The cause.
        error: String,
    },
    /// The Policy cache is not synced.
    #[error("the Policy cache is not synced yet")]
    UnknownPolicies,
    /// No version could be determined.
    #[error("could not get a chart version: {0}")]
    Resolve(#[source] Box<ResolveError>),
    /// The Secret with Rancher's CA certificates lacks its key.
    #[error(transparent)]
    RancherCa(MissingKey),
    /// The process stops, or has lost leadership, before there is a result.
    #[error(transparent)]
    Interrupted(Interrupted),
    /// The HelmOp, or a Policy that matters to it, changed while its versions were resolved.
    #[error("the HelmOp or a Policy of its namespace changed during the reconciliation")]
    Superseded,
    /// Repositories have been requested too often for this HelmOp.
    #[error("rate limit of this HelmOp reached: its repository is requested again in {0:?}")]
    TooSoon(Duration),
    /// A version that the Bundle needs was not resolved.
    #[error(transparent)]
    Unresolved(MissingVersion),
    /// The Bundle could not be written.
    #[error("could not write Bundle {name}: {source}")]
    Bundle {
        /// Name of the Bundle.
        name: String,
        /// The cause.
        source: ApiError,
    },
    /// The status could not be written.
    #[error("could not write the status of HelmOp {name}: {source}")]
    Status {
        /// Name of the HelmOp.
        name: String,
        /// The cause.
        source: ApiError,
    },
    /// The finalizer of Fleet's own controller could not be removed.
    #[error("could not remove Fleet's finalizer from HelmOp {name}: {source}")]
    Cleanup {
        /// Name of the HelmOp.
        name: String,
        /// The cause.
        source: ApiError,
    },
}

impl ClassifiedError for ReconcileError {
    fn reason(&self) -> Reason {
        match self {
            Self::OwnershipConflict(_) => Reason::BundleConflict,
            Self::InvalidBundle { .. } => Reason::DecodeError,
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

    fn backoff_policy(&self) -> Option<BackoffPolicy> {
        match self {
            // Bundles of other owners are not watched.
            Self::OwnershipConflict(_) => Some(BackoffPolicy::SLOW),
            // A watch reports changes of that Bundle, Secret, HelmOp or Policy.
            Self::UnknownPolicies
            | Self::InvalidBundle { .. }
            | Self::RancherCa(_)
            | Self::Superseded
            | Self::Interrupted(Interrupted::Stopping)
            // The error contains the delay.
            | Self::TooSoon(_) => None,
            // The next reconciliation starts when this replica is the leader again.
            Self::Interrupted(Interrupted::LeadershipLost) => Some(BackoffPolicy::CONFLICT),
            Self::Resolve(error) => error.backoff_policy(),
            Self::Unresolved(_) => Some(BackoffPolicy::TRANSIENT),
            Self::Bundle { source, .. } | Self::Status { source, .. } | Self::Cleanup { source, .. } => {
                Some(if source.is_benign() {
                    BackoffPolicy::CONFLICT
                } else {
                    BackoffPolicy::TRANSIENT
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
            | Self::InvalidBundle { .. }
            | Self::Resolve(_)
            | Self::RancherCa(_)
            | Self::Unresolved(_) => false,
        }
    }
}

impl ReconcileError {
    /// Whether it may resolve itself, so that no user needs to act yet.
    pub fn is_transient(&self) -> bool {
        self.backoff_policy().is_some_and(|policy| policy.is_transient)
    }

    /// Whether a Bundle with the name exists that is not in the cache.
    pub fn is_uncached_bundle(&self) -> bool {
        matches!(self, Self::Bundle { source, .. } if source.exists_already())
    }
}

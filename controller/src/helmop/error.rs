//! Errors of the reconciliation of a HelmOp, with the reason and the class of each.

use std::time::Duration;

use helmops_api::Unusable;
use helmops_core::bundle::{MissingVersion, OwnershipConflict};
use helmops_fetch::ResolveError;
use helmops_model::reason::Reason;
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, classified},
    workers::Interrupted,
};
use thiserror::Error;

use crate::{content::ContentError, watch::MissingKey};

/// Why a HelmOp could not be reconciled.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The Bundle of the same name belongs to another owner.
    #[error(transparent)]
    OwnershipConflict(OwnershipConflict),
    /// The Bundle of the same name cannot be read: it does not decode, or the cache has no memory left for its namespace.
    #[error("Bundle {name} {}", error.predicate())]
    InvalidBundle {
        name: String,
        /// The cause.
        error: Unusable,
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
    /// A chart is not in the management cluster.
    #[error(transparent)]
    Content(Box<ContentError>),
    /// A version that the Bundle needs was not resolved.
    #[error(transparent)]
    Unresolved(MissingVersion),
    /// The Bundle could not be written.
    #[error(transparent)]
    Bundle(CallError),
    /// The HelmOp could not be written.
    #[error(transparent)]
    HelmOp(CallError),
}

impl ClassifiedError for ReconcileError {
    fn classify(&self) -> Classified {
        match self {
            // Bundles of other owners are not watched.
            Self::OwnershipConflict(_) => classified(Reason::BundleConflict, Class::Absent),
            // The Bundle is read again by its watch, and its change triggers the next attempt.
            Self::InvalidBundle { error, .. } => {
                let reason = match error {
                    Unusable::Invalid(_) => Reason::DecodeError,
                    Unusable::NotStored(_) => Reason::MemoryExceeded,
                };
                classified(reason, Class::Permanent)
            }
            Self::UnknownPolicies | Self::Superseded => classified(Reason::Progressing, Class::Superseded),
            Self::Resolve(error) => error.classify(),
            Self::RancherCa(_) => classified(Reason::InvalidSecret, Class::Permanent),
            Self::Interrupted(error) => error.classify(),
            Self::TooSoon(wait) => classified(Reason::Progressing, Class::Postponed(*wait)),
            Self::Content(error) => error.classify(),
            Self::Unresolved(_) => classified(Reason::Progressing, Class::TRANSIENT),
            Self::Bundle(error) | Self::HelmOp(error) => error.classify(),
        }
    }
}

impl ReconcileError {
    /// Whether a Bundle with the name exists that is not in the cache.
    pub fn is_uncached_bundle(&self) -> bool {
        matches!(self, Self::Bundle(error) if error.exists_already())
    }
}

#[cfg(test)]
mod tests {
    use helmops_core::bundle::Lookup;
    use helmops_kube::lease::NotLeading;
    use helmops_runtime::client::ApiError;
    use kube::core::Status;

    use super::*;

    fn api_error(code: u16) -> ApiError {
        let status = Status::failure("no", "reason").with_code(code);
        ApiError::from(kube::Error::Api(status.boxed()))
    }

    fn missing_key() -> MissingKey {
        MissingKey {
            secret: "tls-ca",
            key: "cacerts.pem",
        }
    }

    #[test]
    fn errors_of_the_api_server_are_transient_or_conflicts_or_rejections() {
        for (error, class) in [
            (ApiError::Timeout, Class::Outage),
            (ApiError::NotLeading(NotLeading), Class::Conflict),
            (api_error(409), Class::Conflict),
            (api_error(404), Class::TRANSIENT),
            (api_error(422), Class::Absent),
            (api_error(500), Class::Outage),
        ] {
            assert_eq!(error.classify(), classified(Reason::APIError, class), "{error}");
        }
    }

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let name = || "web".to_owned();
        let wait = Duration::from_secs(3);
        let deadline = ResolveError::Deadline { limit: wait };
        let lookup = Lookup {
            repo: String::new(),
            chart: name(),
            constraint: String::new(),
            filter: String::new(),
        };
        for (error, reason, class) in [
            (
                ReconcileError::OwnershipConflict(OwnershipConflict { name: name() }),
                Reason::BundleConflict,
                Class::Absent,
            ),
            (
                ReconcileError::InvalidBundle {
                    name: name(),
                    error: Unusable::Invalid(String::new()),
                },
                Reason::DecodeError,
                Class::Permanent,
            ),
            (
                ReconcileError::InvalidBundle {
                    name: name(),
                    error: Unusable::NotStored(String::new()),
                },
                Reason::MemoryExceeded,
                Class::Permanent,
            ),
            (
                ReconcileError::UnknownPolicies,
                Reason::Progressing,
                Class::Superseded,
            ),
            (
                ReconcileError::Resolve(Box::new(deadline)),
                Reason::Timeout,
                Class::TRANSIENT,
            ),
            (
                ReconcileError::RancherCa(missing_key()),
                Reason::InvalidSecret,
                Class::Permanent,
            ),
            (
                ReconcileError::Interrupted(Interrupted::Stopping),
                Reason::Progressing,
                Class::Superseded,
            ),
            (
                ReconcileError::Interrupted(Interrupted::LeadershipLost),
                Reason::Progressing,
                Class::Conflict,
            ),
            (ReconcileError::Superseded, Reason::Progressing, Class::Superseded),
            (
                ReconcileError::TooSoon(wait),
                Reason::Progressing,
                Class::Postponed(wait),
            ),
            (
                ReconcileError::Content(Box::new(ContentError::Unsupported)),
                Reason::ContentUnsupported,
                Class::Permanent,
            ),
            (
                ReconcileError::Unresolved(MissingVersion(lookup)),
                Reason::Progressing,
                Class::TRANSIENT,
            ),
            (
                ReconcileError::Bundle(CallError::of("write", "Bundle web")(api_error(409))),
                Reason::APIError,
                Class::Conflict,
            ),
            (
                ReconcileError::HelmOp(CallError::of("write the status of", "HelmOp web")(api_error(500))),
                Reason::APIError,
                Class::Outage,
            ),
            (
                ReconcileError::HelmOp(CallError::of("remove Fleet's finalizer from", "HelmOp web")(
                    ApiError::Timeout,
                )),
                Reason::APIError,
                Class::Outage,
            ),
        ] {
            assert_eq!(error.classify(), classified(reason, class), "{error}");
        }
    }
}

//! Errors of the bundle and cluster loops.

use std::{fmt, time::Duration};

use helmops_api::Bundle;
use helmops_core::{policy::Policies, reason::Reason, targeting::values::ValuesLimitExceeded};
use masterminds_semver::Version;
use thiserror::Error;

use crate::{backoff::BackoffPolicy, client::ApiError, retry_state::ClassifiedError, workers::Interrupted};

/// Why a Bundle could not be deployed to some or all of its clusters.
#[derive(Debug, Error)]
pub enum DeliveryError {
    /// The Policy cache is not synced.
    #[error("the Policy cache is not synced yet")]
    UnknownPolicies,
    /// The process stops, or has lost leadership.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A Secret or ConfigMap that is copied to clusters could not be read.
    #[error("{0}")]
    SourceUnreadable(String),
    /// An object that this controller does not manage has the name. No watch shows its deletion.
    #[error("{0}")]
    NameConflict(String),
    /// Rendering the values exceeded its time limit, so some clusters have none. The machine may be less busy later.
    #[error("{0}")]
    RenderTimeout(ValuesLimitExceeded),
    /// The cached object is older than the one in the API server.
    #[error("the cached {0} is stale")]
    Stale(String),
    /// An object could not be read or written.
    #[error("could not {operation} {object}: {source}")]
    Api {
        /// The operation, as a verb.
        operation: &'static str,
        /// The object.
        object: String,
        /// The cause.
        source: ApiError,
    },
}

impl ClassifiedError for DeliveryError {
    fn reason(&self) -> Reason {
        match self {
            Self::UnknownPolicies | Self::Interrupted(_) | Self::Stale(_) => Reason::Progressing,
            Self::NameConflict(_) => Reason::BundleConflict,
            Self::RenderTimeout(_) => Reason::NotReady,
            Self::SourceUnreadable(_) | Self::Api { .. } => Reason::APIError,
        }
    }

    fn backoff_policy(&self) -> Option<BackoffPolicy> {
        match self {
            Self::UnknownPolicies | Self::Interrupted(Interrupted::Stopping) => None,
            Self::Interrupted(Interrupted::LeadershipLost) | Self::Stale(_) => Some(BackoffPolicy::CONFLICT),
            Self::NameConflict(_) => Some(BackoffPolicy::SLOW),
            // Each retry takes as much processor time again.
            Self::RenderTimeout(_) => Some(BackoffPolicy::SLOW.at_least(Duration::from_mins(1))),
            Self::Api { .. } if self.is_benign() => Some(BackoffPolicy::CONFLICT),
            Self::SourceUnreadable(_) | Self::Api { .. } => Some(BackoffPolicy::TRANSIENT),
        }
    }

    fn is_benign(&self) -> bool {
        match self {
            Self::UnknownPolicies | Self::Interrupted(_) | Self::Stale(_) => true,
            Self::SourceUnreadable(_) | Self::NameConflict(_) | Self::RenderTimeout(_) => false,
            Self::Api { source, .. } => source.is_benign(),
        }
    }
}

impl DeliveryError {
    /// The error of an API call, from the operation (a verb) and the object.
    pub fn api(operation: &'static str, object: impl fmt::Display) -> impl FnOnce(ApiError) -> Self {
        move |source| Self::Api {
            operation,
            object: object.to_string(),
            source,
        }
    }

    /// Of several errors, the most severe one is logged and determines the backoff.
    pub fn severity(&self) -> u8 {
        match self {
            Self::UnknownPolicies | Self::Interrupted(_) => 0,
            Self::NameConflict(_) => 1,
            _ if self.is_benign() => 3,
            _ => 2,
        }
    }
}

/// Why a Bundle is deployed to no cluster until a user changes the Bundle or a Policy. Clusters keep what they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleBlocked {
    /// For the condition.
    pub reason: Reason,
    /// For the condition.
    pub message: String,
}

impl BundleBlocked {
    /// With the message of an error.
    pub fn new(reason: Reason, error: &impl fmt::Display) -> Self {
        Self {
            reason,
            message: error.to_string(),
        }
    }
}

/// Rejects Bundles that Policies forbid, whose version is not exact, or that contain files instead of a chart.
pub fn check(bundle: &Bundle, policies: &Policies) -> Result<(), BundleBlocked> {
    policies
        .check_bundle(bundle)
        .map_err(|errors| BundleBlocked::new(Reason::PolicyViolation, &errors))?;
    if !bundle.spec.resources.is_empty() {
        let message = "spec.resources: this Bundle contains files, which helmops does not deploy; use a HelmOp or Fleet's \
                       own controller";
        return Err(BundleBlocked::new(Reason::UnsupportedBundle, &message));
    }
    let helm = bundle
        .spec
        .options
        .helm
        .as_ref()
        .filter(|_| bundle.spec.helm_op_options.is_some());
    match helm.map(|helm| &*helm.version) {
        Some(version) if !version.is_empty() && !is_exact(version) => {
            let message = format!(
                "chart version cannot be deployed; check HelmOp status for more details: spec.helm.version: Invalid value: \
                 {version:?}: expected one exact version, such as 1.2.3"
            );
            Err(BundleBlocked::new(Reason::InvalidVersion, &message))
        }
        _ => Ok(()),
    }
}

fn is_exact(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    Version::parse_strict(version).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn blocked(spec: &Value) -> Option<BundleBlocked> {
        let object = json!({ "metadata": { "name": "web", "namespace": "fleet" }, "spec": spec });
        let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
        check(&bundle, &Policies::default()).err()
    }

    #[test]
    fn a_version_that_is_not_exact_is_rejected() {
        for version in ["1.2.3", "v1.2.3", "1.2.3-rc.1+b", ""] {
            let spec = json!({ "helmOpOptions": {}, "helm": { "chart": "web", "version": version } });
            assert_eq!(blocked(&spec), None, "{version}");
        }
        for version in ["1.x.x", "1.2", "^1", "vv1.2.3"] {
            let spec = json!({ "helmOpOptions": {}, "helm": { "chart": "web", "version": version } });
            let blocked = blocked(&spec).unwrap();
            assert_eq!(blocked.reason, Reason::InvalidVersion);
            assert!(
                blocked.message.contains("version cannot be deployed"),
                "{}",
                blocked.message
            );
            assert!(blocked.message.contains(version), "{}", blocked.message);
        }
        assert_eq!(
            blocked(&json!({ "helm": { "chart": "web", "version": "1.x" } })),
            None,
            "not the Bundle of a HelmOp"
        );
    }

    #[test]
    fn bundles_with_files_are_rejected() {
        let blocked = blocked(&json!({ "resources": [{ "name": "a.yaml" }] })).unwrap();
        assert_eq!(blocked.reason, Reason::UnsupportedBundle);
    }
}

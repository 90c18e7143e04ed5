//! Errors of the bundle loop.

use std::fmt;

use helm_index::is_complete_version;
use helmops_api::Bundle;
use helmops_core::{
    policy::Policies,
    targeting::{BlockClass, Blocked, chart_record::is_resolved, values::ValuesLimitExceeded},
};
use helmops_model::reason::Reason;
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, classified},
    workers::Interrupted,
};
use thiserror::Error;

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
    #[error(transparent)]
    Api(#[from] CallError),
}

impl ClassifiedError for DeliveryError {
    fn classify(&self) -> Classified {
        match self {
            Self::UnknownPolicies => classified(Reason::Progressing, Class::Superseded),
            Self::Interrupted(error) => error.classify(),
            Self::SourceUnreadable(_) => classified(Reason::APIError, Class::TRANSIENT),
            Self::NameConflict(_) => classified(Reason::BundleConflict, Class::Absent),
            Self::RenderTimeout(_) => classified(Reason::NotReady, Class::Expensive),
            Self::Stale(_) => classified(Reason::Progressing, Class::Conflict),
            Self::Api(error) => error.classify(),
        }
    }
}

impl DeliveryError {
    /// The error of a cluster that is blocked; `None` if it is not retried until a user changes an object that is watched.
    pub fn of_blocked(blocked: &Blocked) -> Option<Self> {
        let message = blocked.message.clone();
        match blocked.class {
            BlockClass::UntilChange => None,
            BlockClass::SourceUnreadable => Some(Self::SourceUnreadable(message)),
            BlockClass::NameConflict => Some(Self::NameConflict(message)),
        }
    }
}

/// Why a Bundle is deployed to no cluster until a user changes the Bundle or a Policy. Clusters keep what they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleBlocked {
    /// The reason for the condition of the Bundle.
    pub reason: Reason,
    /// The message for the condition of the Bundle.
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

/// Rejects Bundles that Policies forbid, whose version is not exact, or that contain files instead of a chart. The version of a target
/// concerns its clusters only: see [`TargetError::Version`](helmops_core::targeting::TargetError::Version).
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
        Some(version)
            if !version.is_empty()
                && !is_complete_version(version)
                && !is_resolved(bundle, &bundle.spec.options) =>
        {
            let message = format!(
                "chart version cannot be deployed; check HelmOp status for more details: spec.helm.version: Invalid value: \
                 {version:?}: expected one exact version, such as 1.2.3"
            );
            Err(BundleBlocked::new(Reason::InvalidVersion, &message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helmops_api::labels;
    use helmops_runtime::client::ApiError;
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

    /// Charts may have such versions, and Helm deploys them.
    #[test]
    fn a_version_of_two_numbers_is_exact_if_it_was_resolved() {
        let check = |requested: &str| {
            let record =
                json!([{ "repo": "https://h", "chart": "web", "constraint": "1.2", "version": "1.2" }]);
            let object = json!({
                "metadata": { "annotations": { labels::RESOLVED: record.to_string() } },
                "spec": { "helmOpOptions": {}, "helm": { "repo": "https://h", "chart": "web", "version": requested } },
            });
            let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
            check(&bundle, &Policies::default()).map_err(|blocked| blocked.reason)
        };
        assert_eq!(check("1.2"), Ok(()));
        assert_eq!(check("1.3"), Err(Reason::InvalidVersion));
    }

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let name = || "web".to_owned();
        let conflict = kube::core::Status::failure("changed", "Conflict").with_code(409);
        let conflict = kube::Error::Api(conflict.boxed());
        let exceeded = gotmpl::Exceeded::Time {
            limit: Duration::from_secs(2),
        };
        for (error, reason, class) in [
            (
                DeliveryError::UnknownPolicies,
                Reason::Progressing,
                Class::Superseded,
            ),
            (
                DeliveryError::Interrupted(Interrupted::Stopping),
                Reason::Progressing,
                Class::Superseded,
            ),
            (
                DeliveryError::Interrupted(Interrupted::LeadershipLost),
                Reason::Progressing,
                Class::Conflict,
            ),
            (
                DeliveryError::SourceUnreadable(name()),
                Reason::APIError,
                Class::TRANSIENT,
            ),
            (
                DeliveryError::NameConflict(name()),
                Reason::BundleConflict,
                Class::Absent,
            ),
            (
                DeliveryError::RenderTimeout(exceeded.into()),
                Reason::NotReady,
                Class::Expensive,
            ),
            (DeliveryError::Stale(name()), Reason::Progressing, Class::Conflict),
            (
                CallError::of("write", "Bundle web")(ApiError::Timeout).into(),
                Reason::APIError,
                Class::Outage,
            ),
            (
                CallError::of("write", "Bundle web")(conflict.into()).into(),
                Reason::APIError,
                Class::Conflict,
            ),
        ] {
            assert_eq!(error.classify(), classified(reason, class), "{error}");
        }
    }

    #[test]
    fn bundles_with_files_are_rejected() {
        let blocked = blocked(&json!({ "resources": [{ "name": "a.yaml" }] })).unwrap();
        assert_eq!(blocked.reason, Reason::UnsupportedBundle);
    }
}

//! What a deployment can lack, with Fleet's texts where it has one: users search for them.

use std::{collections::BTreeMap, fmt};

use helmops_model::deployment_state::DeploymentState;

use super::conditions::ERROR;
use crate::{
    dependencies::Unmet,
    state::{ForeignOwner, Pending},
};

/// Something that a deployment needs and that is missing, so that it is not attempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Bundles that must be in an accepted state first are not.
    Dependencies(Unmet),
    /// The records show a Helm operation in progress that this agent has not started.
    Busy(Pending),
    /// The release belongs to another owner.
    Foreign(ForeignOwner),
    /// The Secret with the values is missing.
    ValuesMissing {
        /// Its name, that of the BundleDeployment.
        secret: String,
    },
    /// The Secret has other values than the BundleDeployment. It is being replaced, or was changed by hand.
    ValuesChanged {
        /// The hash of its content.
        actual: String,
        /// `spec.valuesHash`.
        expected: String,
    },
    /// A Secret or ConfigMap of `downstreamResources` is missing.
    CopyMissing {
        /// `Secret` or `ConfigMap`.
        kind: String,
        /// Its namespace, that of the BundleDeployment.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// `downstreamResources` has an entry of another kind.
    CopyUnsupported {
        /// The kind.
        kind: String,
    },
    /// The namespace must exist, because `allowedTargetNamespaceSelector` is set.
    NamespaceMissing {
        /// Its name.
        namespace: String,
    },
    /// The namespace has not the labels of `allowedTargetNamespaceSelector`.
    NamespaceNotAllowed {
        /// Its name.
        namespace: String,
        /// The selector.
        selector: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// The namespace cannot be read.
    NamespaceUnknown {
        /// Its name.
        namespace: String,
        /// The error.
        error: String,
    },
    /// `allowedTargetNamespaceSelector` is invalid.
    InvalidNamespaceSelector {
        /// The error.
        error: String,
    },
}

impl From<Unmet> for Blocked {
    fn from(unmet: Unmet) -> Self {
        Self::Dependencies(unmet)
    }
}

impl Blocked {
    /// The reason of the condition `Deployed`. As in Fleet, only a wait for others has its own.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Dependencies(unmet) if unmet.is_wait() => DeploymentState::WaitingForDependency.as_str(),
            _ => ERROR,
        }
    }

    /// The text for an account that may not `verb` (`get` or `patch`) the namespace.
    pub fn namespace_forbidden(verb: &str, namespace: &str, error: &str) -> String {
        format!(
            "the deployment's service account is not allowed to {verb} namespace {namespace:?}; grant it '{verb}' on this \
             namespace (scoped via resourceNames) or remove namespaceLabels/namespaceAnnotations: {error}"
        )
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dependencies(unmet) => unmet.fmt(f),
            Self::Busy(Pending { revision, status }) => write!(
                f,
                "another Helm operation is in progress: revision {revision} is {status}. If none is running, delete the Secret of \
                 this revision, or run helm rollback"
            ),
            Self::Foreign(ForeignOwner::Unmanaged) => f.write_str(
                "the release exists and was not deployed by this agent; set helm.takeOwnership to take it over, or choose another \
                 helm.releaseName",
            ),
            Self::Foreign(ForeignOwner::BundleDeployment(name)) => {
                write!(f, "the release belongs to BundleDeployment {name}; choose another helm.releaseName")
            }
            Self::ValuesMissing { secret } => write!(
                f,
                "secrets {secret:?} not found: it has the Helm values, and the controller writes it next to the BundleDeployment"
            ),
            Self::ValuesChanged { actual, expected } => write!(
                f,
                "retrying, hash mismatch between secret and bundledeployment: actual {actual} != expected {expected}"
            ),
            Self::CopyMissing {
                kind,
                namespace,
                name,
            } => write!(
                f,
                "downstreamResources: {kind} {namespace}/{name} not found in the management cluster"
            ),
            Self::CopyUnsupported { kind } => {
                write!(
                    f,
                    "unknown resource type for copy to downstream cluster: {kind:?}"
                )
            }
            Self::NamespaceMissing { namespace } => {
                write!(
                    f,
                    "target namespace {namespace} does not exist on downstream cluster"
                )
            }
            Self::NamespaceNotAllowed {
                namespace,
                selector,
                labels,
            } => {
                let labels: Vec<_> = labels
                    .iter()
                    .map(|(key, value)| format!("{key}:{value}"))
                    .collect();
                write!(
                    f,
                    "target namespace {namespace} does not match AllowedTargetNamespaceSelector ({selector}); namespace labels \
                     map[{}]",
                    labels.join(" ")
                )
            }
            Self::NamespaceUnknown { namespace, error } => {
                write!(f, "failed to get target namespace {namespace}: {error}")
            }
            Self::InvalidNamespaceSelector { error } => {
                write!(f, "invalid AllowedTargetNamespaceSelector: {error}")
            }
        }
    }
}

//! Why a cluster is not imported.

use helmops_fetch::ExchangeError;
use helmops_join::{
    agent_objects::{InvalidManifests, NAME},
    customization::InvalidAgentOption,
    import::{kubeconfig::KubeconfigError, plan::Refusal},
};
use helmops_model::reason::Reason;
use helmops_runtime::{
    client::CallError,
    error_class::{Class, Classified, ClassifiedError, Scope, classified},
    workers::Interrupted,
};
use thiserror::Error;

use super::DEADLINE;

/// Why a cluster is not imported. No message has a credential.
#[derive(Debug, Error)]
pub enum ImportError {
    /// Agents have no address of this API server.
    #[error(
        "the controller does not know under which address agents reach this API server: set its flag --api-server-url, or the key \
         apiServerURL of Secret {0}"
    )]
    Unconfigured(String),
    /// The image of agents has no registry.
    #[error(
        "the image of agents is {0:?}, which container runtimes complete with a registry that is not yours: set the controller's flag \
         --agent-image (HELMOPS_AGENT_IMAGE) to an image with its registry, such as registry.example.com/helmops-agent:0.1.0"
    )]
    Image(String),
    /// The Secret must not be read, or holds something unusable.
    #[error("{0}")]
    Secret(String),
    /// The Secret does not exist.
    #[error("Secret {0} does not exist; create it, or correct spec.kubeConfigSecret")]
    SecretNotFound(String),
    /// The kubeconfig is not used.
    #[error("key value of Secret {secret}: {error}")]
    Kubeconfig {
        /// The Secret.
        secret: String,
        /// What is wrong.
        error: KubeconfigError,
    },
    /// A field of the Cluster is invalid.
    #[error(transparent)]
    Options(#[from] InvalidAgentOption),
    /// Another agent works on the cluster, or it is another cluster.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A `PriorityClass` of the cluster is from elsewhere.
    #[error(
        "PriorityClass {NAME} exists on the cluster with another value ({0}), and no import has created it; delete it there, or set \
         spec.agentSchedulingCustomization.priorityClass to the same"
    )]
    PriorityClass(i64),
    /// The API server of the cluster.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// It took too long.
    #[error("the API server of the cluster did not complete the import within {} s", DEADLINE.as_secs())]
    Deadline,
    /// Something that is created by another loop.
    #[error("waiting for {0}")]
    Waiting(String),
    /// Others were faster, again and again.
    #[error(
        "ClusterRoleBinding {NAME} of the cluster changes whenever it is about to be claimed; another controller may write it"
    )]
    Raced,
    /// The manifests in this program.
    #[error(transparent)]
    Manifests(#[from] InvalidManifests),
    /// An object of the management cluster.
    #[error(transparent)]
    Api(#[from] CallError),
    /// The wait for a permit was ended.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl ClassifiedError for ImportError {
    fn classify(&self) -> Classified {
        match self {
            Self::Unconfigured(_) | Self::Image(_) => {
                classified(Reason::ImportUnconfigured, Class::Permanent)
            }
            Self::SecretNotFound(_) => classified(Reason::SecretNotFound, Class::Permanent),
            Self::Secret(_)
            | Self::Kubeconfig {
                error: KubeconfigError::Invalid(_),
                ..
            } => classified(Reason::KubeConfigInvalid, Class::Permanent),
            Self::Kubeconfig {
                error: KubeconfigError::Unsafe { .. },
                ..
            } => classified(Reason::KubeConfigUnsafe, Class::Permanent),
            Self::Options(_) => classified(Reason::InvalidAgentOptions, Class::Permanent),
            Self::Refused(Refusal::Moved { .. }) => classified(Reason::ClusterMoved, Class::Absent),
            Self::Refused(_) | Self::PriorityClass(_) => classified(Reason::ImportRefused, Class::Absent),
            Self::Target(error) => classified(Reason::ImportFailed, error.class()),
            Self::Manifests(_) => classified(Reason::ImportFailed, Class::Absent),
            Self::Deadline | Self::Raced => classified(Reason::ImportFailed, Class::Transient(Scope::Host)),
            Self::Waiting(_) => classified(Reason::Importing, Class::TRANSIENT),
            Self::Api(error) => error.classify(),
            Self::Interrupted(error) => error.classify(),
        }
    }
}

/// A request to the API server of the cluster failed.
#[derive(Debug, Error)]
#[error("cannot {action} on the cluster at {server}: {failure}")]
pub struct TargetError {
    /// What was attempted.
    pub action: String,
    /// Scheme, host and port.
    pub server: String,
    /// Why it failed.
    pub failure: TargetFailure,
}

/// Why a request failed.
#[derive(Debug, Error)]
pub enum TargetFailure {
    /// There is no usable response.
    #[error("{0}")]
    NoResponse(Box<ExchangeError>),
    /// All responses together are too long.
    #[error("its responses have more than {} KiB together, which no agent needs", .0 >> 10)]
    TooMuch(usize),
    /// An error status.
    #[error("{message} ({status})")]
    Rejected {
        /// The status.
        status: u16,
        /// The message of the API server, or what is certain without it.
        message: String,
    },
    /// Something else than the object.
    #[error("the response is not that of an API server; check the address in the kubeconfig")]
    NotThatObject,
    /// The path is not one of a URL.
    #[error("the address of the API server in the kubeconfig cannot be extended by {0}")]
    Url(String),
}

impl TargetError {
    /// Whether another client was faster.
    pub const fn is_conflict(&self) -> bool {
        matches!(self.failure, TargetFailure::Rejected { status: 409, .. })
    }

    fn class(&self) -> Class {
        match &self.failure {
            TargetFailure::NoResponse(error) => error.class(),
            TargetFailure::Rejected { status, .. } if *status >= 500 || matches!(status, 408 | 409 | 429) => {
                Class::Transient(Scope::Host)
            }
            TargetFailure::TooMuch(_)
            | TargetFailure::Rejected { .. }
            | TargetFailure::NotThatObject
            | TargetFailure::Url(_) => Class::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A benign error is neither reported nor counted, so a cluster that always says it would be retried in silence.
    #[test]
    fn a_cluster_that_is_never_claimed_is_a_failure() {
        let raced = ImportError::Raced;
        assert!(!raced.is_benign());
        assert_eq!(raced.reason(), Reason::ImportFailed);
    }
}

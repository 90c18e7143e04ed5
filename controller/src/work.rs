//! The items of the workqueue: keys of HelmOps, Bundles, Clusters, Schedules and tokens, workspaces, and all Contents together.

use helmops_api::{Bundle, Cluster, ClusterRegistrationToken, Decoded, HelmOp, Schedule};
use helmops_runtime::queue;
use kube::runtime::reflector::ObjectRef;

/// Namespace and name of a HelmOp.
pub type HelmOpKey = ObjectRef<Decoded<HelmOp>>;
/// Namespace and name of a Bundle.
pub type BundleKey = ObjectRef<Decoded<Bundle>>;
/// Namespace and name of a Cluster.
pub type ClusterKey = ObjectRef<Decoded<Cluster>>;
/// Namespace and name of a Schedule.
pub type ScheduleKey = ObjectRef<Decoded<Schedule>>;
/// Namespace and name of a ClusterRegistrationToken.
pub type TokenKey = ObjectRef<Decoded<ClusterRegistrationToken>>;

/// An object to reconcile, by the loop of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Write its Bundle.
    HelmOp(HelmOpKey),
    /// Deploy it to its clusters.
    Bundle(BundleKey),
    /// Create its namespace, and update the counts and windows in its status.
    Cluster(ClusterKey),
    /// Install its agent by its kubeconfig.
    Import(ClusterKey),
    /// Update its status.
    Schedule(ScheduleKey),
    /// Make its Secret, or delete it.
    Token(TokenKey),
    /// Delete the Contents that nothing refers to any more.
    Contents,
    /// Decide about the ClusterRegistrations of this namespace, one after the other.
    Registrations(String),
}

/// How a change affects an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What it requests may be another thing: a user has changed it, or what it names.
    Request,
    /// What is observed has changed: its deployments, and what others report about them.
    State,
}

impl queue::QueueKey for Work {
    fn namespace(&self) -> &str {
        let namespace = match self {
            Self::HelmOp(key) => &key.namespace,
            Self::Bundle(key) => &key.namespace,
            Self::Cluster(key) | Self::Import(key) => &key.namespace,
            Self::Schedule(key) => &key.namespace,
            Self::Token(key) => &key.namespace,
            Self::Registrations(workspace) => return workspace,
            Self::Contents => return "",
        };
        namespace.as_deref().unwrap_or_default()
    }
}

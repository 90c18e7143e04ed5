//! The items of the workqueue: keys of HelmOps, Bundles and Clusters.

use helmops_api::{Bundle, Cluster, Decoded, HelmOp};
use helmops_runtime::queue;
use kube::runtime::reflector::ObjectRef;

/// Namespace and name of a HelmOp.
pub type HelmOpKey = ObjectRef<Decoded<HelmOp>>;
/// Namespace and name of a Bundle.
pub type BundleKey = ObjectRef<Decoded<Bundle>>;
/// Namespace and name of a Cluster.
pub type ClusterKey = ObjectRef<Decoded<Cluster>>;

/// An object to reconcile, by the loop of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Write its Bundle.
    HelmOp(HelmOpKey),
    /// Deploy it to its clusters.
    Bundle(BundleKey),
    /// Create its namespace, and update the counts in its status.
    Cluster(ClusterKey),
}

impl queue::QueueKey for Work {
    fn namespace(&self) -> &str {
        let namespace = match self {
            Self::HelmOp(key) => &key.namespace,
            Self::Bundle(key) => &key.namespace,
            Self::Cluster(key) => &key.namespace,
        };
        namespace.as_deref().unwrap_or_default()
    }
}

//! The items of the workqueue: keys of HelmOps, Bundles and Clusters.

use helmops_api::{Bundle, Cluster, Decoded, HelmOp, NamespacedName};
use kube::runtime::reflector::ObjectRef;

use crate::queue;

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

/// The key for a namespace and name.
pub fn key<K>(namespace: &str, name: &str) -> ObjectRef<K>
where
    K: kube::runtime::reflector::Lookup,
    K::DynamicType: Default,
{
    ObjectRef::new(name).within(namespace)
}

/// The namespace and name of a key.
pub fn name_of<K: kube::runtime::reflector::Lookup>(key: &ObjectRef<K>) -> NamespacedName {
    NamespacedName::new(key.namespace.as_deref().unwrap_or_default(), &*key.name)
}

/// The key of an object. It does not contain UID and resource version, which would take more memory than the name.
pub fn key_of<K>(object: &K) -> ObjectRef<K>
where
    K: kube::runtime::reflector::Lookup<DynamicType = ()>,
{
    let key = ObjectRef::new(&object.name().unwrap_or_default());
    match object.namespace() {
        Some(namespace) => key.within(&namespace),
        None => key,
    }
}

//! What is worked on: objects, each by its name.

use helmops_shared::api::{Bundle, Cluster, Decoded, HelmOp};
use kube::runtime::reflector::ObjectRef;

use crate::queue;

/// Names a HelmOp.
pub type HelmOpKey = ObjectRef<Decoded<HelmOp>>;
/// Names a Bundle.
pub type BundleKey = ObjectRef<Decoded<Bundle>>;
/// Names a Cluster.
pub type ClusterKey = ObjectRef<Decoded<Cluster>>;

/// An object that something is to be done about, by the loop of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// To its Bundle.
    HelmOp(HelmOpKey),
    /// To its clusters.
    Bundle(BundleKey),
    /// To its namespace, and to the numbers in its status.
    Cluster(ClusterKey),
}

impl queue::Object for Work {
    fn namespace(&self) -> &str {
        let namespace = match self {
            Self::HelmOp(key) => &key.namespace,
            Self::Bundle(key) => &key.namespace,
            Self::Cluster(key) => &key.namespace,
        };
        namespace.as_deref().unwrap_or_default()
    }
}

/// Names an object of a kind.
pub fn key<K>(namespace: &str, name: &str) -> ObjectRef<K>
where
    K: kube::runtime::reflector::Lookup,
    K::DynamicType: Default,
{
    ObjectRef::new(name).within(namespace)
}

/// Names an object. Its UID and version are no part of its name: they would cost more than it.
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

//! Keys of objects in caches and workqueues, and their names.

use helmops_api::NamespacedName;
use kube::runtime::reflector::{Lookup, ObjectRef};

/// The key for a namespace and name.
pub fn key<K>(namespace: &str, name: &str) -> ObjectRef<K>
where
    K: Lookup,
    K::DynamicType: Default,
{
    ObjectRef::new(name).within(namespace)
}

/// The namespace and name of a key.
pub fn name_of<K: Lookup>(key: &ObjectRef<K>) -> NamespacedName {
    NamespacedName::new(key.namespace.as_deref().unwrap_or_default(), &*key.name)
}

/// The key of an object. It does not contain UID and resource version, which would take more memory than the name.
pub fn key_of<K: Lookup<DynamicType = ()>>(object: &K) -> ObjectRef<K> {
    let key = ObjectRef::new(&object.name().unwrap_or_default());
    match object.namespace() {
        Some(namespace) => key.within(&namespace),
        None => key,
    }
}

//! Writes that the caches do not show yet.

use std::{collections::HashMap, hash::Hash, sync::Mutex};

use helmops_process::lock;
use kube::ResourceExt;

/// The resource versions that the last writes were based on, by object. A reconciliation that reads such a version from the cache
/// would do the same work again and get a conflict.
///
/// An entry is dropped when the cache has a newer version, or when the object is deleted.
#[derive(Debug)]
pub struct PendingWrites<K> {
    bases: Mutex<HashMap<K, String>>,
}

impl<K> Default for PendingWrites<K> {
    fn default() -> Self {
        Self {
            bases: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash> PendingWrites<K> {
    /// Records a write that changed an object from `base` to `new`.
    pub fn record<O: ResourceExt>(&self, key: K, base: &O, new: &O) {
        let version = |object: &O| object.resource_version().unwrap_or_default();
        // A write that changed nothing causes no watch event.
        if version(base) != version(new) {
            lock(&self.bases).insert(key, version(base));
        }
    }

    /// Whether the cached resource version is older than the last write.
    pub fn is_stale(&self, key: &K, cached: &str) -> bool {
        let mut bases = lock(&self.bases);
        let is_stale = bases.get(key).is_some_and(|base| base == cached);
        if !is_stale {
            bases.remove(key);
        }
        is_stale
    }

    /// Forgets a deleted object.
    pub fn forget(&self, key: &K) {
        lock(&self.bases).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;

    use super::*;

    fn version(version: &str) -> HelmOp {
        let mut helmop = HelmOp::default();
        helmop.metadata.resource_version = Some(version.to_owned());
        helmop
    }

    #[test]
    fn the_version_before_the_last_write_is_stale() {
        let pending = PendingWrites::default();
        assert!(!pending.is_stale(&"a", "1"));
        pending.record("a", &version("1"), &version("2"));
        assert!(pending.is_stale(&"a", "1"));
        assert!(!pending.is_stale(&"b", "1"));
        assert!(!pending.is_stale(&"a", "2"));
        assert!(!pending.is_stale(&"a", "1"), "dropped");
    }

    #[test]
    fn a_write_that_changes_nothing_is_not_pending() {
        let pending = PendingWrites::default();
        pending.record("a", &version("1"), &version("1"));
        assert!(!pending.is_stale(&"a", "1"));
        pending.record("a", &version("1"), &version("2"));
        pending.forget(&"a");
        assert!(!pending.is_stale(&"a", "1"));
    }
}

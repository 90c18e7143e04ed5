//! What was written and has not been seen yet.

use std::{collections::HashMap, hash::Hash, sync::Mutex};

use helmops_shared::runtime::lock;
use kube::ResourceExt;

/// The resource versions that the last writes were based on, by object: who still sees one of them would do the same work
/// once more, and be refused.
///
/// An entry is dropped when something newer is seen, or when its object is gone.
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
    /// Notes a write that was based on one state of an object and made another.
    pub fn wrote<O: ResourceExt>(&self, key: K, base: &O, new: &O) {
        let version = |object: &O| object.resource_version().unwrap_or_default();
        // A write that changed nothing is not followed by news.
        if version(base) != version(new) {
            lock(&self.bases).insert(key, version(base));
        }
    }

    /// Whether what is seen, with its resource version, is older than what was written.
    pub fn is_behind(&self, key: &K, seen: &str) -> bool {
        let mut bases = lock(&self.bases);
        let is_behind = bases.get(key).is_some_and(|base| base == seen);
        if !is_behind {
            bases.remove(key);
        }
        is_behind
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &K) {
        lock(&self.bases).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::HelmOp;

    use super::*;

    fn version(version: &str) -> HelmOp {
        let mut helmop = HelmOp::default();
        helmop.metadata.resource_version = Some(version.to_owned());
        helmop
    }

    #[test]
    fn what_was_written_over_is_old() {
        let written = PendingWrites::default();
        assert!(!written.is_behind(&"a", "1"));
        written.wrote("a", &version("1"), &version("2"));
        assert!(written.is_behind(&"a", "1"));
        assert!(!written.is_behind(&"b", "1"));
        assert!(!written.is_behind(&"a", "2"));
        assert!(!written.is_behind(&"a", "1"), "dropped");
    }

    #[test]
    fn a_write_that_changed_nothing_is_not_waited_for() {
        let written = PendingWrites::default();
        written.wrote("a", &version("1"), &version("1"));
        assert!(!written.is_behind(&"a", "1"));
        written.wrote("a", &version("1"), &version("2"));
        written.forget(&"a");
        assert!(!written.is_behind(&"a", "1"));
    }
}

//! Writes that the caches do not show yet.

use std::{collections::HashMap, hash::Hash, sync::Mutex, time::Duration};

use helmops_process::lock;
use kube::ResourceExt;
use tokio::time::Instant;

/// How long reconciliations wait for the cache. A watch that is interrupted for longer delays them no further: an agent keeps its releases
/// while it cannot reach the management cluster. What they write then fails with a conflict, because the version is outdated.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The resource versions that the last writes were based on, by object. A reconciliation that reads such a version from the cache
/// would do the same work again and get a conflict.
///
/// An entry is dropped when the cache has a newer version, when the object is deleted, or after some time.
#[derive(Debug)]
pub struct PendingWrites<K> {
    writes: Mutex<HashMap<K, Write>>,
}

#[derive(Debug)]
struct Write {
    /// The version that it was based on.
    base: String,
    at: Instant,
}

impl<K> Default for PendingWrites<K> {
    fn default() -> Self {
        Self {
            writes: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash> PendingWrites<K> {
    /// Records a write that changed an object from `base` to `new`.
    pub fn record<O: ResourceExt>(&self, key: K, base: &O, new: &O) {
        let version = |object: &O| object.resource_version().unwrap_or_default();
        // A write that changed nothing causes no watch event.
        if version(base) != version(new) {
            let (base, at) = (version(base), Instant::now());
            lock(&self.writes).insert(key, Write { base, at });
        }
    }

    /// Whether the cached resource version is older than the last write.
    pub fn is_stale(&self, key: &K, cached: &str) -> bool {
        let mut writes = lock(&self.writes);
        let is_pending = |write: &Write| write.base == cached && write.at.elapsed() < MAX_WAIT;
        let is_stale = writes.get(key).is_some_and(is_pending);
        if !is_stale {
            writes.remove(key);
        }
        is_stale
    }

    /// Forgets a deleted object.
    pub fn forget(&self, key: &K) {
        lock(&self.writes).remove(key);
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

    /// The management cluster may be unreachable for hours.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_interrupted_delays_reconciliations_for_some_time_only() {
        let pending = PendingWrites::default();
        pending.record("a", &version("1"), &version("2"));
        tokio::time::advance(MAX_WAIT / 2).await;
        assert!(pending.is_stale(&"a", "1"));
        tokio::time::advance(MAX_WAIT / 2).await;
        assert!(!pending.is_stale(&"a", "1"));
    }
}

//! Writes that the caches do not show yet.

use std::{collections::HashMap, hash::Hash, sync::Mutex, time::Duration};

use helmops_kube::ObservedVersion;
use helmops_process::lock;
use kube::{Resource, core::ObjectMeta};
use tokio::time::Instant;

/// How long reconciliations wait for the cache. A watch that is interrupted for longer delays them no further: an agent keeps its releases
/// while it cannot reach the management cluster. What they write then fails with a conflict, because the version is outdated.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The versions that the last writes resulted in, by object. A reconciliation that reads an older version from the cache would do the
/// same work again and get a conflict.
///
/// An entry is dropped when the cache has this version or a newer one, when the object is deleted, or after some time.
#[derive(Debug)]
pub struct PendingWrites<K> {
    writes: Mutex<HashMap<K, Write>>,
}

#[derive(Debug)]
struct Write {
    version: ObservedVersion,
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
    /// Records the response to a write.
    pub fn record<O: Resource>(&self, key: K, written: &O) {
        let (version, at) = (ObservedVersion::of(written.meta()), Instant::now());
        lock(&self.writes).insert(key, Write { version, at });
    }

    /// Whether the cached version is older than the last write.
    pub fn is_stale(&self, key: &K, cached: &ObjectMeta) -> bool {
        let cached = ObservedVersion::of(cached);
        let mut writes = lock(&self.writes);
        let is_pending = |write: &Write| cached.is_older(&write.version) && write.at.elapsed() < MAX_WAIT;
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

    fn is_stale(pending: &PendingWrites<&str>, key: &'static str, cached: &str) -> bool {
        pending.is_stale(&key, &version(cached).metadata)
    }

    #[test]
    fn a_version_before_the_last_write_is_stale() {
        let pending = PendingWrites::default();
        assert!(!is_stale(&pending, "a", "1"));
        pending.record("a", &version("2"));
        assert!(is_stale(&pending, "a", "1"));
        assert!(!is_stale(&pending, "b", "1"));
        assert!(!is_stale(&pending, "a", "2"));
        assert!(!is_stale(&pending, "a", "1"), "dropped");
    }

    /// A new Bundle gets a finalizer and then a status.
    #[test]
    fn the_version_before_two_writes_is_stale() {
        let pending = PendingWrites::default();
        pending.record("a", &version("11"));
        for cached in ["9", "10"] {
            assert!(is_stale(&pending, "a", cached), "{cached}");
        }
        assert!(!is_stale(&pending, "a", "12"), "another client wrote meanwhile");
    }

    #[test]
    fn an_object_that_was_created_again_is_not_stale() {
        let pending = PendingWrites::default();
        let with_uid = |uid: &str, number| {
            let mut helmop = version(number);
            helmop.metadata.uid = Some(uid.to_owned());
            helmop
        };
        pending.record("a", &with_uid("1", "2"));
        assert!(!pending.is_stale(&"a", &with_uid("2", "1").metadata));
    }

    #[test]
    fn a_write_that_changes_nothing_is_not_pending() {
        let pending = PendingWrites::default();
        pending.record("a", &version("1"));
        assert!(!is_stale(&pending, "a", "1"));
        pending.record("a", &version("2"));
        pending.forget(&"a");
        assert!(!is_stale(&pending, "a", "1"));
    }

    /// The management cluster may be unreachable for hours.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_interrupted_delays_reconciliations_for_some_time_only() {
        let pending = PendingWrites::default();
        pending.record("a", &version("2"));
        tokio::time::advance(MAX_WAIT / 2).await;
        assert!(is_stale(&pending, "a", "1"));
        tokio::time::advance(MAX_WAIT / 2).await;
        assert!(!is_stale(&pending, "a", "1"));
    }
}

//! How many bytes of charts are stored in the management cluster at most: all namespaces share one etcd.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use helmops_content::ContentId;
use helmops_core::content::StoredContent;
use helmops_fair::lock;
use helmops_runtime::workers::Namespace;

/// The limits of what is stored.
#[derive(Clone, Debug)]
pub struct ContentQuota {
    limit: u64,
    writes: Arc<Mutex<Writes>>,
}

#[derive(Debug, Default)]
struct Writes {
    /// The bytes that are being written.
    pending: BTreeMap<Namespace, u64>,
    /// The namespaces that contents were written for, as long as they are stored: also those that nothing refers to any more.
    written: BTreeMap<ContentId, BTreeSet<Namespace>>,
}

/// There is no room for a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverQuota {
    /// The bytes that are to be written.
    pub needed: u64,
    /// The bytes that are stored, or are being written.
    pub stored: u64,
    /// The bytes that may be stored.
    pub limit: u64,
    /// Whose limit it is.
    pub scope: QuotaScope,
}

/// Whose limit is exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaScope {
    /// That of all namespaces together.
    #[default]
    All,
    /// That of the namespace.
    Namespace,
    /// That of the namespace, which a Policy sets.
    Policy,
}

/// Room for what is being written, until it is dropped.
#[derive(Debug)]
pub struct Room {
    quota: ContentQuota,
    namespace: Namespace,
    bytes: u64,
}

impl ContentQuota {
    /// Of so many bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            writes: Arc::default(),
        }
    }

    /// Reserves room for a write of a namespace, beside what is `stored`, of which the namespace refers to `referenced`.
    ///
    /// # Errors
    /// If all namespaces together exceeded the limit with it, or this one its own: what its Policies `allow`, or half of the limit.
    pub fn reserve(
        &self,
        namespace: &Namespace,
        needed: u64,
        stored: &[StoredContent],
        referenced: &BTreeSet<ContentId>,
        allowed: Option<u64>,
    ) -> Result<Room, OverQuota> {
        let mut writes = lock(&self.writes);
        let ids: BTreeSet<_> = stored.iter().filter_map(StoredContent::id).collect();
        writes.written.retain(|id, _| ids.contains(id));
        let is_own = |id: &ContentId| {
            let namespaces = writes.written.get(id);
            referenced.contains(id) || namespaces.is_some_and(|namespaces| namespaces.contains(namespace))
        };
        let all: u64 = stored.iter().map(|object| object.bytes).sum();
        let own = stored
            .iter()
            .filter(|object| object.id().is_some_and(|id| is_own(&id)));
        let own: u64 = own.map(|object| object.bytes).sum();
        let pending: u64 = writes.pending.values().sum();
        let own_pending = writes.pending.get(namespace).copied().unwrap_or_default();
        let (own_limit, scope) = match allowed {
            Some(bytes) => (bytes, QuotaScope::Policy),
            None => (self.limit / 2, QuotaScope::Namespace),
        };
        for (stored, limit, scope) in [
            (own + own_pending, own_limit, scope),
            (all + pending, self.limit, QuotaScope::All),
        ] {
            if needed > 0 && stored.saturating_add(needed) > limit {
                return Err(OverQuota {
                    needed,
                    stored,
                    limit,
                    scope,
                });
            }
        }
        *writes.pending.entry(Namespace::clone(namespace)).or_default() += needed;
        Ok(Room {
            quota: self.clone(),
            namespace: Namespace::clone(namespace),
            bytes: needed,
        })
    }
}

impl Room {
    /// The content is written, and counts for its namespace as long as it is stored.
    pub fn fill(self, id: &ContentId) {
        let mut writes = lock(&self.quota.writes);
        let namespaces = writes.written.entry(id.clone()).or_default();
        namespaces.insert(Namespace::clone(&self.namespace));
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut writes = lock(&self.quota.writes);
        let left = writes.pending.get(&self.namespace).copied().unwrap_or_default();
        match left.saturating_sub(self.bytes) {
            0 => writes.pending.remove(&self.namespace),
            left => writes.pending.insert(Namespace::clone(&self.namespace), left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> ContentId {
        format!("s-{}", String::from(digit).repeat(61)).parse().unwrap()
    }

    fn stored(digit: char, bytes: u64) -> StoredContent {
        StoredContent {
            name: id(digit).to_string(),
            bytes,
            ..StoredContent::default()
        }
    }

    #[test]
    fn a_namespace_gets_half_and_all_together_no_more_than_the_limit() {
        let quota = ContentQuota::new(100);
        let (none, a) = (BTreeSet::new(), Namespace::from("a"));
        let over =
            |result: Result<Room, OverQuota>| result.err().map(|over| (over.stored, over.limit, over.scope));
        // What is being written counts.
        let room = quota.reserve(&a, 40, &[], &none, None).unwrap();
        assert_eq!(
            over(quota.reserve(&a, 11, &[], &none, None)),
            Some((40, 50, QuotaScope::Namespace))
        );
        let other = quota.reserve(&"b".into(), 50, &[], &none, None).unwrap();
        assert_eq!(
            over(quota.reserve(&"c".into(), 11, &[], &none, None)),
            Some((90, 100, QuotaScope::All))
        );
        drop(other);
        // What was written counts, whether something refers to it or not, until it is deleted.
        room.fill(&id('1'));
        let all = [stored('1', 40)];
        assert_eq!(
            over(quota.reserve(&a, 11, &all, &none, None)),
            Some((40, 50, QuotaScope::Namespace))
        );
        assert_eq!(over(quota.reserve(&"b".into(), 11, &all, &none, None)), None);
        assert_eq!(over(quota.reserve(&a, 50, &[], &none, None)), None);
        // So does what Bundles of the namespace refer to: also after a restart.
        let referenced = BTreeSet::from([id('2')]);
        let found = quota.reserve(&a, 31, &[stored('2', 20)], &referenced, None);
        assert_eq!(over(found), Some((20, 50, QuotaScope::Namespace)));
    }

    #[test]
    fn a_policy_sets_the_limit_of_its_namespace() {
        let quota = ContentQuota::new(100);
        let (none, a) = (BTreeSet::new(), Namespace::from("a"));
        let reserve = |needed, allowed| quota.reserve(&a, needed, &[], &none, Some(allowed));
        for (needed, allowed, expected) in [
            (11, 10, Some((10, QuotaScope::Policy))),
            (10, 10, None),
            (1, 0, Some((0, QuotaScope::Policy))),
            (80, 90, None),
            (101, 200, Some((100, QuotaScope::All))),
        ] {
            let over = reserve(needed, allowed)
                .err()
                .map(|over| (over.limit, over.scope));
            assert_eq!(over, expected, "{needed} of {allowed}");
        }
    }
}

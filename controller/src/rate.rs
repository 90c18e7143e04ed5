//! How often something may be done for one object.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_shared::runtime::lock;

/// How often something may be done in a row at once. Users who correct a Secret, a version and a URL one after the other see
/// what comes of each at once.
const BURST: u32 = 10;

/// From this number of objects on, those that have not done anything for a while are dropped.
const FEW: usize = 1_024;

/// A token bucket for each object: a burst at once, then one at a time in an interval.
///
/// There are entries for those objects alone that have used up a part of their burst, whether they still exist or not: an
/// object that is deleted and created again has no more than one that stays.
#[derive(Debug)]
pub struct RateLimit<K> {
    buckets: Mutex<Buckets<K>>,
}

#[derive(Debug)]
struct Buckets<K> {
    /// When each bucket is full again.
    full_at: HashMap<K, Instant>,
    /// The number of entries at which full ones are dropped next.
    prune_at: usize,
}

impl<K> Default for RateLimit<K> {
    fn default() -> Self {
        Self {
            buckets: Mutex::new(Buckets {
                full_at: HashMap::new(),
                prune_at: FEW,
            }),
        }
    }
}

impl<K: Eq + Hash> RateLimit<K> {
    /// Takes a token of an object's bucket, into which one comes back in each interval.
    ///
    /// # Errors
    /// The time until there is one, where there is none.
    pub fn take(&self, key: K, interval: Duration) -> Result<(), Duration> {
        self.take_at(key, interval, Instant::now())
    }

    fn take_at(&self, key: K, interval: Duration, now: Instant) -> Result<(), Duration> {
        let mut buckets = lock(&self.buckets);
        buckets.prune(now);
        let full_at = buckets.full_at.get(&key).copied().unwrap_or(now).max(now);
        let after = full_at + interval;
        let lacks = after.duration_since(now).saturating_sub(interval * BURST);
        if lacks.is_zero() {
            buckets.full_at.insert(key, after);
            Ok(())
        } else {
            Err(lacks)
        }
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Drops full buckets, at a cost that the calls since the last time have paid for.
    fn prune(&mut self, now: Instant) {
        if self.full_at.len() < self.prune_at {
            return;
        }
        self.full_at.retain(|_, full_at| *full_at > now);
        self.prune_at = FEW.max(self.full_at.len().saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    #[test]
    fn a_burst_passes_and_then_one_in_each_interval() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(limit.take_at("a", INTERVAL, start), Ok(()));
        }
        assert_eq!(limit.take_at("a", INTERVAL, start), Err(INTERVAL));
        assert_eq!(limit.take_at("b", INTERVAL, start), Ok(()), "of another object");
        let soon = start + Duration::from_secs(2);
        assert_eq!(limit.take_at("a", INTERVAL, soon), Err(Duration::from_secs(3)));
        // A minute of attempts, ten in each second.
        let attempts = (0..600).map(|tenth| start + Duration::from_millis(100 * tenth));
        let passed = attempts
            .filter(|now| limit.take_at("a", INTERVAL, *now).is_ok())
            .count();
        assert_eq!(passed, 11);
    }

    #[test]
    fn who_waits_as_long_as_told_is_served() {
        let (limit, mut now) = (RateLimit::default(), Instant::now());
        for _ in 0..100 {
            if let Err(wait) = limit.take_at("a", INTERVAL, now) {
                assert!(wait <= INTERVAL, "{wait:?}");
                now += wait;
                assert_eq!(limit.take_at("a", INTERVAL, now), Ok(()));
            }
        }
    }

    #[test]
    fn objects_that_have_done_nothing_for_a_while_take_no_memory() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        for second in 0..100_000 {
            let now = start + Duration::from_secs(second);
            assert_eq!(limit.take_at(second, INTERVAL, now), Ok(()));
        }
        let kept = lock(&limit.buckets).full_at.len();
        assert!(kept <= FEW, "{kept}");
    }
}

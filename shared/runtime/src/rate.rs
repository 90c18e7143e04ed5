//! A rate limit per object.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_process::lock;

/// The burst size. Users who correct a Secret, a version and a URL one after the other see the result of each immediately.
const BURST: u32 = 10;

/// Below this number of buckets, full ones are not dropped.
const MIN_PRUNE: usize = 1_024;

/// A token bucket for each object: a burst, then one token per interval.
///
/// Only objects that have used a part of their burst have an entry, whether they still exist or not: an object that is deleted
/// and created again gets no new burst.
#[derive(Debug)]
pub struct RateLimit<K> {
    buckets: Mutex<Buckets<K>>,
}

#[derive(Debug)]
struct Buckets<K> {
    /// The time at which each bucket is full again.
    full_at: HashMap<K, Instant>,
    /// The number of entries at which full buckets are dropped next.
    prune_at: usize,
}

impl<K> Default for RateLimit<K> {
    fn default() -> Self {
        Self {
            buckets: Mutex::new(Buckets {
                full_at: HashMap::new(),
                prune_at: MIN_PRUNE,
            }),
        }
    }
}

impl<K: Eq + Hash> RateLimit<K> {
    /// Takes a token from the bucket of an object, which gets one token back per interval.
    ///
    /// # Errors
    /// If there is no token; the error is the time until the next one.
    pub fn take(&self, key: K, interval: Duration) -> Result<(), Duration> {
        self.take_at(key, interval, Instant::now())
    }

    fn take_at(&self, key: K, interval: Duration, now: Instant) -> Result<(), Duration> {
        let mut buckets = lock(&self.buckets);
        buckets.prune(now);
        let full_at = buckets.full_at.get(&key).copied().unwrap_or(now).max(now);
        let after = full_at + interval;
        let wait = after.duration_since(now).saturating_sub(interval * BURST);
        if wait.is_zero() {
            buckets.full_at.insert(key, after);
            Ok(())
        } else {
            Err(wait)
        }
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Drops full buckets, at an amortised constant cost per call.
    fn prune(&mut self, now: Instant) {
        if self.full_at.len() < self.prune_at {
            return;
        }
        self.full_at.retain(|_, full_at| *full_at > now);
        self.prune_at = MIN_PRUNE.max(self.full_at.len().saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    #[test]
    fn a_burst_is_allowed_and_then_one_per_interval() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(limit.take_at("a", INTERVAL, start), Ok(()));
        }
        assert_eq!(limit.take_at("a", INTERVAL, start), Err(INTERVAL));
        assert_eq!(limit.take_at("b", INTERVAL, start), Ok(()), "another object");
        let soon = start + Duration::from_secs(2);
        assert_eq!(limit.take_at("a", INTERVAL, soon), Err(Duration::from_secs(3)));
        // A minute of attempts, ten in each second.
        let attempts = (0..600).map(|tenth| start + Duration::from_millis(100 * tenth));
        let allowed = attempts
            .filter(|now| limit.take_at("a", INTERVAL, *now).is_ok())
            .count();
        assert_eq!(allowed, 11);
    }

    #[test]
    fn after_the_returned_wait_a_token_is_available() {
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
    fn idle_objects_take_no_memory() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        for second in 0..100_000 {
            let now = start + Duration::from_secs(second);
            assert_eq!(limit.take_at(second, INTERVAL, now), Ok(()));
        }
        let kept = lock(&limit.buckets).full_at.len();
        assert!(kept <= MIN_PRUNE, "{kept}");
    }
}

//! Rate limits: token buckets, one alone or one for each key.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::lock;

/// Below this number of buckets, full ones are not dropped.
const MIN_PRUNE: usize = 1_024;

/// How many events are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Immediately, after a pause.
    pub burst: u32,
    /// One in each interval after that.
    pub interval: Duration,
}

/// A bucket of tokens, which fills up at a constant rate.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: Rate,
    full_at: FullAt,
}

/// When a bucket is full again; `None` if nothing was taken yet.
#[derive(Clone, Copy, Debug, Default)]
struct FullAt(Option<Instant>);

/// A token bucket for each key.
///
/// Only keys that have used a part of their burst have an entry, whether what they stand for still exists or not: an object
/// that is deleted and created again gets no new burst.
#[derive(Debug)]
pub struct RateLimit<K> {
    buckets: Mutex<Buckets<K>>,
}

#[derive(Debug)]
struct Buckets<K> {
    by_key: HashMap<K, FullAt>,
    /// The number of entries at which full buckets are dropped next.
    prune_at: usize,
}

impl TokenBucket {
    /// A full bucket.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            full_at: FullAt(None),
        }
    }

    /// Takes a token. A clock that goes back fills nothing.
    ///
    /// # Errors
    /// If there is none; the error is the time until the next one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.full_at.take(self.rate, now)
    }
}

impl FullAt {
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let after = self.0.map_or(now, |full_at| full_at.max(now)) + rate.interval;
        let wait = after
            .duration_since(now)
            .saturating_sub(rate.interval.saturating_mul(rate.burst));
        if wait.is_zero() {
            self.0 = Some(after);
            Ok(())
        } else {
            Err(wait)
        }
    }

    fn is_full(self, now: Instant) -> bool {
        self.0.is_none_or(|full_at| full_at <= now)
    }
}

impl<K> Default for RateLimit<K> {
    fn default() -> Self {
        Self {
            buckets: Mutex::new(Buckets {
                by_key: HashMap::new(),
                prune_at: MIN_PRUNE,
            }),
        }
    }
}

impl<K: Eq + Hash> RateLimit<K> {
    /// Takes a token from the bucket of a key.
    ///
    /// # Errors
    /// If there is none; the error is the time until the next one.
    pub fn take(&self, key: K, rate: Rate, now: Instant) -> Result<(), Duration> {
        let mut buckets = lock(&self.buckets);
        buckets.prune(now);
        buckets.by_key.entry(key).or_default().take(rate, now)
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Drops full buckets, at an amortised constant cost per call.
    fn prune(&mut self, now: Instant) {
        if self.by_key.len() < self.prune_at {
            return;
        }
        self.by_key.retain(|_, bucket| !bucket.is_full(now));
        self.prune_at = MIN_PRUNE.max(self.by_key.len().saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Rate = Rate {
        burst: 10,
        interval: Duration::from_secs(5),
    };

    #[test]
    fn a_burst_is_allowed_and_then_one_per_interval() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        for _ in 0..RATE.burst {
            assert_eq!(limit.take("a", RATE, start), Ok(()));
        }
        assert_eq!(limit.take("a", RATE, start), Err(RATE.interval));
        assert_eq!(limit.take("b", RATE, start), Ok(()), "another key");
        let soon = start + Duration::from_secs(2);
        assert_eq!(limit.take("a", RATE, soon), Err(Duration::from_secs(3)));
        // A minute of attempts, ten in each second.
        let attempts = (0..600).map(|tenth| start + Duration::from_millis(100 * tenth));
        let allowed = attempts.filter(|now| limit.take("a", RATE, *now).is_ok()).count();
        assert_eq!(allowed, 11);
    }

    #[test]
    fn a_clock_that_goes_back_fills_nothing() {
        let (mut bucket, start) = (TokenBucket::new(RATE), Instant::now());
        let later = start + Duration::from_hours(1);
        for _ in 0..RATE.burst {
            assert_eq!(bucket.take(later), Ok(()));
        }
        assert!(bucket.take(start).is_err());
    }

    #[test]
    fn idle_keys_take_no_memory() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        for second in 0..100_000 {
            let now = start + Duration::from_secs(second);
            assert_eq!(limit.take(second, RATE, now), Ok(()));
        }
        let kept = lock(&limit.buckets).by_key.len();
        assert!(kept <= MIN_PRUNE, "{kept}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// In any time no more is allowed than the burst, and the rate for the time; after the returned wait there is a token.
        #[test]
        fn a_flood_is_bounded(pauses in prop::collection::vec(0..5_000_u64, 1..400)) {
            let (mut bucket, start) = (TokenBucket::new(RATE), Instant::now());
            let (mut now, mut taken) = (start, 0.0);
            for pause in pauses {
                now += Duration::from_millis(pause);
                if let Err(wait) = bucket.take(now) {
                    prop_assert!(wait <= RATE.interval, "{wait:?}");
                    now += wait;
                    prop_assert_eq!(bucket.take(now), Ok(()));
                }
                taken += 1.0;
                let bound = 10.0 + (now - start).as_secs_f64() / 5.0;
                prop_assert!(taken <= bound + 1e-6, "{taken} in {:?}", now - start);
            }
        }
    }
}

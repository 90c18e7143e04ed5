//! The delay before a retry: exponential backoff for each object.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_process::{ExponentialBackoff, lock};

/// After a conflict with another client: it is retried as soon as the caches have caught up.
pub const CONFLICT: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_millis(100),
    max_delay: Duration::from_secs(5),
};

/// After errors that usually resolve themselves.
pub const TRANSIENT: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_mins(2),
};

/// After errors that last for a while.
pub const SLOW: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(5),
    max_delay: Duration::from_mins(5),
};

/// Consecutive failures by object. When the retry key of an object changes, the count starts again.
///
/// Each failed object has a retry due, which ends in success or in the deletion of the object. Both remove its entry, so there
/// are never more entries than objects.
#[derive(Debug)]
pub struct Backoff<K, R> {
    failures: Mutex<HashMap<K, Failures<R>>>,
}

#[derive(Debug)]
struct Failures<R> {
    retry_key: R,
    count: u32,
    until: Instant,
}

impl<K, R> Default for Backoff<K, R> {
    fn default() -> Self {
        Self {
            failures: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash, R: PartialEq> Backoff<K, R> {
    /// Records a failure and returns the delay: it doubles with each failure, and a random jitter shortens it by up to a quarter,
    /// so that objects that failed together are not retried together.
    pub fn failed(&self, key: K, retry_key: R, policy: ExponentialBackoff) -> Duration {
        self.failed_with(fastrand::f64(), key, retry_key, policy)
    }

    /// As [`Self::failed`]. `random` is between 0 and 1.
    fn failed_with(&self, random: f64, key: K, retry_key: R, policy: ExponentialBackoff) -> Duration {
        let mut failures = lock(&self.failures);
        let before = failures.get(&key).filter(|before| before.retry_key == retry_key);
        let count = before.map_or(0, |before| before.count);
        let delay = policy.after_with_jitter(count, random);
        let entry = Failures {
            retry_key,
            count: count.saturating_add(1),
            until: Instant::now() + delay,
        };
        failures.insert(key, entry);
        delay
    }

    /// The rest of the delay, if the object has failed and the delay is not over.
    pub fn remaining(&self, key: &K, retry_key: &R) -> Option<Duration> {
        let failures = lock(&self.failures);
        let failed = failures
            .get(key)
            .filter(|failed| failed.retry_key == *retry_key)?;
        failed.until.checked_duration_since(Instant::now())
    }

    /// Forgets an object's failures.
    pub fn forget(&self, key: &K) {
        lock(&self.failures).remove(key);
    }

    /// Forgets all failures.
    pub fn forget_all(&self) {
        lock(&self.failures).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_maximum_and_is_reset_after_success() {
        let backoff = Backoff::<_, u8>::default();
        let failed = |key, retry_key, policy| backoff.failed_with(0.0, key, retry_key, policy).as_secs();
        for seconds in [1, 2, 4, 8, 16, 32, 64, 120, 120] {
            assert_eq!(failed("a", 1, TRANSIENT), seconds);
        }
        assert_eq!(failed("b", 1, SLOW), 5);
        assert_eq!(failed("a", 2, TRANSIENT), 1);
        assert_eq!(failed("a", 2, TRANSIENT), 2);
        backoff.forget(&"a");
        assert_eq!(failed("a", 2, TRANSIENT), 1);
    }

    #[test]
    fn the_jitter_shortens_each_delay_by_up_to_a_quarter() {
        let backoff = Backoff::<_, u8>::default();
        let delays = [0.0, 0.5, 1.0].map(|random| {
            let delay = backoff.failed_with(random, "a", 1, TRANSIENT);
            delay.as_millis()
        });
        assert_eq!(delays, [1000, 1750, 3000]);
    }

    #[test]
    fn the_jitter_of_an_object_is_different_after_each_failure() {
        let backoff = Backoff::<_, u32>::default();
        let first_delays: std::collections::HashSet<_> = (0..8)
            .map(|retry_key| backoff.failed("a", retry_key, TRANSIENT))
            .collect();
        assert!(first_delays.len() > 1, "{first_delays:?}");
    }

    #[test]
    fn the_delay_applies_only_to_the_same_retry_key() {
        let backoff = Backoff::<_, u8>::default();
        assert_eq!(backoff.remaining(&"a", &1), None);
        let delay = backoff.failed("a", 1, SLOW);
        assert!(backoff.remaining(&"a", &1).is_some_and(|left| left <= delay));
        assert_eq!(backoff.remaining(&"a", &2), None);
        assert_eq!(backoff.remaining(&"b", &1), None);
        backoff.forget_all();
        assert_eq!(backoff.remaining(&"a", &1), None);
    }
}

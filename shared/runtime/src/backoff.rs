//! The delay before a retry: exponential backoff for each object.

use std::{collections::HashMap, hash::Hash, sync::Mutex, time::Duration};

use helmops_process::{ExponentialBackoff, lock};
use tokio::time::Instant;

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
/// Failures of different policies count separately: what lasts for a while must not delay the retry of what resolves itself. A failure
/// before the delay is over does not count, since a change of another object has caused that attempt, and does not delay the retry.
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
    /// One for each policy.
    series: Vec<Series>,
}

/// Consecutive failures of a policy.
#[derive(Debug)]
struct Series {
    policy: ExponentialBackoff,
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
    /// Records a failure and returns the time until the retry: it doubles with each failure, and a random jitter shortens it by up to a
    /// quarter, so that objects that failed together are not retried together.
    pub fn failed(&self, key: K, retry_key: R, policy: ExponentialBackoff) -> Duration {
        self.failed_at(Instant::now(), fastrand::f64(), key, retry_key, policy)
    }

    /// As [`Self::failed`]. `random` is between 0 and 1.
    fn failed_at(
        &self,
        now: Instant,
        random: f64,
        key: K,
        retry_key: R,
        policy: ExponentialBackoff,
    ) -> Duration {
        let mut failures = lock(&self.failures);
        let before = failures
            .remove(&key)
            .filter(|before| before.retry_key == retry_key);
        let mut series = before.map(|before| before.series).unwrap_or_default();
        let delay = if let Some(known) = series.iter_mut().find(|series| series.policy == policy) {
            known.failed(now, random)
        } else {
            let mut new = Series::new(policy, now);
            let delay = new.failed(now, random);
            series.push(new);
            delay
        };
        failures.insert(key, Failures { retry_key, series });
        delay
    }

    /// The rest of the longest delay, if the object has failed and the delay is not over.
    pub fn remaining(&self, key: &K, retry_key: &R) -> Option<Duration> {
        let failures = lock(&self.failures);
        let failed = failures
            .get(key)
            .filter(|failed| failed.retry_key == *retry_key)?;
        let until = failed.series.iter().map(|series| series.until).max()?;
        until.checked_duration_since(Instant::now())
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

impl Series {
    const fn new(policy: ExponentialBackoff, now: Instant) -> Self {
        Self {
            policy,
            count: 0,
            until: now,
        }
    }

    fn failed(&mut self, now: Instant, random: f64) -> Duration {
        if now < self.until {
            return self.until - now;
        }
        let delay = self.policy.after_with_jitter(self.count, random);
        self.count = self.count.saturating_add(1);
        self.until = now + delay;
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each failure is the retry after the one before.
    struct Retries {
        backoff: Backoff<&'static str, u8>,
        now: Instant,
    }

    impl Retries {
        fn new() -> Self {
            Self {
                backoff: Backoff::default(),
                now: Instant::now(),
            }
        }

        fn failed(&mut self, random: f64, retry_key: u8, policy: ExponentialBackoff) -> Duration {
            let delay = self.backoff.failed_at(self.now, random, "a", retry_key, policy);
            self.now += delay;
            delay
        }
    }

    #[test]
    fn the_delay_doubles_up_to_the_maximum_and_is_reset_after_success() {
        let mut retries = Retries::new();
        for seconds in [1, 2, 4, 8, 16, 32, 64, 120, 120] {
            assert_eq!(retries.failed(0.0, 1, TRANSIENT), Duration::from_secs(seconds));
        }
        assert_eq!(retries.failed(0.0, 2, TRANSIENT), Duration::from_secs(1));
        assert_eq!(retries.failed(0.0, 2, TRANSIENT), Duration::from_secs(2));
        retries.backoff.forget(&"a");
        assert_eq!(retries.failed(0.0, 2, TRANSIENT), Duration::from_secs(1));
    }

    #[test]
    fn failures_of_different_policies_count_separately() {
        let mut retries = Retries::new();
        for seconds in [5, 10, 20, 40] {
            assert_eq!(retries.failed(0.0, 1, SLOW), Duration::from_secs(seconds));
        }
        let conflict = |retries: &Retries| retries.backoff.failed_at(retries.now, 0.0, "a", 1, CONFLICT);
        assert_eq!(conflict(&retries), Duration::from_millis(100));
        assert_eq!(retries.failed(0.0, 1, SLOW), Duration::from_secs(80));
        assert_eq!(conflict(&retries), Duration::from_millis(200));
        let left = retries.backoff.remaining(&"a", &1).unwrap();
        assert!(left > Duration::from_mins(1), "{left:?}");
    }

    #[test]
    fn a_failure_before_the_retry_neither_counts_nor_delays_it() {
        let mut retries = Retries::new();
        let failed = retries.now;
        assert_eq!(retries.failed(0.0, 1, SLOW), Duration::from_secs(5));
        for seconds in [1, 3, 4] {
            retries.now = failed + Duration::from_secs(seconds);
            assert_eq!(retries.failed(0.0, 1, SLOW), Duration::from_secs(5 - seconds));
        }
        assert_eq!(retries.failed(0.0, 1, SLOW), Duration::from_secs(10));
    }

    #[test]
    fn the_jitter_shortens_each_delay_by_up_to_a_quarter() {
        let mut retries = Retries::new();
        let delays = [0.0, 0.5, 1.0].map(|random| retries.failed(random, 1, TRANSIENT).as_millis());
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

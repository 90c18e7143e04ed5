//! The delay before a retry: exponential backoff for each object.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_process::lock;

/// The delays after consecutive failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// Delay after the first failure. Each further failure doubles it.
    pub initial_delay: Duration,
    /// Maximum delay.
    pub max_delay: Duration,
}

impl BackoffPolicy {
    /// A conflict with another client: retried as soon as the caches have caught up.
    pub const CONFLICT: Self = Self {
        initial_delay: Duration::from_millis(100),
        max_delay: Duration::from_secs(5),
    };
    /// Errors that usually resolve themselves.
    pub const TRANSIENT: Self = Self {
        initial_delay: Duration::from_secs(1),
        max_delay: Duration::from_mins(2),
    };
    /// Errors that last for a while.
    pub const SLOW: Self = Self {
        initial_delay: Duration::from_secs(5),
        max_delay: Duration::from_mins(5),
    };

    /// The same policy, with a delay of at least `least`.
    #[must_use]
    pub fn at_least(self, least: Duration) -> Self {
        Self {
            initial_delay: self.initial_delay.max(least),
            max_delay: self.max_delay.max(least),
            ..self
        }
    }

    /// The delay after a failure that follows `failures` others.
    pub fn after(self, failures: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failures);
        self.initial_delay.saturating_mul(factor).min(self.max_delay)
    }
}

/// Consecutive failures by object. When the retry key of an object changes, the count starts again.
///
/// Each failed object has a retry due, which ends in success or in the deletion of the object. Both remove its entry, so there
/// are never more entries than objects.
#[derive(Debug)]
pub struct Backoff<K, R> {
    failures: Mutex<HashMap<K, Failures<R>>>,
    random: RandomState,
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
            random: RandomState::new(),
        }
    }
}

impl<K: Eq + Hash, R: PartialEq> Backoff<K, R> {
    /// Records a failure and returns the delay: it doubles with each failure, and a random jitter shortens it by up to a quarter,
    /// so that objects that failed together are not retried together.
    pub fn failed(&self, key: K, retry_key: R, policy: BackoffPolicy) -> Duration {
        let random = self.random.hash_one(&key) % 256;
        let mut failures = lock(&self.failures);
        let before = failures.get(&key).filter(|before| before.retry_key == retry_key);
        let count = before.map_or(0, |before| before.count);
        let delay = policy.after(count);
        let jitter = u32::try_from(random).unwrap_or_default();
        let delay = delay.saturating_sub(delay / 4 / 256 * jitter);
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
        let within = |delay: Duration, whole: u64| {
            let whole = Duration::from_secs(whole);
            assert!(delay <= whole && delay >= whole * 3 / 4, "{delay:?} of {whole:?}");
        };
        for whole in [1, 2, 4, 8, 16, 32, 64, 120, 120] {
            within(backoff.failed("a", 1, BackoffPolicy::TRANSIENT), whole);
        }
        within(backoff.failed("b", 1, BackoffPolicy::SLOW), 5);
        within(backoff.failed("a", 2, BackoffPolicy::TRANSIENT), 1);
        within(backoff.failed("a", 2, BackoffPolicy::TRANSIENT), 2);
        backoff.forget(&"a");
        within(backoff.failed("a", 2, BackoffPolicy::TRANSIENT), 1);
    }

    #[test]
    fn the_delay_applies_only_to_the_same_retry_key() {
        let backoff = Backoff::<_, u8>::default();
        assert_eq!(backoff.remaining(&"a", &1), None);
        let delay = backoff.failed("a", 1, BackoffPolicy::SLOW);
        assert!(backoff.remaining(&"a", &1).is_some_and(|left| left <= delay));
        assert_eq!(backoff.remaining(&"a", &2), None);
        assert_eq!(backoff.remaining(&"b", &1), None);
        backoff.forget_all();
        assert_eq!(backoff.remaining(&"a", &1), None);
    }
}

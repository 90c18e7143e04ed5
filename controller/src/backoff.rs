//! How long to wait before the next try.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_shared::runtime::lock;

/// How a kind of failure is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// After the first failure; each further one doubles it.
    pub first: Duration,
    /// At the longest.
    pub longest: Duration,
}

impl Pace {
    /// Somebody else was quicker: look again as soon as the news is here.
    pub const CONFLICT: Self = Self {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(5),
    };
    /// What usually passes by itself.
    pub const TRANSIENT: Self = Self {
        first: Duration::from_secs(1),
        longest: Duration::from_mins(2),
    };
    /// What somebody has to mend or publish first.
    pub const SLOW: Self = Self {
        first: Duration::from_secs(5),
        longest: Duration::from_mins(5),
    };

    /// The same pace, but no earlier than after `least`.
    #[must_use]
    pub fn at_least(self, least: Duration) -> Self {
        Self {
            first: self.first.max(least),
            longest: self.longest.max(least),
        }
    }

    /// How long to wait after a failure, `failures` others before it.
    pub fn after(self, failures: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failures);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// Failures in a row by object, each in doing something: whatever else is asked begins anew.
///
/// An object that fails has a retry due that ends in success or in its disappearance, and either forgets it; so there are
/// never more entries than objects.
#[derive(Debug)]
pub struct Backoff<K, W> {
    failures: Mutex<HashMap<K, Failures<W>>>,
    random: RandomState,
}

#[derive(Debug)]
struct Failures<W> {
    what: W,
    count: u32,
    until: Instant,
}

impl<K, W> Default for Backoff<K, W> {
    fn default() -> Self {
        Self {
            failures: Mutex::default(),
            random: RandomState::new(),
        }
    }
}

impl<K: Eq + Hash, W: PartialEq> Backoff<K, W> {
    /// Notes a failure and gives the time to wait: doubling from failure to failure, and up to a quarter shorter by
    /// chance, so that what failed together is not retried together.
    pub fn failed(&self, key: K, what: W, pace: Pace) -> Duration {
        let chance = self.random.hash_one(&key) % 256;
        let mut failures = lock(&self.failures);
        let before = failures.get(&key).filter(|before| before.what == what);
        let count = before.map_or(0, |before| before.count);
        let delay = pace.after(count);
        let shorter = u32::try_from(chance).unwrap_or_default();
        let delay = delay.saturating_sub(delay / 4 / 256 * shorter);
        let entry = Failures {
            what,
            count: count.saturating_add(1),
            until: Instant::now() + delay,
        };
        failures.insert(key, entry);
        delay
    }

    /// How long it is still too early to try again, if it has failed.
    pub fn remaining(&self, key: &K, what: &W) -> Option<Duration> {
        let failures = lock(&self.failures);
        let failed = failures.get(key).filter(|failed| failed.what == *what)?;
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
    fn doubles_up_to_the_longest_and_starts_anew_after_success() {
        let backoff = Backoff::<_, u8>::default();
        let within = |delay: Duration, whole: u64| {
            let whole = Duration::from_secs(whole);
            assert!(delay <= whole && delay >= whole * 3 / 4, "{delay:?} of {whole:?}");
        };
        for whole in [1, 2, 4, 8, 16, 32, 64, 120, 120] {
            within(backoff.failed("a", 1, Pace::TRANSIENT), whole);
        }
        within(backoff.failed("b", 1, Pace::SLOW), 5);
        within(backoff.failed("a", 2, Pace::TRANSIENT), 1);
        within(backoff.failed("a", 2, Pace::TRANSIENT), 2);
        backoff.forget(&"a");
        within(backoff.failed("a", 2, Pace::TRANSIENT), 1);
    }

    #[test]
    fn it_is_too_early_for_the_same_thing_alone() {
        let backoff = Backoff::<_, u8>::default();
        assert_eq!(backoff.remaining(&"a", &1), None);
        let delay = backoff.failed("a", 1, Pace::SLOW);
        assert!(backoff.remaining(&"a", &1).is_some_and(|left| left <= delay));
        assert_eq!(backoff.remaining(&"a", &2), None);
        assert_eq!(backoff.remaining(&"b", &1), None);
        backoff.forget_all();
        assert_eq!(backoff.remaining(&"a", &1), None);
    }
}

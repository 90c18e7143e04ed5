//! How long to wait before the next try.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::Mutex,
    time::Duration,
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
}

impl Pace {
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

/// Failures in a row of what an object asks for, by object. Each failing object has a retry due that ends in success or
/// in its disappearance, and either forgets it; so there are never more entries than objects.
#[derive(Debug)]
pub struct Backoff<K> {
    failures: Mutex<HashMap<K, Failures>>,
    random: RandomState,
}

#[derive(Debug, Default)]
struct Failures {
    generation: Option<i64>,
    count: u32,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self {
            failures: Mutex::default(),
            random: RandomState::new(),
        }
    }
}

impl<K: Eq + Hash> Backoff<K> {
    /// Notes a failure and gives the time to wait: doubling from failure to failure, and up to a quarter shorter by
    /// chance, so that what failed together is not retried together. It begins anew with a new generation of the object.
    pub fn failed(&self, key: K, generation: Option<i64>, pace: Pace) -> Duration {
        let chance = self.random.hash_one(&key) % 256;
        let mut failures = lock(&self.failures);
        let entry = failures.entry(key).or_default();
        if entry.generation != generation {
            *entry = Failures { generation, count: 0 };
        }
        let delay = pace.after(entry.count);
        entry.count = entry.count.saturating_add(1);
        let shorter = u32::try_from(chance).unwrap_or_default();
        delay.saturating_sub(delay / 4 / 256 * shorter)
    }

    /// Forgets an object's failures.
    pub fn forget(&self, key: &K) {
        lock(&self.failures).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_and_starts_anew_after_success() {
        let backoff = Backoff::default();
        let within = |delay: Duration, whole: u64| {
            let whole = Duration::from_secs(whole);
            assert!(delay <= whole && delay >= whole * 3 / 4, "{delay:?} of {whole:?}");
        };
        for whole in [1, 2, 4, 8, 16, 32, 64, 120, 120] {
            within(backoff.failed("a", Some(1), Pace::TRANSIENT), whole);
        }
        within(backoff.failed("b", Some(1), Pace::SLOW), 5);
        within(backoff.failed("a", Some(2), Pace::TRANSIENT), 1);
        within(backoff.failed("a", Some(2), Pace::TRANSIENT), 2);
        backoff.forget(&"a");
        within(backoff.failed("a", Some(2), Pace::TRANSIENT), 1);
    }
}

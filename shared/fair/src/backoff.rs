//! Backoff after failures: from a number of failures to a delay ([`ExponentialBackoff`]), and the failures of each key
//! ([`KeyedBackoff`]). The current time and chance are parameters.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::lock;

/// The part of a delay by which the jitter shortens it at most (1/`JITTER`).
const JITTER: u32 = 4;

/// Exponential backoff: the delay doubles with each failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExponentialBackoff {
    /// Delay after the first failure.
    pub initial_delay: Duration,
    /// Maximum delay.
    pub max_delay: Duration,
}

impl ExponentialBackoff {
    /// The delay after a failure that follows `failures` others.
    pub fn after(self, failures: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failures);
        self.initial_delay.saturating_mul(factor).min(self.max_delay)
    }

    /// As [`Self::after`], but up to a quarter shorter, so that what failed together is not retried together. `random` is
    /// between 0 and 1, and different for each failure.
    pub fn after_with_jitter(self, failures: u32, random: f64) -> Duration {
        let delay = self.after(failures);
        delay.saturating_sub((delay / JITTER).mul_f64(random))
    }

    /// The same delay after each failure.
    pub const fn constant(delay: Duration) -> Self {
        Self {
            initial_delay: delay,
            max_delay: delay,
        }
    }

    /// The same backoff, where the delay after this failure is `least` at least.
    pub const fn at_least(self, least: Duration) -> AtLeast {
        AtLeast { policy: self, least }
    }
}

/// A backoff after a failure that says how long to wait at least, such as one with `Retry-After`.
///
/// The time is not part of the policy: the other side chooses it, and failures with different times count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtLeast {
    /// The policy by which failures count.
    pub policy: ExponentialBackoff,
    /// The minimum delay after this failure.
    pub least: Duration,
}

impl From<ExponentialBackoff> for AtLeast {
    fn from(policy: ExponentialBackoff) -> Self {
        policy.at_least(Duration::ZERO)
    }
}

/// Consecutive failures by key, with what is known of each.
///
/// Failures of different policies count separately: what lasts for a while must not delay the retry of what resolves itself.
/// A failure before the delay of its policy is over does not count, and delays the retry only by what it requests itself
/// ([`AtLeast`]): other attempts that failed at the same time, or a change of something else, have caused it.
///
/// The number of keys is limited. Above it, the key whose delay ends first, or ended longest ago, is forgotten. A key remembers an
/// entry for each policy that grows, so that these must not depend on what others send: [`AtLeast`] is for that.
#[derive(Debug)]
pub struct KeyedBackoff<K, V> {
    max_keys: usize,
    keys: Mutex<HashMap<K, Vec<Series<V>>>>,
}

/// Consecutive failures of a policy.
#[derive(Debug)]
struct Series<V> {
    policy: ExponentialBackoff,
    count: u32,
    until: Instant,
    value: V,
}

impl<K: Clone + Eq + Hash, V> KeyedBackoff<K, V> {
    /// No failures yet. `max_keys` is `usize::MAX` where something else limits their number.
    pub fn new(max_keys: usize) -> Self {
        Self {
            max_keys,
            keys: Mutex::default(),
        }
    }

    /// Records a failure, with what is known of it, and returns the time until the retry: it doubles with each failure, and a
    /// jitter shortens it by up to a quarter, but not below the time of [`AtLeast`]. `random` is between 0 and 1, and different for
    /// each failure.
    pub fn failed(
        &self,
        key: K,
        value: V,
        policy: impl Into<AtLeast>,
        random: f64,
        now: Instant,
    ) -> Duration {
        let AtLeast { policy, least } = policy.into();
        let mut keys = lock(&self.keys);
        if keys.len() >= self.max_keys && !keys.contains_key(&key) {
            let first = keys.iter().min_by_key(|(_, all)| end(all));
            let first = first.map(|(first, _)| first.clone());
            first.and_then(|first| keys.remove(&first));
        }
        let all = keys.entry(key).or_default();
        // What does not grow has nothing to remember after its delay.
        all.retain(|series| series.policy.initial_delay < series.policy.max_delay || now < series.until);
        if let Some(known) = all.iter_mut().find(|series| series.policy == policy) {
            known.value = value;
            return known.failed(least, now, random);
        }
        let mut new = Series {
            policy,
            count: 0,
            until: now,
            value,
        };
        let delay = new.failed(least, now, random);
        all.push(new);
        delay
    }

    /// What failed, and the rest of the delay; `None` if no delay of the key lasts. Of several, the one that ends last.
    pub fn remaining(&self, key: &K, now: Instant) -> Option<(V, Duration)>
    where
        V: Clone,
    {
        let keys = lock(&self.keys);
        let last = keys.get(key)?.iter().max_by_key(|series| series.until)?;
        let rest = last
            .until
            .checked_duration_since(now)
            .filter(|rest| !rest.is_zero())?;
        Some((last.value.clone(), rest))
    }

    /// Forgets the failures of a key for which `keep` is false. It gets what is known of each, and whether its delay lasts.
    pub fn retain(&self, key: &K, now: Instant, mut keep: impl FnMut(&V, bool) -> bool) {
        let mut keys = lock(&self.keys);
        if let Some(all) = keys.get_mut(key) {
            all.retain(|series| keep(&series.value, now < series.until));
            if all.is_empty() {
                keys.remove(key);
            }
        }
    }

    /// Forgets the failures of a key.
    pub fn forget(&self, key: &K) {
        lock(&self.keys).remove(key);
    }

    /// Forgets all failures.
    pub fn forget_all(&self) {
        lock(&self.keys).clear();
    }
}

/// When the last delay of a key ends.
fn end<V>(all: &[Series<V>]) -> Option<Instant> {
    all.iter().map(|series| series.until).max()
}

impl<V> Series<V> {
    fn failed(&mut self, least: Duration, now: Instant, random: f64) -> Duration {
        if now >= self.until {
            self.until = now + self.policy.after_with_jitter(self.count, random);
            self.count = self.count.saturating_add(1);
        }
        self.until = self.until.max(now + least);
        self.until - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: ExponentialBackoff = ExponentialBackoff {
        initial_delay: Duration::from_secs(1),
        max_delay: Duration::from_secs(10),
    };

    fn seconds(backoff: ExponentialBackoff) -> [u64; 6] {
        [0, 1, 2, 3, 4, u32::MAX].map(|failures| backoff.after(failures).as_secs())
    }

    #[test]
    fn the_delay_doubles_up_to_the_maximum() {
        assert_eq!(seconds(BACKOFF), [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn the_jitter_shortens_a_delay_by_up_to_a_quarter() {
        let delays = [0.0, 0.5, 1.0].map(|random| BACKOFF.after_with_jitter(2, random).as_millis());
        assert_eq!(delays, [4000, 3500, 3000]);
    }

    const SLOW: ExponentialBackoff = ExponentialBackoff {
        initial_delay: Duration::from_secs(5),
        max_delay: Duration::from_mins(5),
    };
    const FAST: ExponentialBackoff = ExponentialBackoff {
        initial_delay: Duration::from_millis(100),
        max_delay: Duration::from_secs(5),
    };

    /// The failures of one key: each is that of the retry after the one before.
    struct Retries {
        backoff: KeyedBackoff<&'static str, u8>,
        now: Instant,
    }

    impl Retries {
        fn new() -> Self {
            Self {
                backoff: KeyedBackoff::new(usize::MAX),
                now: Instant::now(),
            }
        }

        fn failed(&mut self, random: f64, policy: impl Into<AtLeast>) -> Duration {
            let delay = self.backoff.failed("a", 1, policy, random, self.now);
            self.now += delay;
            delay
        }
    }

    #[test]
    fn the_delay_of_a_key_grows_until_it_is_forgotten() {
        let mut retries = Retries::new();
        for seconds in [1, 2, 4, 8, 10, 10] {
            assert_eq!(retries.failed(0.0, BACKOFF), Duration::from_secs(seconds));
        }
        retries.backoff.forget(&"a");
        let delays = [0.0, 0.5, 1.0].map(|random| retries.failed(random, BACKOFF).as_millis());
        assert_eq!(delays, [1000, 1750, 3000]);
    }

    #[test]
    fn failures_of_different_policies_count_separately() {
        let mut retries = Retries::new();
        for seconds in [5, 10, 20, 40] {
            assert_eq!(retries.failed(0.0, SLOW), Duration::from_secs(seconds));
        }
        let fast = |retries: &Retries| retries.backoff.failed("a", 2, FAST, 0.0, retries.now);
        assert_eq!(fast(&retries), Duration::from_millis(100));
        let failed = retries.now;
        assert_eq!(retries.failed(0.0, SLOW), Duration::from_secs(80));
        let longest = retries.backoff.remaining(&"a", failed);
        assert_eq!(longest, Some((1, Duration::from_secs(80))));
        assert_eq!(fast(&retries), Duration::from_millis(200));
    }

    #[test]
    fn a_failure_before_the_retry_neither_counts_nor_delays_it() {
        let mut retries = Retries::new();
        let failed = retries.now;
        assert_eq!(retries.failed(0.0, SLOW), Duration::from_secs(5));
        for seconds in [1, 3, 4] {
            retries.now = failed + Duration::from_secs(seconds);
            assert_eq!(retries.failed(0.0, SLOW), Duration::from_secs(5 - seconds));
        }
        assert_eq!(retries.failed(0.0, SLOW), Duration::from_secs(10));
    }

    #[test]
    fn a_failure_can_request_a_longer_delay() {
        let mut retries = Retries::new();
        let mut delays = |least, times: usize| -> Vec<u64> {
            let policy = SLOW.at_least(Duration::from_secs(least));
            let delays = std::iter::repeat_with(|| retries.failed(1.0, policy).as_secs());
            delays.take(times).collect()
        };
        assert_eq!(delays(12, 4), [12, 12, 15, 30], "not even jitter shortens it");
        assert_eq!(delays(3600, 1), [3600]);
        assert_eq!(delays(0, 1), [120]);
        let failed = retries.now;
        retries.failed(0.0, SLOW);
        retries.now = failed;
        let later = retries.failed(0.0, SLOW.at_least(Duration::from_hours(1)));
        assert_eq!(later, Duration::from_hours(1), "a failure before the retry");
    }

    /// A tenant that controls a server must not choose how much is remembered, nor that the count starts again.
    #[test]
    fn a_server_that_names_another_delay_each_time_adds_no_entries() {
        let mut retries = Retries::new();
        let step = Duration::from_secs(295) / 1_000;
        let delays: Vec<_> = (0..1_000)
            .map(|n| retries.failed(0.0, SLOW.at_least(Duration::from_secs(5) + step * n)))
            .collect();
        assert_eq!(lock(&retries.backoff.keys)["a"].len(), 1);
        assert!(delays.is_sorted());
        assert_eq!(
            delays[6], SLOW.max_delay,
            "the delay grows as without the requests"
        );
    }

    #[test]
    fn a_delay_ends_and_concerns_one_key() {
        let (backoff, now) = (KeyedBackoff::new(usize::MAX), Instant::now());
        let delay = backoff.failed("a", 1, SLOW, 0.0, now);
        assert_eq!(backoff.remaining(&"a", now), Some((1, delay)));
        assert_eq!(backoff.remaining(&"b", now), None);
        assert_eq!(backoff.remaining(&"a", now + delay), None);
        backoff.retain(&"a", now, |value, lasts| *value == 1 && lasts);
        assert!(backoff.remaining(&"a", now).is_some());
        backoff.retain(&"a", now + delay, |_, lasts| lasts);
        assert!(lock(&backoff.keys).is_empty());
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_the_longest_delays_stay() {
        let (backoff, now) = (KeyedBackoff::new(100), Instant::now());
        backoff.failed(
            0,
            (),
            ExponentialBackoff::constant(Duration::from_hours(1)),
            0.0,
            now,
        );
        for key in 1..1_000 {
            backoff.failed(key, (), SLOW, 0.0, now + Duration::from_millis(key));
            assert!(lock(&backoff.keys).len() <= 100);
        }
        for key in [0, 950, 999] {
            assert!(backoff.remaining(&key, now).is_some(), "{key}");
        }
    }

    /// A server that names another time with each response leaves nothing behind.
    #[test]
    fn constant_delays_are_forgotten_when_they_are_over() {
        let (backoff, now) = (KeyedBackoff::new(usize::MAX), Instant::now());
        for second in 1..100 {
            let policy = ExponentialBackoff::constant(Duration::from_millis(second));
            backoff.failed("a", (), policy, 0.0, now + Duration::from_secs(second));
        }
        assert_eq!(lock(&backoff.keys)[&"a"].len(), 1);
    }
}

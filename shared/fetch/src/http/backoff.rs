//! Backoff of hosts and repositories after a failure.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, Hash, RandomState},
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_process::{ExponentialBackoff, lock};

use super::{error::FetchErrorKind, retry_after::MAX_RETRY_AFTER};

/// Maximum number of entries. An evicted entry costs one more failing request.
const MAX_ENTRIES: usize = 4096;
/// Backoff after most failures: a recovery is noticed within `max_delay`.
const DEFAULT_BACKOFF: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(30),
};
/// Backoff after a 429 without `Retry-After`.
const RATE_LIMIT_BACKOFF: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(10),
    max_delay: MAX_RETRY_AFTER,
};

/// Backoff by key. The number of entries is limited: the entry whose backoff ends first, or ended longest ago, is evicted.
#[derive(Debug, Default)]
pub struct Backoffs {
    random: RandomState,
    entries: Mutex<Entries>,
}

/// What backs off, as a keyed hash, so that no tenant can cause collisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackoffKey(u64);

#[derive(Debug, Default)]
struct Entries {
    backoffs: HashMap<BackoffKey, Backoff>,
    by_end: BTreeSet<(Instant, BackoffKey)>,
}

#[derive(Clone, Debug)]
struct Backoff {
    failures: u32,
    until: Instant,
    kind: FetchErrorKind,
}

impl Backoffs {
    /// The key of a host or repository.
    pub fn key(&self, of: impl Hash) -> BackoffKey {
        BackoffKey(self.random.hash_one(of))
    }

    /// Whether a request may be sent.
    ///
    /// # Errors
    /// The last error, while the backoff after it lasts.
    pub fn check(&self, key: BackoffKey) -> Result<(), FetchErrorKind> {
        match lock(&self.entries).backoffs.get(&key) {
            Some(backoff) if backoff.is_active(Instant::now()) => Err(backoff.kind.clone()),
            _ => Ok(()),
        }
    }

    /// Records a response. A backoff that the server requested stays, whatever the result of requests that were already in
    /// flight.
    pub fn responded(&self, key: BackoffKey) {
        let mut entries = lock(&self.entries);
        let is_limited = entries.backoffs.get(&key).is_some_and(|backoff| {
            matches!(backoff.kind, FetchErrorKind::RateLimited { .. }) && backoff.is_active(Instant::now())
        });
        if !is_limited {
            entries.remove(key);
        }
    }

    /// Records a failure.
    pub fn failed(&self, key: BackoffKey, kind: &FetchErrorKind) {
        let now = Instant::now();
        let mut entries = lock(&self.entries);
        let before = entries.remove(key);
        let active = before.clone().filter(|backoff| backoff.is_active(now));
        let failures = before.map_or(0, |backoff| backoff.failures);
        // Concurrent requests fail together, and count as one failure.
        let failures = failures.saturating_add(u32::from(active.is_none()));
        let until = now + backoff_after(kind, failures.saturating_sub(1));
        let backoff = match active {
            Some(longer) if longer.until >= until => longer,
            _ => Backoff {
                failures,
                until,
                kind: kind.clone(),
            },
        };
        entries.insert(key, backoff);
    }
}

impl Backoff {
    fn is_active(&self, now: Instant) -> bool {
        now < self.until
    }
}

impl Entries {
    fn insert(&mut self, key: BackoffKey, backoff: Backoff) {
        while self.backoffs.len() >= MAX_ENTRIES {
            let Some((_, first)) = self.by_end.pop_first() else {
                break;
            };
            self.backoffs.remove(&first);
        }
        self.by_end.insert((backoff.until, key));
        self.backoffs.insert(key, backoff);
    }

    fn remove(&mut self, key: BackoffKey) -> Option<Backoff> {
        let backoff = self.backoffs.remove(&key)?;
        self.by_end.remove(&(backoff.until, key));
        Some(backoff)
    }
}

/// How long to back off after a failure, after `failures` others.
fn backoff_after(kind: &FetchErrorKind, failures: u32) -> Duration {
    match kind {
        FetchErrorKind::RateLimited {
            after: Some(after), ..
        } => (*after).clamp(DEFAULT_BACKOFF.initial_delay, MAX_RETRY_AFTER),
        FetchErrorKind::RateLimited { after: None, .. } => RATE_LIMIT_BACKOFF.after(failures),
        _ => DEFAULT_BACKOFF.after(failures),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    fn rate_limited(after: Option<Duration>) -> FetchErrorKind {
        FetchErrorKind::RateLimited {
            status: StatusCode::TOO_MANY_REQUESTS,
            after,
        }
    }

    #[test]
    fn backoff_doubles_up_to_its_limit() {
        let secs = |failures| backoff_after(&FetchErrorKind::ConnectionRefused, failures).as_secs();
        assert_eq!([secs(0), secs(1), secs(4), secs(5), secs(99)], [1, 2, 16, 30, 30]);
        let rate_limited = |after: Option<u64>, failures| {
            backoff_after(&rate_limited(after.map(Duration::from_secs)), failures).as_secs()
        };
        assert_eq!(rate_limited(Some(7), 5), 7, "Retry-After takes precedence");
        assert_eq!(rate_limited(Some(0), 0), 1);
        assert_eq!(rate_limited(Some(u64::MAX), 0), 3600);
        assert_eq!([rate_limited(None, 0), rate_limited(None, 1)], [10, 20]);
    }

    #[test]
    fn only_the_failed_key_backs_off() {
        let backoffs = Backoffs::default();
        let (a, b) = (backoffs.key("a"), backoffs.key("b"));
        backoffs.failed(a, &FetchErrorKind::ConnectionRefused);
        assert!(matches!(
            backoffs.check(a),
            Err(FetchErrorKind::ConnectionRefused)
        ));
        assert!(backoffs.check(b).is_ok());
        backoffs.responded(a);
        assert!(backoffs.check(a).is_ok());
    }

    /// The backoff after these errors.
    fn remaining_backoff(errors: &[&FetchErrorKind]) -> Duration {
        let backoffs = Backoffs::default();
        let key = backoffs.key("a");
        for error in errors {
            backoffs.failed(key, error);
        }
        let until = lock(&backoffs.entries).backoffs[&key].until;
        until - Instant::now()
    }

    #[test]
    fn concurrent_failures_count_once() {
        let six = remaining_backoff(&[&FetchErrorKind::ConnectionRefused; 6]);
        assert!(six <= DEFAULT_BACKOFF.initial_delay, "{six:?}");
    }

    #[test]
    fn backoff_requested_by_the_server_is_not_shortened() {
        let rate_limited = rate_limited(Some(MAX_RETRY_AFTER));
        for errors in [
            [&rate_limited, &FetchErrorKind::ConnectionRefused],
            [&FetchErrorKind::ConnectionRefused, &rate_limited],
        ] {
            let backoff = remaining_backoff(&errors);
            assert!(backoff > DEFAULT_BACKOFF.max_delay, "{backoff:?}");
        }
        let backoffs = Backoffs::default();
        let key = backoffs.key("a");
        backoffs.failed(key, &rate_limited);
        backoffs.responded(key);
        assert!(backoffs.check(key).is_err());
    }

    #[test]
    fn backoff_is_reset_by_a_response() {
        let backoffs = Backoffs::default();
        let key = backoffs.key("a");
        for _ in 0..2 {
            let long = Backoff {
                failures: 5,
                until: Instant::now(),
                kind: FetchErrorKind::ConnectionRefused,
            };
            lock(&backoffs.entries).insert(key, long);
            backoffs.responded(key);
            backoffs.failed(key, &FetchErrorKind::ConnectionRefused);
            let until = lock(&backoffs.entries).backoffs[&key].until;
            assert!(until <= Instant::now() + DEFAULT_BACKOFF.initial_delay);
            backoffs.responded(key);
        }
    }

    #[test]
    fn the_number_of_entries_is_bounded_and_the_longest_stay() {
        let backoffs = Backoffs::default();
        let long = backoffs.key("long");
        backoffs.failed(long, &rate_limited(Some(MAX_RETRY_AFTER)));
        for number in 0..20_000 {
            backoffs.failed(backoffs.key(number), &FetchErrorKind::ConnectionRefused);
            assert!(lock(&backoffs.entries).backoffs.len() <= MAX_ENTRIES);
        }
        let entries = lock(&backoffs.entries);
        assert_eq!(entries.backoffs.len(), entries.by_end.len());
        drop(entries);
        assert!(backoffs.check(long).is_err());
        assert!(
            backoffs.check(backoffs.key(19_999)).is_err(),
            "the newest is kept"
        );
    }
}

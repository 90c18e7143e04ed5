//! Backoff of hosts and repositories after a failure.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    time::{Duration, Instant},
};

use helmops_fair::{ExponentialBackoff, KeyedBackoff};

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

/// Backoff by key, with the last error.
#[derive(Debug)]
pub struct Backoffs {
    random: RandomState,
    failures: KeyedBackoff<BackoffKey, FetchErrorKind>,
}

/// What backs off, as a keyed hash, so that no tenant can cause collisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackoffKey(u64);

impl Default for Backoffs {
    fn default() -> Self {
        Self {
            random: RandomState::new(),
            failures: KeyedBackoff::new(MAX_ENTRIES),
        }
    }
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
        let failed = self.failures.remaining(&key, Instant::now());
        failed.map_or(Ok(()), |(kind, _)| Err(kind))
    }

    /// Records a response. A backoff that the server requested stays, whatever the result of requests that were already in
    /// flight.
    pub fn responded(&self, key: BackoffKey) {
        let is_limited = |kind: &FetchErrorKind, lasts| lasts && is_rate_limit(kind);
        self.failures.retain(&key, Instant::now(), is_limited);
    }

    /// Records a failure. Concurrent requests fail together, and count as one failure.
    pub fn failed(&self, key: BackoffKey, kind: &FetchErrorKind) {
        // Without jitter: the objects that need the server have a jitter of their own.
        let _ = self
            .failures
            .failed(key, kind.clone(), policy(kind), 0.0, Instant::now());
    }
}

const fn is_rate_limit(kind: &FetchErrorKind) -> bool {
    matches!(kind, FetchErrorKind::RateLimited { .. })
}

fn policy(kind: &FetchErrorKind) -> ExponentialBackoff {
    match kind {
        FetchErrorKind::RateLimited {
            after: Some(after), ..
        } => ExponentialBackoff::constant((*after).clamp(DEFAULT_BACKOFF.initial_delay, MAX_RETRY_AFTER)),
        FetchErrorKind::RateLimited { after: None, .. } => RATE_LIMIT_BACKOFF,
        _ => DEFAULT_BACKOFF,
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
    fn the_delay_follows_from_the_error() {
        let delay = |kind: &FetchErrorKind| policy(kind).after(0).as_secs();
        assert_eq!(delay(&FetchErrorKind::ConnectionRefused), 1);
        let rate_limited = |after: Option<u64>| delay(&rate_limited(after.map(Duration::from_secs)));
        assert_eq!(rate_limited(Some(7)), 7, "Retry-After takes precedence");
        assert_eq!([rate_limited(Some(0)), rate_limited(Some(u64::MAX))], [1, 3600]);
        assert_eq!(rate_limited(None), 10);
    }

    #[test]
    fn only_the_failed_key_backs_off_until_a_response() {
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
    fn remaining(errors: &[&FetchErrorKind]) -> Duration {
        let backoffs = Backoffs::default();
        let key = backoffs.key("a");
        for error in errors {
            backoffs.failed(key, error);
        }
        backoffs.failures.remaining(&key, Instant::now()).unwrap().1
    }

    #[test]
    fn concurrent_failures_count_once() {
        let six = remaining(&[&FetchErrorKind::ConnectionRefused; 6]);
        assert!(six <= DEFAULT_BACKOFF.initial_delay, "{six:?}");
    }

    #[test]
    fn a_backoff_that_the_server_requested_is_not_shortened() {
        let rate_limited = rate_limited(Some(MAX_RETRY_AFTER));
        for errors in [
            [&rate_limited, &FetchErrorKind::ConnectionRefused],
            [&FetchErrorKind::ConnectionRefused, &rate_limited],
        ] {
            let backoff = remaining(&errors);
            assert!(backoff > DEFAULT_BACKOFF.max_delay, "{backoff:?}");
        }
        let backoffs = Backoffs::default();
        let key = backoffs.key("a");
        backoffs.failed(key, &rate_limited);
        backoffs.responded(key);
        assert!(backoffs.check(key).is_err());
    }
}

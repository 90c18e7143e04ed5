//! Validity of certificates, and when to issue the next one.

use std::time::{Duration, SystemTime};

use thiserror::Error;

use crate::issue::BACKDATED;
use crate::pair::unix_seconds;

/// Shorter validities would only keep the API server busy.
const SHORTEST: Duration = Duration::from_secs(10);

/// What the library accepts, minus the time by which a certificate is backdated.
const LONGEST: Duration = Duration::from_hours(10 * 365 * 24 - 1);

/// The successor of a CA is due after two thirds of its validity; with this factor it can issue certificates of full length
/// until then.
const AUTHORITY_OUTLIVES: u32 = 3;

/// The settle time is this fraction of a certificate's validity, within bounds.
const SETTLE_PART: u32 = 12;
const LONGEST_SETTLE: Duration = Duration::from_hours(1);
const SHORTEST_SETTLE: Duration = Duration::from_secs(2);

/// Replicas renew up to this fraction of the validity apart, so that only one of them does.
const JITTER_PART: f64 = 60.0;

/// Validity of certificates and CAs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetimes {
    leaf: Duration,
    authority: Duration,
    /// Between 0 and 1, different for each replica.
    jitter: f64,
}

/// Lifetimes that contradict each other.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LifetimeError {
    /// Out of bounds.
    #[error(
        "--tls-validity {0:?} is out of bounds: at least 10s and at most ten years; the default is 2160h"
    )]
    Leaf(Duration),
    /// Out of bounds.
    #[error("--tls-ca-validity {0:?} is too long: at most ten years; the default is 43800h")]
    Ca(Duration),
    /// A certificate would outlive its CA.
    #[error(
        "--tls-ca-validity {authority:?} must be at least three times --tls-validity {leaf:?}, or certificates would outlive their CA"
    )]
    TooClose {
        /// As given.
        leaf: Duration,
        /// As given.
        authority: Duration,
    },
}

impl Lifetimes {
    /// Checks lifetimes against each other. `jitter` is a number between 0 and 1, different for each replica.
    ///
    /// # Errors
    /// Names the flags that are out of bounds, or contradict each other.
    pub fn new(leaf: Duration, authority: Duration, jitter: f64) -> Result<Self, LifetimeError> {
        if !(SHORTEST..=LONGEST).contains(&leaf) {
            return Err(LifetimeError::Leaf(leaf));
        }
        if authority > LONGEST {
            return Err(LifetimeError::Ca(authority));
        }
        if authority < leaf * AUTHORITY_OUTLIVES {
            return Err(LifetimeError::TooClose { leaf, authority });
        }
        Ok(Self {
            leaf,
            authority,
            jitter: jitter.clamp(0.0, 1.0),
        })
    }

    /// Validity of a serving certificate.
    pub(crate) fn leaf(&self) -> Duration {
        self.leaf
    }

    /// Validity of a CA.
    pub(crate) fn authority(&self) -> Duration {
        self.authority
    }

    /// The longest time until every API server trusts the content of `caBundle`, and every replica serves the certificate in
    /// the Secret. A longer one does no harm: both CAs stay trusted meanwhile.
    pub(crate) fn settle(&self) -> Duration {
        (self.leaf / SETTLE_PART).clamp(SHORTEST_SETTLE, LONGEST_SETTLE)
    }

    /// When a certificate with this validity, in seconds since 1970, must be replaced: after two thirds of its own validity.
    pub(crate) fn due(&self, not_before: i64, not_after: i64) -> i64 {
        let backdated = i64::try_from(BACKDATED.as_secs()).unwrap_or_default();
        // A certificate from elsewhere may be valid for less than that.
        let begin = if not_before + backdated < not_after {
            not_before + backdated
        } else {
            not_before
        };
        let lifetime = not_after.saturating_sub(begin);
        let due = lifetime
            .checked_mul(2)
            .map_or(not_after, |twice| begin + twice / 3);
        due.saturating_add(self.jitter_of(lifetime))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a fraction of some years in seconds, where a second does not matter"
    )]
    fn jitter_of(&self, lifetime: i64) -> i64 {
        (lifetime as f64 / JITTER_PART * self.jitter) as i64
    }
}

/// The time from `now` to a time in seconds since 1970; zero if that has passed.
pub(crate) fn until(now: SystemTime, seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds.saturating_sub(unix_seconds(now))).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn lifetimes(jitter: f64) -> Lifetimes {
        Lifetimes::new(2160 * HOUR, 43_800 * HOUR, jitter).unwrap()
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_validity() {
        let hours = |number: i64| number * 3600;
        // Issued at 1000 h, backdated by one, for 90 days.
        assert_eq!(
            lifetimes(0.0).due(hours(999), hours(1000 + 2160)),
            hours(1000 + 1440)
        );
        assert_eq!(
            lifetimes(1.0).due(hours(999), hours(1000 + 2160)),
            hours(1000 + 1440 + 36)
        );
        // A certificate from elsewhere, for less than an hour.
        assert_eq!(lifetimes(0.0).due(0, 1800), 1200);
        assert_eq!(
            lifetimes(0.0).due(i64::MIN / 2, i64::MAX),
            i64::MAX,
            "an extreme validity is not due early"
        );
    }

    #[test]
    fn the_settle_time_is_one_hour_or_less_for_short_validities() {
        assert_eq!(lifetimes(0.0).settle(), HOUR);
        let settle = |seconds| {
            let leaf = Duration::from_secs(seconds);
            Lifetimes::new(leaf, 3 * leaf, 0.0).unwrap().settle().as_secs()
        };
        assert_eq!([settle(3600), settle(60), settle(10)], [300, 5, 2]);
    }

    #[test]
    fn contradicting_lifetimes_are_rejected_with_the_flags_named() {
        let new = |leaf, authority| Lifetimes::new(leaf, authority, 0.0).unwrap_err().to_string();
        for (text, words) in [
            (
                new(Duration::from_secs(9), HOUR),
                "--tls-validity 9s is out of bounds",
            ),
            (
                new(90_000 * HOUR, 90_000 * HOUR),
                "--tls-validity 324000000s is out of bounds",
            ),
            (
                new(HOUR, 90_000 * HOUR),
                "--tls-ca-validity 324000000s is too long",
            ),
            (
                new(2 * HOUR, 5 * HOUR),
                "--tls-ca-validity 18000s must be at least three times --tls-validity 7200s",
            ),
        ] {
            assert!(text.starts_with(words), "{text}");
        }
    }
}

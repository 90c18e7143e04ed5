//! Rate limits.

use std::time::Duration;

/// How many requests are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Immediately, after a pause.
    pub burst: u32,
    /// In each second after that.
    pub per_second: u32,
}

/// A bucket of permits, which fills up at a constant rate. Times are those since any fixed point.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: Rate,
    /// Nanoseconds of filling that are in the bucket.
    level: u128,
    updated: Duration,
}

const SECOND: u128 = 1_000_000_000;

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        Self {
            level: u128::from(rate.burst) * SECOND,
            rate,
            updated: Duration::ZERO,
        }
    }

    /// Takes a permit. If there is none, the error is how long it takes until there is one. A clock that goes back fills nothing.
    pub fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let passed = now.saturating_sub(self.updated);
        self.updated = self.updated.max(now);
        let capacity = u128::from(self.rate.burst) * SECOND;
        let filled = passed.as_nanos().saturating_mul(u128::from(self.rate.per_second));
        self.level = self.level.saturating_add(filled).min(capacity);
        if let Some(rest) = self.level.checked_sub(SECOND) {
            self.level = rest;
            return Ok(());
        }
        let missing = (SECOND - self.level).div_ceil(u128::from(self.rate.per_second.max(1)));
        Err(Duration::from_nanos(u64::try_from(missing).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Rate = Rate {
        burst: 20,
        per_second: 2,
    };

    #[test]
    fn after_the_burst_permits_come_at_the_rate() {
        let mut bucket = TokenBucket::new(RATE);
        let start = Duration::from_hours(5);
        for _ in 0..20 {
            assert_eq!(bucket.take(start), Ok(()));
        }
        assert_eq!(bucket.take(start), Err(Duration::from_millis(500)));
        assert_eq!(
            bucket.take(start + Duration::from_millis(400)),
            Err(Duration::from_millis(100))
        );
        assert_eq!(bucket.take(start + Duration::from_millis(500)), Ok(()));
        assert!(bucket.take(start + Duration::from_millis(500)).is_err());
        assert!(bucket.take(Duration::ZERO).is_err(), "a clock that goes back");
    }

    proptest! {
        /// In any interval no more requests are accepted than the burst, and the rate for the time.
        #[test]
        fn a_flood_is_bounded(pauses in prop::collection::vec(0..2_000_u64, 1..400)) {
            let mut bucket = TokenBucket::new(RATE);
            let (mut now, mut accepted) = (Duration::ZERO, 0.0);
            for pause in pauses {
                now += Duration::from_millis(pause);
                if let Err(wait) = bucket.take(now) {
                    now += wait;
                    prop_assert_eq!(bucket.take(now), Ok(()));
                }
                accepted += 1.0;
                let bound = 20.0 + 2.0 * now.as_secs_f64();
                prop_assert!(accepted <= bound + 1e-6, "{accepted} in {now:?}");
            }
        }
    }
}

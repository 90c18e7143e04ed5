//! Exponential backoff with jitter, without state, clock and chance: from a number of failures to a delay.

use std::time::Duration;

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

    /// The same backoff, with delays of at least `least`.
    #[must_use]
    pub fn at_least(self, least: Duration) -> Self {
        Self {
            initial_delay: self.initial_delay.max(least),
            max_delay: self.max_delay.max(least),
        }
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
        assert_eq!(
            seconds(BACKOFF.at_least(Duration::from_secs(3))),
            [3, 6, 10, 10, 10, 10]
        );
        assert_eq!(seconds(BACKOFF.at_least(Duration::from_secs(20))), [20; 6]);
    }

    #[test]
    fn the_jitter_shortens_a_delay_by_up_to_a_quarter() {
        let delays = [0.0, 0.5, 1.0].map(|random| BACKOFF.after_with_jitter(2, random).as_millis());
        assert_eq!(delays, [4000, 3500, 3000]);
    }
}

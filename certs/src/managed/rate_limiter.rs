//! Rate limit for attempts.

use std::time::Duration;

use helmops_fair::ExponentialBackoff;
use tokio::time::Instant;

/// Delay between the first attempt and the second.
const MIN_DELAY: Duration = Duration::from_millis(200);

/// Limits the rate of attempts with exponential backoff: the first is immediate, the delay doubles with each one, and resets
/// after a time without attempts.
///
/// Successful attempts count too: two replicas with contradicting clocks or flags must not overload the API server by undoing
/// each other's changes.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    backoff: ExponentialBackoff,
    /// The number of attempts since the last quiet time.
    attempts: u32,
    next: Option<Instant>,
}

impl RateLimiter {
    /// With delays of at most `max_delay`.
    pub(crate) fn new(max_delay: Duration) -> Self {
        Self {
            backoff: ExponentialBackoff {
                initial_delay: MIN_DELAY,
                max_delay: max_delay.max(MIN_DELAY),
            },
            attempts: 0,
            next: None,
        }
    }

    /// When the next attempt is allowed; `None` for now.
    pub(crate) fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    pub(crate) fn record_attempt(&mut self, now: Instant) {
        let quiet_time = 2 * self.backoff.after(self.attempts);
        if self.next.is_none_or(|next| next + quiet_time < now) {
            self.attempts = 0;
        }
        self.next = Some(now + self.backoff.after(self.attempts));
        self.attempts = self.attempts.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_between_attempts_double_and_reset_after_a_quiet_time() {
        let start = Instant::now();
        let mut limiter = RateLimiter::new(Duration::from_secs(1));
        assert_eq!(limiter.wait_until(start), None);
        let mut now = start;
        let mut delays = Vec::new();
        for _ in 0..5 {
            limiter.record_attempt(now);
            let next = limiter.wait_until(now).unwrap();
            delays.push((next - now).as_millis());
            now = next;
            assert_eq!(limiter.wait_until(now), None);
        }
        assert_eq!(delays, [200, 400, 800, 1000, 1000]);
        now += Duration::from_secs(3);
        limiter.record_attempt(now);
        assert_eq!(
            limiter.wait_until(now).unwrap() - now,
            MIN_DELAY,
            "the delay resets after a quiet time"
        );
    }
}

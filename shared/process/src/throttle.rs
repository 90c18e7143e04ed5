//! Rate limit for log lines that counts what it suppresses.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::lock;

/// Allows one event per interval, and counts those that it suppresses.
#[derive(Debug)]
pub struct Throttle {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    suppressed: u64,
}

impl Throttle {
    /// Allows one event per `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            state: Mutex::default(),
        }
    }

    /// `Some(n)` if the event may be logged now, where `n` is the number of events suppressed since the last one.
    pub fn allow(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.state);
        if state
            .last
            .is_some_and(|last| now.duration_since(last) < self.interval)
        {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_per_interval_is_allowed_with_the_number_of_suppressed_ones() {
        let throttle = Throttle::new(Duration::from_secs(10));
        let start = Instant::now();
        assert_eq!(throttle.allow(start), Some(0));
        assert_eq!(throttle.allow(start + Duration::from_secs(1)), None);
        assert_eq!(throttle.allow(start + Duration::from_secs(9)), None);
        assert_eq!(throttle.allow(start + Duration::from_secs(10)), Some(2));
        assert_eq!(throttle.allow(start + Duration::from_secs(11)), None);
    }
}

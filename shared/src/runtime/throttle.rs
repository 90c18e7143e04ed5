//! Log a repeated event at most once a while, without forgetting how often it happened.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::lock;

/// Lets one event through every `every`, and counts those it held back.
#[derive(Debug)]
pub struct Throttle {
    every: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    held_back: u64,
}

impl Throttle {
    /// Lets one event through every `every`.
    pub fn new(every: Duration) -> Self {
        Self {
            every,
            state: Mutex::default(),
        }
    }

    /// `Some(n)` when the event may be logged now, `n` being the events held back since the last one.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.state);
        if state
            .last
            .is_some_and(|last| now.duration_since(last) < self.every)
        {
            state.held_back += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_passes_and_the_next_after_a_while_tells_how_many_did_not() {
        let throttle = Throttle::new(Duration::from_secs(10));
        let start = Instant::now();
        assert_eq!(throttle.pass(start), Some(0));
        assert_eq!(throttle.pass(start + Duration::from_secs(1)), None);
        assert_eq!(throttle.pass(start + Duration::from_secs(9)), None);
        assert_eq!(throttle.pass(start + Duration::from_secs(10)), Some(2));
        assert_eq!(throttle.pass(start + Duration::from_secs(11)), None);
    }
}

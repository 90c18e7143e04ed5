//! How soon to try again.

use std::time::Duration;

use tokio::time::Instant;

/// Between the first try and the second.
const SHORTEST: Duration = Duration::from_millis(200);

/// Spaces tries: the first is at once, the next ones ever later, and after a while without any it begins anew.
///
/// It spaces those that succeed too: two replicas whose clocks or flags contradict each other must not wear the API server
/// down by undoing each other's work.
#[derive(Debug)]
pub(crate) struct Pace {
    longest: Duration,
    pause: Duration,
    next: Option<Instant>,
}

impl Pace {
    /// Pauses of this length at the most.
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            longest: longest.max(SHORTEST),
            pause: SHORTEST,
            next: None,
        }
    }

    /// Until when to wait; `None` for not at all.
    pub(crate) fn wait(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// There is a try now.
    pub(crate) fn tried(&mut self, now: Instant) {
        let is_quiet = self.next.is_none_or(|next| next + 2 * self.pause < now);
        if is_quiet {
            self.pause = SHORTEST;
        }
        self.next = Some(now + self.pause);
        self.pause = (self.pause * 2).min(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_in_a_row_are_ever_further_apart() {
        let start = Instant::now();
        let mut pace = Pace::new(Duration::from_secs(1));
        assert_eq!(pace.wait(start), None);
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..5 {
            pace.tried(now);
            let next = pace.wait(now).unwrap();
            pauses.push((next - now).as_millis());
            now = next;
            assert_eq!(pace.wait(now), None);
        }
        assert_eq!(pauses, [200, 400, 800, 1000, 1000]);
        now += Duration::from_secs(3);
        pace.tried(now);
        assert_eq!(
            pace.wait(now).unwrap() - now,
            SHORTEST,
            "after a quiet time it begins anew"
        );
    }
}

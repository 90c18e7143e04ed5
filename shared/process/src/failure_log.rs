//! Logging of failures that last: one line when a failure begins, and one when it ends.

use std::time::Duration;

use tokio::time::Instant;

/// Another error than the one that was logged is logged too if it lasts for this time. A server that starts rejects requests for one reason
/// after the other.
const LASTING: Duration = Duration::from_secs(30);

/// The failure of something that is repeated until it succeeds.
#[derive(Debug, Default)]
pub struct FailureLog(Option<Failing>);

#[derive(Debug)]
struct Failing {
    since: Instant,
    logged: String,
    /// The last error, and since when it is the same.
    last: String,
    last_since: Instant,
}

impl FailureLog {
    /// Records an attempt that has failed. `error` is what distinguishes it from other errors. Returns whether it must be logged.
    pub fn failed(&mut self, error: &str) -> bool {
        let now = Instant::now();
        let Some(failing) = &mut self.0 else {
            self.0 = Some(Failing {
                since: now,
                logged: error.to_owned(),
                last: error.to_owned(),
                last_since: now,
            });
            return true;
        };
        if failing.last != error {
            error.clone_into(&mut failing.last);
            failing.last_since = now;
        }
        let is_new = failing.logged != error && failing.last_since.elapsed() >= LASTING;
        if is_new {
            error.clone_into(&mut failing.logged);
        }
        is_new
    }

    /// Records an attempt that has succeeded. Returns how long it has failed before, if it has: then that must be logged.
    pub fn succeeded(&mut self) -> Option<Duration> {
        self.0.take().map(|failing| failing.since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_logged_when_it_begins_and_when_it_ends() {
        let mut log = FailureLog::default();
        assert_eq!(log.succeeded(), None);
        let start = Instant::now();
        for (seconds, error, is_logged) in [
            (0, "refused", true),
            (1, "refused", false),
            // The server starts.
            (40, "reset", false),
            (41, "forbidden", false),
            (42, "reset", false),
            (50, "forbidden", false),
            // It rejects the request for good.
            (79, "forbidden", false),
            (81, "forbidden", true),
            (120, "forbidden", false),
        ] {
            tokio::time::sleep_until(start + Duration::from_secs(seconds)).await;
            assert_eq!(log.failed(error), is_logged, "{seconds} {error}");
        }
        assert_eq!(log.succeeded(), Some(Duration::from_mins(2)));
        assert_eq!(log.succeeded(), None);
        assert!(log.failed("forbidden"), "it fails again");
    }
}

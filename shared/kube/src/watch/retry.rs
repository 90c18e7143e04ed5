//! When a watch that has failed is repeated.

use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use helmops_fair::ExponentialBackoff;
use kube::runtime::watcher;
use tokio::time::{Instant, sleep};

/// While the API server is away. An attempt costs it nothing, and after its return everything waits for the watches.
const OUTAGE: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_millis(500),
    max_delay: Duration::from_secs(5),
};

/// While the API server rejects it, until someone changes something. Thousands of agents watch one API server.
const REJECTED: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(30),
};

/// A version that expires again within this time is no consequence of an interruption.
const AGAIN: Duration = Duration::from_mins(1);

/// How a watch has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The API server is away: no response, or one that it cannot serve anything.
    Outage,
    /// The version that the watch would continue from is too old, as after an interruption: it has to list again.
    Expired,
    /// The API server rejects the request, or its response does not decode.
    Rejected,
}

impl Failure {
    pub(super) fn of(error: &watcher::Error) -> Self {
        use watcher::Error::{
            InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
        };
        match error {
            WatchError(status) if status.code == 410 => Self::Expired,
            WatchError(status) if status.code >= 500 => Self::Outage,
            InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => match error {
                kube::Error::Api(status) if status.code >= 500 => Self::Outage,
                error if is_unreachable(error) => Self::Outage,
                _ => Self::Rejected,
            },
            WatchError(_) | NoResourceVersion => Self::Rejected,
        }
    }
}

/// Whether there was no response to a request.
pub fn is_unreachable(error: &kube::Error) -> bool {
    matches!(
        error,
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_)
    )
}

/// Consecutive failures of a watch.
#[derive(Debug, Default)]
struct Failures {
    last: Option<Failure>,
    /// How many failures of the same kind came before the last one.
    before: u32,
    expired: Option<Instant>,
}

impl Failures {
    /// The delay after a failure. `random` is between 0 and 1.
    fn failed(&mut self, error: &watcher::Error, random: f64) -> Duration {
        let failure = Failure::of(error);
        self.before = match self.last.replace(failure) {
            Some(last) if last == failure => self.before.saturating_add(1),
            _ => 0,
        };
        let policy = match failure {
            Failure::Outage => OUTAGE,
            Failure::Expired if self.expires_for_the_first_time() => return Duration::ZERO,
            Failure::Expired | Failure::Rejected => REJECTED,
        };
        policy.after_with_jitter(self.before, random)
    }

    fn expires_for_the_first_time(&mut self) -> bool {
        let before = self.expired.replace(Instant::now());
        before.is_none_or(|before| before.elapsed() > AGAIN)
    }

    fn succeeded(&mut self) {
        self.last = None;
    }
}

/// The results of a watch, which waits after each failure: for as long as such a failure usually lasts.
pub(super) fn with_pauses<T>(
    results: impl Stream<Item = watcher::Result<T>> + Send,
) -> impl Stream<Item = watcher::Result<T>> + Send
where
    T: Send,
{
    let start = (Box::pin(results), Failures::default(), Duration::ZERO);
    stream::unfold(start, |(mut results, mut failures, pause)| async move {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let result = results.next().await?;
        let pause = match &result {
            Ok(_) => {
                failures.succeeded();
                Duration::ZERO
            }
            Err(error) => failures.failed(error, fastrand::f64()),
        };
        Some((result, (results, failures, pause)))
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};

    use super::*;

    fn rejected(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("why", "reason").with_code(code).boxed())
    }

    fn refused() -> watcher::Error {
        WatchStartFailed(kube::Error::Service("connection refused".into()))
    }

    fn expired() -> watcher::Error {
        WatchError(Status::failure("too old", "Expired").with_code(410).boxed())
    }

    #[test]
    fn an_outage_is_distinct_from_a_rejection() {
        let io = || std::io::Error::other("connection reset");
        for (error, expected) in [
            (refused(), Failure::Outage),
            (WatchFailed(kube::Error::ReadEvents(io())), Failure::Outage),
            (InitialListFailed(rejected(500)), Failure::Outage),
            (InitialListFailed(rejected(503)), Failure::Outage),
            (InitialListFailed(rejected(403)), Failure::Rejected),
            (InitialListFailed(rejected(404)), Failure::Rejected),
            (InitialListFailed(rejected(410)), Failure::Rejected),
            (InitialListFailed(rejected(429)), Failure::Rejected),
            (watcher::Error::NoResourceVersion, Failure::Rejected),
            (expired(), Failure::Expired),
        ] {
            assert_eq!(Failure::of(&error), expected, "{error}");
        }
    }

    /// Everything waits for the watches after an outage, and may wait for no more than 10 s.
    #[tokio::test(start_paused = true)]
    async fn an_outage_of_any_length_leads_to_short_pauses_and_then_to_a_list() {
        let mut failures = Failures::default();
        let pauses: Vec<_> = (0..20).map(|_| failures.failed(&refused(), 0.0)).collect();
        assert_eq!(pauses[..3], [500, 1_000, 2_000].map(Duration::from_millis));
        assert_eq!(pauses.last(), Some(&OUTAGE.max_delay));
        // The API server is back: it has no events since the version that is known.
        assert_eq!(failures.failed(&expired(), 0.0), Duration::ZERO);
        // It rejects requests until it has read its roles.
        let rejected = InitialListFailed(rejected(403));
        assert_eq!(failures.failed(&rejected, 0.0), REJECTED.initial_delay);
    }

    #[tokio::test(start_paused = true)]
    async fn versions_that_expire_again_and_again_cause_no_flood_of_lists() {
        let mut failures = Failures::default();
        assert_eq!(failures.failed(&expired(), 0.0), Duration::ZERO);
        failures.succeeded();
        assert_eq!(failures.failed(&expired(), 0.0), REJECTED.initial_delay);
        tokio::time::advance(AGAIN * 2).await;
        failures.succeeded();
        assert_eq!(failures.failed(&expired(), 0.0), Duration::ZERO);
    }

    #[test]
    fn rejections_are_repeated_ever_more_rarely_until_a_success() {
        let mut failures = Failures::default();
        let error = InitialListFailed(rejected(403));
        let mut pauses = || [(); 6].map(|()| failures.failed(&error, 0.0).as_secs());
        assert_eq!(pauses(), [1, 2, 4, 8, 16, 30]);
        assert_eq!(pauses(), [30; 6]);
        failures.succeeded();
        assert_eq!(failures.failed(&error, 0.0), REJECTED.initial_delay);
    }
}

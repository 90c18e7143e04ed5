//! The time that all look-ups of one HelmOp may take together.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_shared::runtime::lock;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Each request has a limit of its own, but a registry that answers page after page within it could go on for hours, for a
/// HelmOp and Policies that have long changed. An index of 128 MiB over 10 Mbit/s takes two minutes.
pub const LIMIT: Duration = Duration::from_mins(5);

/// A limited time, which does not pass while a look-up waits for its turn: how long that takes depends on how many others
/// there are, and says nothing of the server. Clones are the same clock. One look-up at a time uses it.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// It was stopped, or runs again.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    left: Duration,
    /// Since when it runs; `None` while it stands.
    runs: Option<Instant>,
}

/// Starts the clock again when it is dropped.
struct Stopped<'c>(&'c Clock);

impl Default for Clock {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl Clock {
    /// So much time from now on.
    pub fn new(limit: Duration) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                left: limit,
                runs: Some(Instant::now()),
            }),
            changed: Notify::new(),
        }))
    }

    /// Waits while the time stands still.
    pub async fn stopped<T>(&self, wait: impl Future<Output = T>) -> T {
        let _stopped = Stopped::new(self);
        wait.await
    }

    /// Gives up work that is not done in time; `None` then. Work that would begin too late is not begun.
    pub async fn bound<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.is_over() => None,
            done = work => Some(done),
        }
    }

    /// Whether it stands.
    #[cfg(test)]
    pub fn stands(&self) -> bool {
        lock(&self.0.state).runs.is_none()
    }

    /// Waits until the time is over.
    async fn is_over(&self) {
        loop {
            // Before the look, so that no change is missed after it.
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let end = lock(&self.0.state).end();
            match end {
                None => changed.await,
                Some(end) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = sleep_until(end) => return,
                },
            }
        }
    }
}

impl State {
    fn end(&self) -> Option<Instant> {
        Some(self.runs? + self.left)
    }
}

impl<'c> Stopped<'c> {
    fn new(clock: &'c Clock) -> Self {
        let mut state = lock(&clock.0.state);
        if let Some(since) = state.runs.take() {
            state.left = state.left.saturating_sub(since.elapsed());
        }
        drop(state);
        clock.0.changed.notify_waiters();
        Self(clock)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        lock(&self.0.0.state).runs = Some(Instant::now());
        self.0.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending};

    use tokio::time::sleep;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn all_work_has_one_limit() {
        let (clock, started) = (Clock::new(2 * MINUTE), Instant::now());
        assert_eq!(clock.bound(sleep(MINUTE)).await, Some(()));
        assert_eq!(clock.bound(pending::<()>()).await, None);
        assert_eq!(started.elapsed(), 2 * MINUTE);
        let begun = Cell::new(false);
        let late = async { begun.set(true) };
        assert_eq!((clock.bound(late).await, begun.get()), (None, false));
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_passes_while_work_waits_for_its_turn() {
        let (clock, started) = (Clock::new(2 * MINUTE), Instant::now());
        let work = async {
            sleep(MINUTE).await;
            clock.stopped(sleep(60 * MINUTE)).await;
        };
        assert_eq!(clock.bound(work).await, Some(()));
        // A wait that is given up.
        let work = async {
            let waiting = clock.stopped(pending::<()>());
            let _ = tokio::time::timeout(MINUTE, waiting).await;
            pending::<()>().await;
        };
        assert_eq!(clock.bound(work).await, None);
        assert_eq!(started.elapsed(), 63 * MINUTE);
    }
}

//! The time limit for all resolutions of one HelmOp together.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_process::lock;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Each request has its own timeout, but a registry that sends page after page within it could take hours, while the HelmOp
/// and the Policies change. An index of 128 MiB over 10 Mbit/s takes two minutes.
pub const LIMIT: Duration = Duration::from_mins(5);

/// A time limit that is paused while a resolution waits for a permit: that wait depends on the number of other resolutions,
/// not on the server. Clones share the limit. One resolution at a time uses it.
#[derive(Clone, Debug)]
pub struct TimeLimit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Notified when the limit is paused or resumed.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    remaining: Duration,
    /// When it was started or resumed; `None` while it is paused.
    running_since: Option<Instant>,
}

/// Resumes the time limit when dropped.
struct PauseGuard<'c>(&'c TimeLimit);

impl Default for TimeLimit {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl TimeLimit {
    /// Starts a time limit.
    pub fn new(limit: Duration) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                remaining: limit,
                running_since: Some(Instant::now()),
            }),
            changed: Notify::new(),
        }))
    }

    /// Waits for a future without counting the time.
    pub async fn paused<T>(&self, wait: impl Future<Output = T>) -> T {
        let _pause = PauseGuard::new(self);
        wait.await
    }

    /// Runs a future until the limit expires; `None` if it does not finish in time. After the limit it is not started.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.expired() => None,
            done = work => Some(done),
        }
    }

    /// Whether the limit is paused.
    #[cfg(test)]
    pub fn is_paused(&self) -> bool {
        lock(&self.0.state).running_since.is_none()
    }

    /// Waits until the limit expires.
    async fn expired(&self) {
        loop {
            // Registered before the state is read, so that no later change is missed.
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let deadline = lock(&self.0.state).deadline();
            match deadline {
                None => changed.await,
                Some(deadline) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = sleep_until(deadline) => return,
                },
            }
        }
    }
}

impl State {
    fn deadline(&self) -> Option<Instant> {
        Some(self.running_since? + self.remaining)
    }
}

impl<'c> PauseGuard<'c> {
    fn new(time_limit: &'c TimeLimit) -> Self {
        let mut state = lock(&time_limit.0.state);
        if let Some(since) = state.running_since.take() {
            state.remaining = state.remaining.saturating_sub(since.elapsed());
        }
        drop(state);
        time_limit.0.changed.notify_waiters();
        Self(time_limit)
    }
}

impl Drop for PauseGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.0.state).running_since = Some(Instant::now());
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
    async fn all_work_shares_one_limit() {
        let (time_limit, started) = (TimeLimit::new(2 * MINUTE), Instant::now());
        assert_eq!(time_limit.run(sleep(MINUTE)).await, Some(()));
        assert_eq!(time_limit.run(pending::<()>()).await, None);
        assert_eq!(started.elapsed(), 2 * MINUTE);
        let was_started = Cell::new(false);
        let late = async { was_started.set(true) };
        assert_eq!((time_limit.run(late).await, was_started.get()), (None, false));
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_is_counted_while_paused() {
        let (time_limit, started) = (TimeLimit::new(2 * MINUTE), Instant::now());
        let work = async {
            sleep(MINUTE).await;
            time_limit.paused(sleep(60 * MINUTE)).await;
        };
        assert_eq!(time_limit.run(work).await, Some(()));
        // A wait that is cancelled.
        let work = async {
            let waiting = time_limit.paused(pending::<()>());
            let _ = tokio::time::timeout(MINUTE, waiting).await;
            pending::<()>().await;
        };
        assert_eq!(time_limit.run(work).await, None);
        assert_eq!(started.elapsed(), 63 * MINUTE);
    }
}

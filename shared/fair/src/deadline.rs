//! A deadline that can be paused.
//!
//! Time that does not count is excluded where it passes: while work waits for a permit, which depends on the other work of the
//! process, or runs a program that has a deadline of its own. So no deadline is passed along to there.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::lock;

tokio::task_local! {
    /// The deadline of what runs now, the innermost of several.
    static CURRENT: Deadline;
}

/// A deadline for one or more pieces of work, which all use the same time. Clones share it.
#[derive(Clone, Debug)]
pub struct Deadline(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Notified when the deadline is paused or resumed.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    remaining: Duration,
    /// When it was started or resumed.
    since: Instant,
    /// While there are any, the deadline is paused.
    pauses: usize,
}

/// The deadline is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineExceeded;

/// Runs work until it has taken this long, without what is [`excluded`].
///
/// # Errors
/// If it was ended.
pub async fn bounded<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, DeadlineExceeded> {
    Deadline::new(limit).run(work).await
}

/// Runs work whose time does not count for the deadline that it is part of, if any. It has to be in the same task.
pub async fn excluded<T>(work: impl Future<Output = T>) -> T {
    let _pause = CURRENT.try_with(Pause::start).ok();
    work.await
}

impl Deadline {
    /// Starts a deadline.
    pub fn new(limit: Duration) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                remaining: limit,
                since: Instant::now(),
                pauses: 0,
            }),
            changed: Notify::new(),
        }))
    }

    /// Runs work until the deadline. After the deadline it is not started.
    ///
    /// # Errors
    /// If it was ended or not started.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, DeadlineExceeded> {
        tokio::select! {
            biased;
            () = self.expired() => Err(DeadlineExceeded),
            done = CURRENT.scope(self.clone(), work) => Ok(done),
        }
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        lock(&self.0.state).pauses > 0
    }

    /// Waits until the deadline.
    async fn expired(&self) {
        loop {
            // Registered before the state is read, so that no later change is missed.
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
    /// `None` while it is paused.
    fn end(&self) -> Option<Instant> {
        (self.pauses == 0).then(|| self.since + self.remaining)
    }
}

/// A pause, until it is dropped.
struct Pause(Deadline);

impl Pause {
    fn start(deadline: &Deadline) -> Self {
        let mut state = lock(&deadline.0.state);
        if state.pauses == 0 {
            state.remaining = state.remaining.saturating_sub(state.since.elapsed());
        }
        state.pauses += 1;
        drop(state);
        deadline.0.changed.notify_waiters();
        Self(deadline.clone())
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = lock(&self.0.0.state);
        state.pauses -= 1;
        if state.pauses == 0 {
            state.since = Instant::now();
        }
        drop(state);
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
    async fn all_work_shares_one_deadline() {
        let (deadline, started) = (Deadline::new(2 * MINUTE), Instant::now());
        assert_eq!(deadline.run(sleep(MINUTE)).await, Ok(()));
        assert_eq!(deadline.run(pending::<()>()).await, Err(DeadlineExceeded));
        assert_eq!(started.elapsed(), 2 * MINUTE);
        let was_started = Cell::new(false);
        let late = async { was_started.set(true) };
        assert_eq!(
            (deadline.run(late).await, was_started.get()),
            (Err(DeadlineExceeded), false)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn excluded_work_does_not_count() {
        let long = || excluded(sleep(60 * MINUTE));
        let work = async {
            sleep(MINUTE / 2).await;
            tokio::join!(long(), long());
            sleep(MINUTE).await;
            long().await;
        };
        assert_eq!(bounded(2 * MINUTE, work).await, Ok(()));
        let hangs = async {
            // A wait that is cancelled.
            let _ = tokio::time::timeout(MINUTE, excluded(pending::<()>())).await;
            pending::<()>().await;
        };
        let started = Instant::now();
        assert_eq!(bounded(2 * MINUTE, hangs).await, Err(DeadlineExceeded));
        assert_eq!(started.elapsed(), 3 * MINUTE);
    }

    /// A resolution waits for a permit, within a reconciliation that has a deadline too.
    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_no_other_deadline() {
        let (inner, started) = (Deadline::new(MINUTE), Instant::now());
        let work = inner.run(excluded(pending::<()>()));
        assert_eq!(bounded(5 * MINUTE, work).await, Err(DeadlineExceeded));
        assert_eq!(started.elapsed(), 5 * MINUTE);
        assert!(!inner.is_paused(), "the pause has ended with its work");
    }

    #[tokio::test]
    async fn without_a_deadline_nothing_is_different() {
        assert_eq!(excluded(async { 1 }).await, 1);
    }
}

//! The deadline of a reconciliation, which ends one that hangs.
//!
//! Work that has a deadline of its own, and may take longer, does not count: its task would end it halfway.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_process::lock;
use tokio::time::{Instant, timeout_at};

/// How often it is checked whether work that does not count has ended.
const CHECK: Duration = Duration::from_secs(1);

tokio::task_local! {
    static EXCLUDED: Arc<Excluded>;
}

/// The time that does not count.
#[derive(Debug, Default)]
struct Excluded(Mutex<Pauses>);

#[derive(Debug, Default)]
struct Pauses {
    /// The pauses that are over.
    total: Duration,
    /// How many there are at present, and since when.
    active: usize,
    since: Option<Instant>,
}

/// The deadline is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineExceeded;

/// Ends the work when it has taken this long, without what ran in [`excluded`].
///
/// # Errors
/// If it was ended.
pub async fn bounded<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, DeadlineExceeded> {
    let excluded = Arc::<Excluded>::default();
    let mut work = std::pin::pin!(EXCLUDED.scope(Arc::clone(&excluded), work));
    let start = Instant::now();
    loop {
        let next = excluded.end(start + limit);
        match timeout_at(next, &mut work).await {
            Ok(done) => return Ok(done),
            Err(_) if Instant::now() >= excluded.end(start + limit) => return Err(DeadlineExceeded),
            Err(_) => {}
        }
    }
}

/// Runs work that has a deadline of its own. The time it takes does not count for that of the reconciliation it is a part of.
pub async fn excluded<T>(work: impl Future<Output = T>) -> T {
    let _pause = EXCLUDED.try_with(Pause::start).ok();
    work.await
}

impl Excluded {
    /// The deadline as far as it is known now; never over during a pause.
    fn end(&self, end: Instant) -> Instant {
        let pauses = lock(&self.0);
        let now = Instant::now();
        let active = pauses.since.map(|since| now - since);
        let end = end + pauses.total + active.unwrap_or_default();
        if active.is_some() {
            end.max(now + CHECK)
        } else {
            end
        }
    }
}

/// A pause, until it is dropped.
struct Pause(Arc<Excluded>);

impl Pause {
    fn start(excluded: &Arc<Excluded>) -> Self {
        let mut pauses = lock(&excluded.0);
        pauses.active += 1;
        pauses.since.get_or_insert_with(Instant::now);
        Self(Arc::clone(excluded))
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut pauses = lock(&self.0.0);
        pauses.active -= 1;
        if pauses.active == 0
            && let Some(since) = pauses.since.take()
        {
            pauses.total += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_mins(15);

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_ended() {
        let start = Instant::now();
        assert_eq!(bounded(LIMIT, sleep(LIMIT * 2)).await, Err(DeadlineExceeded));
        assert_eq!(start.elapsed(), LIMIT);
        assert_eq!(bounded(LIMIT, sleep(LIMIT / 2)).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn work_with_a_deadline_of_its_own_does_not_count() {
        let long = || excluded(sleep(LIMIT * 9));
        let work = async {
            sleep(LIMIT / 4).await;
            tokio::join!(long(), long());
            sleep(LIMIT / 4).await;
            long().await;
            sleep(LIMIT / 4).await;
        };
        assert_eq!(bounded(LIMIT, work).await, Ok(()));
        let hangs = async {
            long().await;
            sleep(LIMIT * 2).await;
        };
        let start = Instant::now();
        assert_eq!(bounded(LIMIT, hangs).await, Err(DeadlineExceeded));
        assert!((LIMIT * 10..=LIMIT * 10 + CHECK).contains(&start.elapsed()));
    }

    #[tokio::test]
    async fn without_a_deadline_nothing_is_different() {
        assert_eq!(excluded(async { 1 }).await, 1);
    }
}

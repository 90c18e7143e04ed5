//! How many runs of Helm there are at a time.

use std::{num::NonZeroUsize, sync::Arc};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// How many runs are prepared or take place at least: to fetch a chart takes longer than to run Helm.
const PREPARATIONS: usize = 20;

/// A place among those that prepare a run of Helm, or wait for a permit with everything prepared. It ends when this is dropped.
#[derive(Debug)]
pub struct Preparation {
    _permit: OwnedSemaphorePermit,
}

/// Permits to run Helm, in the order of the requests. Each run takes about 60 MB of memory.
///
/// A run of tests lasts as long as the tests, and all others only as long as Helm works, or a hook that the chart puts into a
/// deployment. So one permit is never used for tests, nor for what did not end in time when it ran last, unless there is only one: slow
/// runs delay each other, and no other deployment.
#[derive(Clone, Debug)]
pub struct HelmPermits {
    all: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    preparations: Arc<Semaphore>,
}

/// A permit for one run of Helm.
#[derive(Debug)]
pub struct HelmPermit {
    _permit: OwnedSemaphorePermit,
    _slow: Option<OwnedSemaphorePermit>,
}

impl HelmPermits {
    /// Permits for this number of processes.
    pub fn new(processes: NonZeroUsize) -> Self {
        let permits = processes.get().min(Semaphore::MAX_PERMITS);
        let slow = permits.saturating_sub(1).max(1);
        Self {
            all: Arc::new(Semaphore::new(permits)),
            slow: Arc::new(Semaphore::new(slow)),
            preparations: Arc::new(Semaphore::new(permits.max(PREPARATIONS))),
        }
    }

    /// Waits until another run may be prepared: what is prepared is in memory until it runs.
    ///
    /// # Errors
    /// Never: the semaphore is not closed.
    pub async fn prepare(&self) -> Result<Preparation, AcquireError> {
        let permit = Arc::clone(&self.preparations).acquire_owned().await?;
        Ok(Preparation { _permit: permit })
    }

    /// Waits for a permit, for a run that may be slow or not.
    ///
    /// # Errors
    /// Never: the semaphores are not closed.
    pub async fn acquire(&self, is_slow: bool) -> Result<HelmPermit, AcquireError> {
        let slow = if is_slow {
            Some(Arc::clone(&self.slow).acquire_owned().await?)
        } else {
            None
        };
        let permit = Arc::clone(&self.all).acquire_owned().await?;
        Ok(HelmPermit {
            _permit: permit,
            _slow: slow,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const SLOW: bool = true;
    const FAST: bool = false;

    fn permits(processes: usize) -> HelmPermits {
        HelmPermits::new(NonZeroUsize::new(processes).unwrap())
    }

    /// What is acquired of these, one after the other; nothing is returned.
    fn acquired(processes: usize, runs: &[bool]) -> Vec<bool> {
        let permits = permits(processes);
        let mut held = Vec::new();
        for is_slow in runs {
            held.push(permits.acquire(*is_slow).now_or_never().map(Result::unwrap));
        }
        held.iter().map(Option::is_some).collect()
    }

    #[test]
    fn slow_runs_leave_a_permit_to_deployments() {
        let all = [SLOW, SLOW, FAST, FAST];
        assert_eq!(acquired(2, &all), [true, false, true, false]);
        assert_eq!(acquired(3, &all), [true, true, true, false]);
        assert_eq!(acquired(2, &[FAST, FAST, SLOW]), [true, true, false]);
        // Nothing runs at the same time anyway.
        assert_eq!(acquired(1, &all), [true, false, false, false]);
    }

    #[test]
    fn more_runs_are_prepared_than_take_place() {
        let prepared = |processes| {
            let permits = permits(processes);
            let prepare = || permits.prepare().now_or_never();
            std::iter::from_fn(prepare).collect::<Vec<_>>().len()
        };
        assert_eq!((prepared(2), prepared(50)), (PREPARATIONS, 50));
    }

    #[test]
    fn a_slow_run_that_waits_holds_nothing() {
        let permits = permits(2);
        let running = permits.acquire(SLOW).now_or_never().unwrap().unwrap();
        let mut waiting = Box::pin(permits.acquire(SLOW));
        assert!(waiting.as_mut().now_or_never().is_none());
        let deployment = permits.acquire(FAST).now_or_never().unwrap().unwrap();
        drop(waiting);
        drop((running, deployment));
        let _second = permits.acquire(SLOW).now_or_never().unwrap().unwrap();
        assert!(permits.acquire(FAST).now_or_never().is_some());
    }
}

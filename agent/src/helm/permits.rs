//! How many runs of Helm there are at a time.

use std::{num::NonZeroUsize, sync::Arc};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::request::Action;

/// Permits to run Helm, in the order of the requests. Each run takes about 60 MB of memory.
///
/// A run of tests lasts as long as the tests, and all others only as long as Helm works, or a hook that the chart puts into a
/// deployment. So one permit is never used for tests, unless there is only one: slow tests delay other tests, and no deployment.
#[derive(Clone, Debug)]
pub struct HelmPermits {
    all: Arc<Semaphore>,
    tests: Arc<Semaphore>,
}

/// A permit for one run of Helm.
#[derive(Debug)]
pub struct HelmPermit {
    _permit: OwnedSemaphorePermit,
    _test: Option<OwnedSemaphorePermit>,
}

impl HelmPermits {
    /// This number of permits.
    pub fn new(processes: NonZeroUsize) -> Self {
        let permits = processes.get().min(Semaphore::MAX_PERMITS);
        let tests = permits.saturating_sub(1).max(1);
        Self {
            all: Arc::new(Semaphore::new(permits)),
            tests: Arc::new(Semaphore::new(tests)),
        }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// Never: the semaphores are not closed.
    pub async fn acquire(&self, action: &Action) -> Result<HelmPermit, AcquireError> {
        let test = match action {
            Action::Test(_) => Some(Arc::clone(&self.tests).acquire_owned().await?),
            _ => None,
        };
        let permit = Arc::clone(&self.all).acquire_owned().await?;
        Ok(HelmPermit {
            _permit: permit,
            _test: test,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::helm::request::{Test, Uninstall};

    fn test() -> Action {
        Action::Test(Test::default())
    }

    fn other() -> Action {
        Action::Uninstall(Uninstall {
            keeps_history: false,
            description: String::new(),
            runs_hooks: true,
        })
    }

    /// What is acquired of these, one after the other; nothing is returned.
    fn acquired(processes: usize, actions: &[Action]) -> Vec<bool> {
        let permits = HelmPermits::new(NonZeroUsize::new(processes).unwrap());
        let mut held = Vec::new();
        for action in actions {
            held.push(permits.acquire(action).now_or_never().map(Result::unwrap));
        }
        held.iter().map(Option::is_some).collect()
    }

    #[test]
    fn tests_leave_a_permit_to_deployments() {
        let all = [test(), test(), other(), other()];
        assert_eq!(acquired(2, &all), [true, false, true, false]);
        assert_eq!(acquired(3, &all), [true, true, true, false]);
        assert_eq!(acquired(2, &[other(), other(), test()]), [true, true, false]);
        // Nothing runs at the same time anyway.
        assert_eq!(acquired(1, &all), [true, false, false, false]);
    }

    #[test]
    fn a_test_that_waits_holds_nothing() {
        let permits = HelmPermits::new(NonZeroUsize::new(2).unwrap());
        let running = permits.acquire(&test()).now_or_never().unwrap().unwrap();
        let (second, third) = (test(), test());
        let mut waiting = Box::pin(permits.acquire(&second));
        assert!(waiting.as_mut().now_or_never().is_none());
        let deployment = permits.acquire(&other()).now_or_never().unwrap().unwrap();
        drop(waiting);
        drop((running, deployment));
        let _second = permits.acquire(&third).now_or_never().unwrap().unwrap();
        assert!(permits.acquire(&other()).now_or_never().is_some());
    }
}

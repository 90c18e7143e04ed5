//! Choosing a version from a list that may be long.
//!
//! One answer can serve thousands of look-ups of a tenant at the same moment. Each of them then goes through the list, so the
//! number of threads that do this is bounded, with a share for each namespace.

use std::{
    future::pending, num::NonZeroUsize, panic::resume_unwind, sync::Arc, thread::available_parallelism,
};

use helmops_shared::runtime::FairSemaphore;

use super::access::Access;

/// The longest list that is gone through without a permit, beside everything else. A version takes up to 5 µs: a list is
/// gone through five times at most, and each time each version is parsed. So this takes a third of a millisecond.
const MAX_INLINE: usize = 64;

/// Threads that choose at a time, per processor; see [`crate::compute`].
const PER_PROCESSOR: usize = 4;

/// The permits to choose from a long list. Clones share them.
#[derive(Clone, Debug)]
pub struct Choices {
    permits: FairSemaphore<Arc<str>>,
}

impl Default for Choices {
    /// As many permits as the machine can serve; one namespace leaves a processor to others.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            permits: FairSemaphore::new(processors * PER_PROCESSOR, processors - 1),
        }
    }
}

impl Choices {
    /// Does the work for a list of so many versions. A long one waits for a permit of the namespace, while the clock of
    /// the HelmOp stands, and is gone through on a thread of its own.
    pub async fn among<T: Send + 'static>(
        &self,
        access: &Access,
        len: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if len <= MAX_INLINE {
            return work();
        }
        let permit = self.permits.acquire(Arc::clone(&access.namespace));
        let permit = access.clock.stopped(permit).await;
        let thread = tokio::task::spawn_blocking(move || {
            // The thread keeps it, so that a look-up that is given up frees no permit while the work goes on.
            let _permit = permit;
            work()
        });
        match thread.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(chosen) => chosen,
            Err(Ok(panic)) => resume_unwind(panic),
            // The work was not begun: the process ends.
            Err(Err(_)) => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use futures::{FutureExt, future::join_all};

    use super::*;

    const LONG: usize = MAX_INLINE + 1;

    fn tenant() -> Access {
        Access {
            namespace: "a".into(),
            ..Access::default()
        }
    }

    #[tokio::test]
    async fn long_lists_are_gone_through_elsewhere() {
        let choices = Choices::default();
        let place = || thread::current().id();
        assert_eq!(choices.among(&tenant(), 1, place).await, place());
        assert_ne!(choices.among(&tenant(), LONG, place).await, place());
    }

    #[tokio::test]
    async fn one_namespace_has_its_share_of_threads() {
        let choices = Choices {
            permits: FairSemaphore::new(4, 2),
        };
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(5));
                now.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let tenant = tenant();
        join_all((0..50).map(|_| choices.among(&tenant, LONG, work()))).await;
        assert!(most.load(Ordering::SeqCst) <= 2, "{most:?}");
        assert_eq!(choices.permits.keys(), 0);
    }

    #[tokio::test]
    async fn a_look_up_that_is_given_up_keeps_its_permit_until_its_thread_ends() {
        let choices = Choices {
            permits: FairSemaphore::new(1, 1),
        };
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let tenant = tenant();
        let given_up = choices.among(&tenant, LONG, move || ended.recv().is_err());
        assert_eq!(given_up.now_or_never(), None);
        assert_eq!(choices.permits.keys(), 1);
        let mut next = std::pin::pin!(choices.among(&tenant, LONG, || 1));
        assert!(futures::poll!(&mut next).is_pending());
        drop(end);
        assert_eq!(next.await, 1);
    }

    #[tokio::test]
    async fn a_panic_is_passed_on() {
        let choices = Choices::default();
        let tenant = tenant();
        let work = choices.among(&tenant, LONG, || panic!("broken"));
        let panic: Result<(), _> = std::panic::AssertUnwindSafe(work).catch_unwind().await;
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"broken"));
        assert_eq!(choices.permits.keys(), 0);
    }
}

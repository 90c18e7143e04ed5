//! Selects a version from a list that may be long.
//!
//! One response can complete thousands of resolutions of a tenant at the same time. Each of them iterates over the list, so
//! the number of threads for this is limited, with a share for each namespace.

use std::{
    future::pending, num::NonZeroUsize, panic::resume_unwind, sync::Arc, thread::available_parallelism,
};

use helmops_fair::{FairSemaphore, deadline::excluded};

/// The longest list that is processed without a permit, on the thread of the task. A version takes up to 5 µs: a list is
/// iterated at most five times, and each time each version is parsed. So this takes a third of a millisecond.
const MAX_INLINE: usize = 64;

/// Concurrent threads per processor; see [`helmops_runtime::compute`].
const PER_PROCESSOR: usize = 4;

/// The permits to select from a long list. Clones share them.
#[derive(Clone, Debug)]
pub struct SelectionPermits {
    permits: FairSemaphore<Arc<str>>,
}

impl Default for SelectionPermits {
    /// As many permits as the machine can run; one namespace leaves a processor to others.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            permits: FairSemaphore::new(processors * PER_PROCESSOR, processors - 1),
        }
    }
}

impl SelectionPermits {
    /// Runs `work` for a list of `len` versions. A long list waits for a permit of the namespace, while the deadline of the
    /// HelmOp is paused, and is processed on a separate thread.
    pub async fn run<T: Send + 'static>(
        &self,
        namespace: &Arc<str>,
        len: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if len <= MAX_INLINE {
            return work();
        }
        let permit = excluded(self.permits.acquire(Arc::clone(namespace))).await;
        let thread = tokio::task::spawn_blocking(move || {
            // The thread holds it, so that a cancelled resolution releases no permit while the work continues.
            let _permit = permit;
            work()
        });
        match thread.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(selected) => selected,
            Err(Ok(panic)) => resume_unwind(panic),
            // The work was not started: the process is shutting down.
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

    fn tenant() -> Arc<str> {
        "a".into()
    }

    #[tokio::test]
    async fn long_lists_are_processed_on_another_thread() {
        let selections = SelectionPermits::default();
        let thread_id = || thread::current().id();
        assert_eq!(selections.run(&tenant(), 1, thread_id).await, thread_id());
        assert_ne!(selections.run(&tenant(), LONG, thread_id).await, thread_id());
    }

    #[tokio::test]
    async fn a_namespace_uses_at_most_its_share_of_threads() {
        let selections = SelectionPermits {
            permits: FairSemaphore::new(4, 2),
        };
        let (current, max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let (current, max) = (Arc::clone(&current), Arc::clone(&max));
            move || {
                max.fetch_max(current.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(5));
                current.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let tenant = tenant();
        join_all((0..50).map(|_| selections.run(&tenant, LONG, work()))).await;
        assert!(max.load(Ordering::SeqCst) <= 2, "{max:?}");
        assert_eq!(selections.permits.keys(), 0);
    }

    #[tokio::test]
    async fn a_cancelled_resolution_holds_its_permit_until_its_thread_ends() {
        let selections = SelectionPermits {
            permits: FairSemaphore::new(1, 1),
        };
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let tenant = tenant();
        let cancelled = selections.run(&tenant, LONG, move || ended.recv().is_err());
        assert_eq!(cancelled.now_or_never(), None);
        assert_eq!(selections.permits.keys(), 1);
        let mut next = std::pin::pin!(selections.run(&tenant, LONG, || 1));
        assert!(futures::poll!(&mut next).is_pending());
        drop(end);
        assert_eq!(next.await, 1);
    }

    #[tokio::test]
    async fn a_panic_is_propagated() {
        let selections = SelectionPermits::default();
        let tenant = tenant();
        let work = selections.run(&tenant, LONG, || panic!("broken"));
        let panic: Result<(), _> = std::panic::AssertUnwindSafe(work).catch_unwind().await;
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"broken"));
        assert_eq!(selections.permits.keys(), 0);
    }
}

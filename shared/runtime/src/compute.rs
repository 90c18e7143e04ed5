//! Permits for long computations: the target clusters of a Bundle, the templates of its values, and selections from long lists
//! of versions.
//!
//! Computations do not block the threads that drive requests, watches and probes. A namespace runs one computation at a time
//! (more on machines with many cores), so that a tenant never takes the CPUs from all others.

use std::{
    future::pending, num::NonZeroUsize, panic::resume_unwind, thread::available_parallelism, time::Duration,
};

use helmops_fair::{FairPermit, FairSemaphore, deadline::excluded};
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::JoinError,
};

use crate::workers::{Interrupted, Namespace, WorkerPermit};

/// Concurrent computations per CPU: with more than one, the scheduler of the kernel interrupts a tenant that computes up to its
/// limit in favour of others that compute less.
const PER_PROCESSOR: usize = 4;

/// The permits to compute.
#[derive(Clone, Debug)]
pub struct Compute {
    permits: FairSemaphore<Namespace>,
}

/// The permit for one computation.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "held until it is dropped")] FairPermit<Namespace>);

impl Default for Compute {
    /// As many permits as the CPUs of this machine can serve.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            permits: FairSemaphore::new(processors * PER_PROCESSOR, processors - 1),
        }
    }
}

impl Compute {
    /// A permit for the namespace of a worker permit, which is released while waiting.
    ///
    /// # Errors
    /// If the process stops, or is no longer the leader.
    pub async fn permit(&self, worker: &mut WorkerPermit) -> Result<Permit, Interrupted> {
        let namespace = Namespace::clone(worker.namespace());
        let permit = match self.permits.try_acquire(Namespace::clone(&namespace)) {
            Some(permit) => permit,
            None => worker.release_while(self.permits.acquire(namespace)).await?,
        };
        Ok(Permit(permit))
    }

    /// Runs a computation of a namespace on a separate thread, for a task that holds no worker permit. A deadline is paused while it
    /// waits for its permit.
    pub async fn on_thread<T: Send + 'static>(
        &self,
        namespace: &Namespace,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let permit = excluded(self.permits.acquire(Namespace::clone(namespace))).await;
        let thread = tokio::task::spawn_blocking(move || {
            // The thread holds it, so that a cancelled task releases no permit while the work continues.
            let _permit = permit;
            work()
        });
        match thread.await.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => resume_unwind(panic),
            // The work was not started: the process is shutting down.
            Err(Err(_)) => pending().await,
        }
    }
}

/// Runs a computation with a permit, while other threads take over the tasks of this one.
pub fn run<T>(_: &Permit, work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        // There is no other thread to take over.
        _ => work(),
    }
}

/// The CPU time of this thread. A computation in [`run`] stays on one thread. Time in which the thread was ready but not
/// scheduled is not counted.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::{
        num::NonZeroU16,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
    };

    use futures::{FutureExt, future::join_all};
    use helmops_kube::lease::Leadership;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::workers::Workers;

    /// A thread that waits uses no CPU time, however long it waits, and one that computes does.
    #[test]
    fn waiting_takes_no_cpu_time() {
        let start = cpu_time();
        thread::sleep(Duration::from_millis(300));
        assert!(cpu_time().saturating_sub(start) < Duration::from_millis(200));
        while cpu_time().saturating_sub(start) < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
    }

    /// One tenant starts more computations than there are threads, and none ends before another tenant has computed.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_tenant_with_long_computations_blocks_no_other() {
        let workers = Workers::new(
            NonZeroU16::new(50).unwrap(),
            Leadership::always(),
            CancellationToken::new(),
        );
        workers.open();
        let compute = Compute::default();
        let mut hostile = JoinSet::new();
        let mut ends = Vec::new();
        for _ in 0..20 {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let (compute, mut worker) = (compute.clone(), workers.acquire("hostile".into()).await.unwrap());
            hostile.spawn(async move {
                // Ends when its sender is dropped.
                let permit = compute.permit(&mut worker).await?;
                Ok::<_, Interrupted>(run(&permit, || ended.recv().is_err()))
            });
        }
        let mut worker = workers.acquire("honest".into()).await.unwrap();
        let honest = tokio::time::timeout(Duration::from_secs(20), compute.permit(&mut worker)).await;
        assert_eq!(run(&honest.unwrap().unwrap(), || 1), 1);
        drop(ends);
        while let Some(done) = hostile.join_next().await {
            assert_eq!(done.unwrap(), Ok(true));
        }
    }

    fn compute(total: usize, share: usize) -> Compute {
        Compute {
            permits: FairSemaphore::new(total, share),
        }
    }

    #[tokio::test]
    async fn a_namespace_uses_at_most_its_share_of_threads() {
        let compute = compute(4, 2);
        let (current, max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let (current, max) = (Arc::clone(&current), Arc::clone(&max));
            move || {
                max.fetch_max(current.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(5));
                current.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let tenant = Namespace::from("a");
        join_all((0..50).map(|_| compute.on_thread(&tenant, work()))).await;
        assert!(max.load(Ordering::SeqCst) <= 2, "{max:?}");
        assert_eq!(compute.permits.keys(), 0);
    }

    #[tokio::test]
    async fn a_cancelled_task_holds_its_permit_until_its_thread_ends() {
        let (compute, tenant) = (compute(1, 1), Namespace::from("a"));
        let (end, ended) = mpsc::channel::<()>();
        let cancelled = compute.on_thread(&tenant, move || ended.recv().is_err());
        assert_eq!(cancelled.now_or_never(), None);
        assert_eq!(compute.permits.keys(), 1);
        let mut next = std::pin::pin!(compute.on_thread(&tenant, || 1));
        assert!(futures::poll!(&mut next).is_pending());
        drop(end);
        assert_eq!(next.await, 1);
    }

    #[tokio::test]
    async fn a_panic_is_propagated() {
        let (compute, tenant) = (Compute::default(), Namespace::from("a"));
        let work = compute.on_thread(&tenant, || panic!("broken"));
        let panic: Result<(), _> = std::panic::AssertUnwindSafe(work).catch_unwind().await;
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"broken"));
        assert_eq!(compute.permits.keys(), 0);
    }
}

//! Computation that may take long for one object: which clusters a Bundle goes to, and the templates of its values.
//!
//! It runs beside the threads that drive requests, watches and probes. A namespace computes one thing at a time (more on
//! machines with many cores), so that a tenant never takes the processors from all others.

use std::{num::NonZeroUsize, thread::available_parallelism, time::Duration};

use helmops_shared::runtime::{FairPermit, FairSemaphore};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::workers::{Interrupted, Namespace, WorkerPermit};

/// Threads that compute at a time, per processor: with more than one, a tenant that computes to its limit is interrupted
/// by the scheduler of the kernel for others that compute less.
const PER_PROCESSOR: usize = 4;

/// The permits to compute.
#[derive(Clone, Debug)]
pub struct Compute {
    permits: FairSemaphore<Namespace>,
}

/// The right to compute once.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "held until it is dropped")] FairPermit<Namespace>);

impl Compute {
    /// As many permits as the machine can serve.
    pub fn new() -> Self {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            permits: FairSemaphore::new(processors * PER_PROCESSOR, processors - 1),
        }
    }

    /// A permit for the namespace of a place, which is free for others until there is one.
    ///
    /// # Errors
    /// Where the process stops, or does not lead any more.
    pub async fn permit(&self, place: &mut WorkerPermit) -> Result<Permit, Interrupted> {
        let namespace = Namespace::clone(place.namespace());
        let permit = match self.permits.try_acquire(Namespace::clone(&namespace)) {
            Some(permit) => permit,
            None => place.release_while(self.permits.acquire(namespace)).await?,
        };
        Ok(Permit(permit))
    }
}

/// Computes with a permit, while other threads drive what this one did.
pub fn run<T>(_: &Permit, work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        // There is no other thread.
        _ => work(),
    }
}

/// The processor time that this thread has used. What [`run`] runs stays on one thread. Time in which the thread was
/// ready and others ran is no part of it.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU16, sync::mpsc};

    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{lease::Leadership, workers::Workers};

    /// A thread that waits uses no processor time, however long it waits, and one that computes does.
    #[test]
    fn waiting_costs_no_processor_time() {
        let start = processor_time();
        std::thread::sleep(Duration::from_millis(300));
        assert!(processor_time().saturating_sub(start) < Duration::from_millis(200));
        while processor_time().saturating_sub(start) < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
    }

    /// As many computations of one tenant as there are threads, none of which ends before another tenant has had a turn.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_tenant_that_computes_for_long_holds_up_no_other() {
        let workers = Workers::new(
            NonZeroU16::new(50).unwrap(),
            Leadership::always(),
            CancellationToken::new(),
        );
        workers.open();
        let compute = Compute::new();
        let mut hostile = JoinSet::new();
        let mut ends = Vec::new();
        for _ in 0..20 {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let (compute, mut place) = (compute.clone(), workers.place("hostile".into()).await.unwrap());
            hostile.spawn(async move {
                // Ends when its sender is dropped.
                let permit = compute.permit(&mut place).await?;
                Ok::<_, Interrupted>(run(&permit, || ended.recv().is_err()))
            });
        }
        let mut place = workers.place("honest".into()).await.unwrap();
        let honest = tokio::time::timeout(Duration::from_secs(20), compute.permit(&mut place)).await;
        assert_eq!(run(&honest.unwrap().unwrap(), || 1), 1);
        drop(ends);
        while let Some(done) = hostile.join_next().await {
            assert_eq!(done.unwrap(), Ok(true));
        }
    }
}

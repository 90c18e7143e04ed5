//! How many runs of Helm there are at a time, shared between tenants.
//!
//! ```text
//! prepare ─► acquire ─► run ─┬─► it ends within a while
//!                            └─► it waits for hooks or tests: its permit goes to the next one, and it has a place among those that wait
//! ```

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use helmops_fair::{FairPermit, FairSemaphore};
use tokio::time::sleep;

/// The namespace of the Bundle: whose share a run uses.
pub type Tenant = Arc<str>;

/// How many runs are prepared or take place at least: to fetch a chart takes longer than to run Helm.
const PREPARATIONS: usize = 20;
/// Of those that are prepared, a tenant has one in this many at most.
const SHARES: usize = 2;
/// How many runs wait for hooks and tests for each permit. They need little memory and no processor.
const WAITING: usize = 2;
/// How long a run works at most. After that, it waits for a hook: Helm itself takes seconds.
const WORKS: Duration = Duration::from_mins(2);

/// A place among those that prepare a run of Helm, or wait for a permit with everything prepared. It ends when this is dropped.
#[derive(Debug)]
pub struct Preparation {
    _permit: FairPermit<Tenant>,
}

/// Permits to run Helm: so many for a tenant, and one more for others.
///
/// A run that lasts longer than [`WORKS`] passes its permit on as soon as it has a place among the runs that wait. Runs that are known to
/// wait, such as tests, never have another place. So hooks that hang delay the hooks of others at most.
#[derive(Clone, Debug)]
pub struct HelmPermits {
    running: FairSemaphore<Tenant>,
    waiting: FairSemaphore<Tenant>,
    preparations: FairSemaphore<Tenant>,
}

/// A permit for one run of Helm.
#[derive(Debug)]
pub struct HelmPermit {
    permits: HelmPermits,
    tenant: Tenant,
    running: Option<FairPermit<Tenant>>,
    waiting: Option<FairPermit<Tenant>>,
}

impl HelmPermits {
    /// Permits for this number of processes of a tenant.
    pub fn new(processes: NonZeroUsize) -> Self {
        let processes = processes.get();
        let waiting = processes.saturating_mul(WAITING);
        let preparations = processes.max(PREPARATIONS);
        Self {
            running: FairSemaphore::new(processes.saturating_add(1), processes),
            waiting: FairSemaphore::new(waiting, waiting / SHARES),
            preparations: FairSemaphore::new(preparations, preparations / SHARES),
        }
    }

    /// Waits until another run may be prepared: what is prepared is in memory until it runs.
    pub async fn prepare(&self, tenant: &Tenant) -> Preparation {
        Preparation {
            _permit: self.preparations.acquire(Arc::clone(tenant)).await,
        }
    }

    /// Waits for a permit. `waits`: the run is known to wait for hooks or tests.
    pub async fn acquire(&self, tenant: &Tenant, waits: bool) -> HelmPermit {
        let of_tenant = || Arc::clone(tenant);
        let (running, waiting) = if waits {
            (None, Some(self.waiting.acquire(of_tenant()).await))
        } else {
            (Some(self.running.acquire(of_tenant()).await), None)
        };
        HelmPermit {
            permits: self.clone(),
            tenant: of_tenant(),
            running,
            waiting,
        }
    }
}

impl HelmPermit {
    /// Does the work, and passes the permit on when the work only waits any more.
    pub async fn during<T>(mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        if self.waiting.is_none() {
            let place = async {
                sleep(WORKS).await;
                self.permits.waiting.acquire(Arc::clone(&self.tenant)).await
            };
            tokio::select! {
                biased;
                done = &mut work => return done,
                place = place => self.waiting = Some(place),
            }
            self.running = None;
        }
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;

    const WAITS: bool = true;
    const WORKS_ONLY: bool = false;

    fn permits(processes: usize) -> HelmPermits {
        HelmPermits::new(NonZeroUsize::new(processes).unwrap())
    }

    /// Which of these get a permit, one after the other; nothing is returned.
    fn acquired(processes: usize, runs: &[(&str, bool)]) -> Vec<bool> {
        let permits = permits(processes);
        let mut held = Vec::new();
        for (tenant, waits) in runs {
            held.push(permits.acquire(&Arc::from(*tenant), *waits).now_or_never());
        }
        held.iter().map(Option::is_some).collect()
    }

    #[test]
    fn a_tenant_leaves_a_permit_to_others() {
        let runs = |tenants: &str| -> Vec<bool> {
            let tenants: Vec<_> = tenants
                .split_terminator("")
                .skip(1)
                .map(|tenant| (tenant, WORKS_ONLY))
                .collect();
            acquired(2, &tenants)
        };
        assert_eq!(runs("aaab"), [true, true, false, true]);
        assert_eq!(runs("abcd"), [true, true, true, false]);
        assert_eq!(
            acquired(1, &[("a", WORKS_ONLY), ("a", WORKS_ONLY), ("b", WORKS_ONLY)]),
            [true, false, true]
        );
    }

    #[test]
    fn runs_that_wait_take_no_permit_of_those_that_work() {
        let waits: Vec<_> = ["a", "a", "a", "b", "b", "c"]
            .map(|tenant| (tenant, WAITS))
            .into();
        let all = [waits, vec![("a", WORKS_ONLY), ("c", WORKS_ONLY)]].concat();
        assert_eq!(
            acquired(2, &all),
            [true, true, false, true, true, false, true, true]
        );
    }

    #[test]
    fn a_tenant_leaves_preparations_to_others() {
        let prepared = |processes| {
            let permits = permits(processes);
            let tenant = Tenant::from("a");
            let prepare = || permits.prepare(&tenant).now_or_never();
            std::iter::from_fn(prepare).collect::<Vec<_>>().len()
        };
        assert_eq!((prepared(2), prepared(50)), (PREPARATIONS / 2, 25));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_lasts_passes_its_permit_on_while_there_is_a_place_for_those_that_wait() {
        let permits = permits(1);
        let honest = Tenant::from("honest");
        let is_free = || permits.acquire(&honest, WORKS_ONLY).now_or_never().is_some();
        let mut hanging = Vec::new();
        for pair in [["a", "b"], ["c", "d"]] {
            for tenant in pair {
                assert!(is_free(), "{tenant}");
                let permit = permits
                    .acquire(&Tenant::from(tenant), WORKS_ONLY)
                    .now_or_never()
                    .unwrap();
                hanging.push(Box::pin(permit.during(pending::<()>())));
            }
            poll(&mut hanging);
            assert!(!is_free());
            advance(WORKS).await;
            poll(&mut hanging);
        }
        // Two wait, and two keep their permits until one of those ends.
        assert!(!is_free());
        drop(hanging.swap_remove(0));
        poll(&mut hanging);
        assert!(is_free());
    }

    fn poll<F: Future<Output = ()>>(runs: &mut [std::pin::Pin<Box<F>>]) {
        for run in runs {
            assert!(run.as_mut().now_or_never().is_none());
        }
    }
}

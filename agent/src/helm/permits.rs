//! How many runs of Helm there are at a time, shared between tenants.
//!
//! ```text
//! prepare ─► acquire ─► run ─┬─► it ends within a while
//!                            └─► it waits for hooks or tests: ─┬─► its permit goes to the next one, and it has a place among those that wait
//!                                                              └─► there is no place, and others have waited long enough: it is ended
//! ```

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use helmops_fair::{FairPermit, FairSemaphore};
use helmops_helm::{
    Tenant,
    child::{CROWDED, ChildProcess},
};
use helmops_process::lock;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// How many runs are prepared or take place at least: to fetch a chart takes longer than to run Helm.
const PREPARATIONS: usize = 20;
/// Of those that are prepared or that wait, a tenant has one in this many at most.
const SHARES: usize = 2;
/// How long a run works at most. After that, it waits for a hook: Helm itself takes seconds.
const WORKS: Duration = Duration::from_secs(30);
/// How often it is looked at meanwhile.
const CHECK: Duration = Duration::from_secs(5);
/// Bytes that a run which waits may use: its garbage is collected then.
pub const WAITING_MEMORY: u64 = 64 << 20;

/// A place among those that prepare a run of Helm, or wait for a permit with everything prepared. It ends when this is dropped.
#[derive(Debug)]
pub struct Preparation {
    _permit: FairPermit<Tenant>,
}

/// Permits to run Helm: so many for a tenant, and one more for others.
///
/// A run that lasts longer than [`WORKS`] passes its permit on as soon as it has a place among the runs that wait, and needs no more than
/// [`WAITING_MEMORY`]. If others still wait for a permit after [`CROWDED`], it is ended. What is known to wait has such a place before it
/// starts. Tenants of which a run waits leave a permit to the others together. So hooks that hang delay others once by [`WORKS`], and by
/// [`CROWDED`] if tenants have more of them than there are places.
#[derive(Clone, Debug)]
pub struct HelmPermits {
    running: FairSemaphore<Tenant>,
    waiting: FairSemaphore<Tenant>,
    /// What is known to wait leaves permits to what works also while it works itself.
    slow: FairSemaphore<Tenant>,
    /// How many runs of tenants of which a run waits work at a time: one fewer than all.
    of_waiting: usize,
    /// Of what is known to wait: it is in memory for as long as it waits, and leaves the others to what works.
    slow_preparations: FairSemaphore<Tenant>,
    preparations: FairSemaphore<Tenant>,
    held_back: Arc<HeldBack>,
}

/// Runs that do not start because tenants of which a run waits have enough of them.
#[derive(Debug, Default)]
struct HeldBack {
    /// One run after the other is checked: two would hold each other back.
    checking: Mutex<()>,
    /// How many there are.
    count: AtomicUsize,
    /// Notifies of a run that has ended, or that only waits.
    released: Notify,
}

/// Notifies when it is dropped.
#[derive(Debug)]
struct NotifiesOnDrop(Arc<HeldBack>);

impl Drop for NotifiesOnDrop {
    fn drop(&mut self) {
        self.0.released.notify_waiters();
    }
}

/// One of [`HeldBack::count`].
struct Counted<'h>(&'h HeldBack);

impl<'h> Counted<'h> {
    fn new(held_back: &'h HeldBack) -> Self {
        held_back.count.fetch_add(1, Relaxed);
        Self(held_back)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Relaxed);
    }
}

/// A permit for one run of Helm.
#[derive(Debug)]
pub struct HelmPermit {
    permits: HelmPermits,
    tenant: Tenant,
    /// The permit, and that of `slow`.
    running: Option<(FairPermit<Tenant>, Option<FairPermit<Tenant>>)>,
    waiting: Option<FairPermit<Tenant>>,
    // After the permits: fields are dropped in this order.
    _notifies: NotifiesOnDrop,
}

impl HelmPermits {
    /// Permits for this number of processes of a tenant, and for so many that wait.
    pub fn new(processes: NonZeroUsize, waiting: usize) -> Self {
        let processes = processes.get();
        let preparations = processes.max(PREPARATIONS);
        Self {
            running: FairSemaphore::new(processes.saturating_add(1), processes),
            waiting: FairSemaphore::new(waiting, waiting / SHARES),
            slow: FairSemaphore::new(processes.div_ceil(SHARES), 1),
            of_waiting: processes,
            held_back: Arc::default(),
            preparations: FairSemaphore::new(preparations, preparations / SHARES),
            slow_preparations: FairSemaphore::new(waiting, waiting / SHARES),
        }
    }

    /// Waits until another run may be prepared: what is prepared is in memory until it runs. `waits`: the run is known to wait for hooks.
    pub async fn prepare(&self, tenant: &Tenant, waits: bool) -> Preparation {
        let preparations = if waits {
            &self.slow_preparations
        } else {
            &self.preparations
        };
        Preparation {
            _permit: preparations.acquire(Arc::clone(tenant)).await,
        }
    }

    /// Waits for a permit. `waits`: the run is known to wait for hooks or tests.
    pub async fn acquire(&self, tenant: &Tenant, waits: bool) -> HelmPermit {
        // After what it holds, also if this future is dropped.
        let notifies = NotifiesOnDrop(Arc::clone(&self.held_back));
        let (mut waiting, mut slow) = (None, None);
        if waits {
            waiting = Some(self.waiting.acquire(Arc::clone(tenant)).await);
            slow = Some(self.slow.acquire(Arc::clone(tenant)).await);
        }
        let running = loop {
            let mut released = std::pin::pin!(self.held_back.released.notified());
            released.as_mut().enable();
            let running = self.running.acquire(Arc::clone(tenant)).await;
            if let Some(running) = self.unless_too_many(tenant, running) {
                break running;
            }
            let _counted = Counted::new(&self.held_back);
            released.await;
        };
        HelmPermit {
            permits: self.clone(),
            tenant: Arc::clone(tenant),
            running: Some((running, slow)),
            waiting,
            _notifies: notifies,
        }
    }

    /// A permit, unless tenants of which a run waits, this one among them, have too many with it.
    fn unless_too_many(&self, tenant: &Tenant, running: FairPermit<Tenant>) -> Option<FairPermit<Tenant>> {
        let _checking = lock(&self.held_back.checking);
        let waits = |tenant: &Tenant| self.waiting.holds(tenant);
        let is_too_many = waits(tenant) && self.running.held_by(waits) > self.of_waiting;
        (!is_too_many).then_some(running)
    }

    /// Whether a run waits for one of the others to end.
    fn has_waiters(&self) -> bool {
        self.running.has_waiters() || self.held_back.count.load(Relaxed) > 0
    }
}

impl HelmPermit {
    /// Does the work, which runs this child, and passes the permit on when the work only waits any more.
    pub async fn during<T>(mut self, child: &ChildProcess, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = self.pass_on(child) => {}
        }
        work.await
    }

    /// Ends when the permit was passed on, or the child is to end.
    async fn pass_on(&mut self, child: &ChildProcess) {
        sleep(WORKS).await;
        child.collect_garbage();
        let (permits, since) = (self.permits.clone(), Instant::now());
        // Before what has not started yet.
        let mut place = std::pin::pin!(permits.waiting.acquire_first(Arc::clone(&self.tenant)));
        loop {
            let is_small = child.memory().is_none_or(|bytes| bytes <= WAITING_MEMORY);
            if self.waiting.is_some() && is_small {
                self.running = None;
                permits.held_back.released.notify_waiters();
                return;
            }
            if since.elapsed() >= CROWDED && permits.has_waiters() {
                return child.crowd_out();
            }
            tokio::select! {
                biased;
                place = &mut place, if self.waiting.is_none() => self.waiting = Some(place),
                () = sleep(CHECK) => {}
            }
        }
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
        HelmPermits::new(NonZeroUsize::new(processes).unwrap(), 2 * processes)
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

    #[tokio::test(start_paused = true)]
    async fn what_is_known_to_wait_starts_only_with_a_place() {
        let permits = permits(1);
        let [a, b, c] = ["a", "b", "c"].map(Tenant::from);
        let child = ChildProcess::default();
        let mut waiting = Vec::new();
        for tenant in [&a, &b] {
            // A render of each takes memory and processors, so it needs a permit as well, of which it leaves one.
            let permit = permits.acquire(tenant, WAITS).now_or_never().unwrap();
            waiting.push(Box::pin(permit.during(&child, pending::<()>())));
            assert!(permits.acquire(&c, WAITS).now_or_never().is_none());
            assert!(permits.acquire(&c, WORKS_ONLY).now_or_never().is_some());
            poll(&mut waiting);
            advance(WORKS).await;
            poll(&mut waiting);
        }
        for tenant in [&a, &b] {
            assert!(permits.acquire(tenant, WORKS_ONLY).now_or_never().is_some());
        }
        assert!(permits.acquire(&c, WAITS).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_of_which_a_run_waits_leave_permits_to_others() {
        let permits = permits(2);
        let [a, b, honest] = ["a", "b", "honest"].map(Tenant::from);
        let child = ChildProcess::default();
        let acquire = |tenant| permits.acquire(tenant, WORKS_ONLY).now_or_never();
        let start = |tenant| Box::pin(acquire(tenant).unwrap().during(&child, pending::<()>()));
        let mut hanging = vec![start(&a), start(&b), start(&a)];
        assert!(acquire(&honest).is_none());
        let mut next = [&a, &b].map(|tenant| Box::pin(permits.acquire(tenant, WORKS_ONLY)));
        assert!(next.iter_mut().all(|next| next.as_mut().now_or_never().is_none()));
        poll(&mut hanging);
        advance(WORKS).await;
        poll(&mut hanging);
        let next = next.map(FutureExt::now_or_never);
        assert!(next.iter().all(Option::is_some));
        assert!(acquire(&a).is_none() && acquire(&b).is_none());
        let held = acquire(&honest);
        assert!(held.is_some() && acquire(&honest).is_none());
    }

    /// They are not in a queue, but they wait.
    #[tokio::test(start_paused = true)]
    async fn runs_that_hang_are_ended_for_those_that_are_held_back_too() {
        let permits = permits(1);
        let [a, b] = ["a", "b"].map(Tenant::from);
        let children: [ChildProcess; 3] = std::array::from_fn(|_| ChildProcess::default());
        let mut hanging = Vec::new();
        let start = |tenant, child| {
            let permit = permits.acquire(tenant, WORKS_ONLY).now_or_never().unwrap();
            Box::pin(permit.during(child, pending::<()>()))
        };
        hanging.extend([start(&a, &children[0]), start(&b, &children[1])]);
        poll(&mut hanging);
        advance(WORKS).await;
        poll(&mut hanging);
        // All places are taken.
        hanging.push(start(&a, &children[2]));
        let mut next = Box::pin(permits.acquire(&b, WORKS_ONLY));
        assert!(next.as_mut().now_or_never().is_none());
        for pause in [WORKS, CROWDED, CHECK] {
            poll(&mut hanging);
            advance(pause).await;
        }
        poll(&mut hanging);
        assert!(children[2].is_crowded_out() && !children[0].is_crowded_out());
        drop(hanging.pop());
        assert!(next.as_mut().now_or_never().is_some());
    }

    #[test]
    fn a_tenant_leaves_preparations_to_others() {
        let prepared = |processes, waits| {
            let permits = permits(processes);
            let tenant = Tenant::from("a");
            let prepare = || permits.prepare(&tenant, waits).now_or_never();
            std::iter::from_fn(prepare).collect::<Vec<_>>().len()
        };
        let works = |processes| prepared(processes, WORKS_ONLY);
        assert_eq!((works(2), works(50)), (PREPARATIONS / 2, 25));
        assert_eq!(prepared(4, WAITS), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_lasts_passes_its_permit_on_or_is_ended_once_others_have_waited() {
        let permits = permits(1);
        let honest = Tenant::from("honest");
        let is_free = || permits.acquire(&honest, WORKS_ONLY).now_or_never().is_some();
        let children: [ChildProcess; 4] = std::array::from_fn(|_| ChildProcess::default());
        let mut hanging = Vec::new();
        for pair in [0, 2] {
            for number in [pair, pair + 1] {
                assert!(is_free(), "{number}");
                let tenant = Tenant::from(format!("hostile-{number}"));
                let permit = permits.acquire(&tenant, WORKS_ONLY).now_or_never().unwrap();
                hanging.push(Box::pin(permit.during(&children[number], pending::<()>())));
            }
            poll(&mut hanging);
            assert!(!is_free());
            advance(WORKS).await;
            poll(&mut hanging);
        }
        // Two wait, and two keep their permits: no other run wants them.
        advance(CROWDED * 3).await;
        poll(&mut hanging);
        assert!(children.iter().all(|child| !child.is_crowded_out()));
        let mut waiter = Box::pin(permits.acquire(&honest, WORKS_ONLY));
        assert!(waiter.as_mut().now_or_never().is_none());
        advance(CHECK).await;
        poll(&mut hanging);
        let ended: Vec<_> = children.iter().map(ChildProcess::is_crowded_out).collect();
        assert_eq!(ended, [false, false, true, true]);
        // Its work ends, and so does its permit.
        drop(hanging.pop());
        assert!(waiter.now_or_never().is_some());
    }

    fn poll<F: Future<Output = ()>>(runs: &mut [std::pin::Pin<Box<F>>]) {
        for run in runs {
            assert!(run.as_mut().now_or_never().is_none());
        }
    }
}

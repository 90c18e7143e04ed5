//! The workers: how many objects are reconciled at a time. A replica that is not the leader reconciles none.
//!
//! A namespace gets at most half of the permits, and namespaces that wait for one are served in turn: a tenant with thousands of
//! objects delays another by the time of a few of them, not of all. A reconciliation that waits for a repository or registry
//! releases its permit meanwhile.

use std::{num::NonZeroU16, sync::Arc};

use helmops_fair::{FairPermit, FairSemaphore};
use helmops_kube::lease::{Leadership, Term, TermEnded};
use helmops_model::reason::Reason;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::error_class::{Class, Classified, ClassifiedError, classified};

/// A namespace: the permits are shared between the namespaces of the objects.
pub type Namespace = Arc<str>;

/// An object with more than this number of bytes is large: a write of 1 MB takes the API server some tenths of a second, and
/// several at a time delay all clients.
const LARGE: usize = 128 << 10;
/// The maximum number of large objects that are reconciled at a time; one per namespace.
const LARGE_AT_A_TIME: usize = 4;

/// The worker permits.
#[derive(Clone, Debug)]
pub struct Workers {
    permits: FairSemaphore<Namespace>,
    /// The additional permits for large objects.
    large: FairSemaphore<Namespace>,
    /// Cancelled when reconciliations can start.
    opened: CancellationToken,
    leadership: Leadership,
    stop: CancellationToken,
}

/// The permit to reconcile an object. Its holder can release it temporarily.
#[derive(Debug)]
pub struct WorkerPermit {
    workers: Workers,
    namespace: Namespace,
    is_large: bool,
    /// The term of leadership in which it was acquired.
    term: Term,
    permits: Option<Permits>,
}

/// The permits of a reconciliation, held while it does not wait.
#[derive(Debug)]
#[expect(dead_code, reason = "held until they are dropped")]
struct Permits {
    worker: FairPermit<Namespace>,
    large: Option<FairPermit<Namespace>>,
}

/// The process is stopping, and nothing new is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping;

/// Why a reconciliation that waited does not continue.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Interrupted {
    /// The process is stopping.
    #[error("the process is stopping")]
    Stopping,
    /// Leadership has ended, so the objects that were read before may be out of date.
    #[error("this replica is no longer the leader")]
    LeadershipLost,
}

impl ClassifiedError for Interrupted {
    fn classify(&self) -> Classified {
        let class = match self {
            Self::Stopping => Class::Superseded,
            // The next reconciliation starts when this replica is the leader again.
            Self::LeadershipLost => Class::Conflict,
        };
        classified(Reason::Progressing, class)
    }
}

impl Workers {
    /// `number` permits, available while this process is the leader, from [`Workers::open`] until `stop`.
    pub fn new(number: NonZeroU16, leadership: Leadership, stop: CancellationToken) -> Self {
        let number = usize::from(number.get());
        Self {
            permits: FairSemaphore::new(number, number.div_ceil(2)),
            large: FairSemaphore::new(LARGE_AT_A_TIME, 1),
            opened: CancellationToken::new(),
            leadership,
            stop,
        }
    }

    /// Allows reconciliations to start.
    pub fn open(&self) {
        self.opened.cancel();
    }

    /// Waits until this process is the leader.
    ///
    /// # Errors
    /// If it will never be the leader again.
    pub async fn until_leading(&self) -> Result<(), Stopping> {
        self.leadership.wait_until_held().await.map_err(|_| Stopping)
    }

    /// Waits for a permit for an object in a namespace. That may take as long as another replica is the leader, so objects that
    /// were read before may be out of date.
    ///
    /// # Errors
    /// If the process stops.
    pub async fn acquire(&self, namespace: Namespace) -> Result<WorkerPermit, Stopping> {
        let (term, permits) = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(Stopping),
            acquired = self.acquire_in_term(&namespace) => acquired?,
        };
        Ok(WorkerPermit {
            workers: self.clone(),
            namespace,
            is_large: false,
            term,
            permits: Some(permits),
        })
    }

    /// Waits for leadership and the permits.
    async fn acquire_in_term(&self, namespace: &Namespace) -> Result<(Term, Permits), Stopping> {
        self.opened.cancelled().await;
        loop {
            self.until_leading().await?;
            let permits = self.acquire_permits(namespace, false).await;
            // Leadership may have ended while other objects had the permits.
            if let Some(term) = self.leadership.term() {
                return Ok((term, permits));
            }
        }
    }

    async fn acquire_permits(&self, namespace: &Namespace, is_large: bool) -> Permits {
        if !is_large {
            let worker = self.permits.acquire(Arc::clone(namespace)).await;
            return Permits { worker, large: None };
        }
        let large = self.large.acquire(Arc::clone(namespace)).await;
        // Before the other objects of its namespace: other namespaces wait for the permit that it already holds.
        let worker = self.permits.acquire_first(Arc::clone(namespace)).await;
        Permits {
            worker,
            large: Some(large),
        }
    }
}

impl WorkerPermit {
    /// The namespace whose share it uses.
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Releases the permit while waiting for something, and acquires it again afterwards.
    ///
    /// # Errors
    /// If the process stops; the wait is aborted then. If leadership has ended meanwhile, even if it has returned.
    pub async fn release_while<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Interrupted> {
        self.permits = None;
        let Self {
            workers,
            namespace,
            is_large,
            term,
            permits,
        } = self;
        let resumed = async {
            let waited = wait.await;
            workers.leadership.check(*term)?;
            *permits = Some(workers.acquire_permits(namespace, *is_large).await);
            workers.leadership.check(*term)?;
            Ok(waited)
        };
        tokio::select! {
            biased;
            () = workers.stop.cancelled() => Err(Interrupted::Stopping),
            resumed = resumed => resumed.map_err(|TermEnded| Interrupted::LeadershipLost),
        }
    }

    /// Releases the permit during work that takes long, and acquires it again afterwards. Unlike a wait, the work is never aborted: it has
    /// to end soon when the process stops, or leadership ends.
    ///
    /// # Errors
    /// If the process stops, or leadership has ended meanwhile. The work is done all the same.
    pub async fn release_during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interrupted> {
        self.permits = None;
        let done = work.await;
        self.release_while(std::future::ready(done)).await
    }

    /// Declares the size of the object in bytes. A large object waits until no other large object of its namespace is
    /// reconciled.
    ///
    /// # Errors
    /// If the process stops, or is no longer the leader.
    pub async fn declare_size(&mut self, bytes: usize) -> Result<(), Interrupted> {
        if bytes <= LARGE {
            return Ok(());
        }
        self.acquire_large().await
    }

    /// Whether it holds the permit for large objects, so that no other large object of the namespace is reconciled.
    pub const fn is_large(&self) -> bool {
        self.is_large
    }

    /// Acquires the permit for large objects: waits until no other large object of the namespace is reconciled.
    ///
    /// # Errors
    /// If the process stops, or is no longer the leader.
    pub async fn acquire_large(&mut self) -> Result<(), Interrupted> {
        if self.is_large {
            return Ok(());
        }
        self.is_large = true;
        self.release_while(std::future::ready(())).await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        time::Duration,
    };

    use tokio::time::{Instant, advance};

    use super::*;

    fn workers(stop: &CancellationToken) -> Workers {
        open(Leadership::always(), stop.clone())
    }

    fn open(leadership: Leadership, stop: CancellationToken) -> Workers {
        let workers = Workers::new(NonZeroU16::MIN, leadership, stop);
        workers.open();
        workers
    }

    fn namespace() -> Namespace {
        "a".into()
    }

    #[tokio::test]
    async fn a_namespace_never_has_all_permits() {
        let workers = Workers::new(
            NonZeroU16::new(4).unwrap(),
            Leadership::always(),
            CancellationToken::new(),
        );
        workers.open();
        let _held = [
            workers.acquire(namespace()).await.unwrap(),
            workers.acquire(namespace()).await.unwrap(),
        ];
        let third = workers.acquire(namespace());
        tokio::pin!(third);
        assert!(futures::poll!(&mut third).is_pending());
        assert!(
            workers.acquire("b".into()).await.is_ok(),
            "another namespace gets a permit immediately"
        );
    }

    #[tokio::test]
    async fn large_objects_of_a_namespace_are_reconciled_one_at_a_time() {
        let workers = Workers::new(
            NonZeroU16::new(9).unwrap(),
            Leadership::always(),
            CancellationToken::new(),
        );
        workers.open();
        let acquire = async |namespace: &str| workers.acquire(namespace.into()).await.unwrap();
        let mut first = acquire("a").await;
        assert_eq!(first.declare_size(LARGE + 1).await, Ok(()));
        assert_eq!(
            acquire("a").await.declare_size(LARGE).await,
            Ok(()),
            "it is not large"
        );
        assert_eq!(acquire("b").await.declare_size(LARGE + 1).await, Ok(()));
        let mut second = acquire("a").await;
        let waiting = async move {
            second.declare_size(LARGE + 1).await.unwrap();
            second
        };
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        let second = first.release_while(&mut waiting);
        tokio::pin!(second);
        assert!(
            futures::poll!(&mut second).is_pending(),
            "the second one has the permit, and has to finish first"
        );
    }

    #[tokio::test]
    async fn no_permit_is_granted_before_workers_are_open() {
        let workers = Workers::new(NonZeroU16::MIN, Leadership::always(), CancellationToken::new());
        let waiting = workers.acquire(namespace());
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        workers.open();
        assert!(waiting.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_without_leadership_gets_no_permit() {
        const TERM: Duration = Duration::from_secs(10);
        let (sender, leadership) = Leadership::elected();
        let workers = open(leadership, CancellationToken::new());
        let permit = workers.acquire(namespace());
        tokio::pin!(permit);
        assert!(futures::poll!(&mut permit).is_pending(), "not the leader yet");
        sender.set(Some(Instant::now() + TERM));
        let mut permit = permit.await.unwrap();

        let next = workers.acquire(namespace());
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending(), "the permit is taken");
        advance(TERM).await;
        assert_eq!(
            permit.release_while(ready(())).await,
            Err(Interrupted::LeadershipLost)
        );
        assert!(
            futures::poll!(&mut next).is_pending(),
            "the permit is free, but leadership has ended"
        );
        sender.set(Some(Instant::now() + TERM));
        assert!(next.await.is_ok());
    }

    /// Another replica may have reconciled meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_reconciliation_does_not_continue_after_its_term() {
        const TERM: Duration = Duration::from_secs(10);
        let (sender, leadership) = Leadership::elected();
        let workers = open(leadership, CancellationToken::new());
        sender.set(Some(Instant::now() + TERM));
        let mut permit = workers.acquire(namespace()).await.unwrap();
        let renewed = permit.release_while(async { sender.set(Some(Instant::now() + TERM + TERM)) });
        assert_eq!(renewed.await, Ok(()));
        let lost_and_won = permit.release_while(async {
            advance(TERM + TERM).await;
            sender.set(Some(Instant::now() + TERM));
        });
        assert_eq!(lost_and_won.await, Err(Interrupted::LeadershipLost));
    }

    #[tokio::test]
    async fn no_permit_is_granted_after_the_end_of_the_election() {
        let (sender, leadership) = Leadership::elected();
        drop(sender);
        let workers = open(leadership, CancellationToken::new());
        assert!(workers.acquire(namespace()).await.is_err());
    }

    #[tokio::test]
    async fn a_waiting_task_blocks_no_other() {
        let workers = workers(&CancellationToken::new());
        let mut permit = workers.acquire(namespace()).await.unwrap();
        let waiting = workers.acquire(namespace());
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        let other = permit.release_while(async { waiting.await.is_ok() }).await;
        assert_eq!(other, Ok(true));
    }

    #[tokio::test]
    async fn stopping_does_not_abort_work() {
        let stop = CancellationToken::new();
        let workers = workers(&stop);
        let mut permit = workers.acquire(namespace()).await.unwrap();
        let mut is_done = false;
        let work = async {
            let other = workers.acquire(namespace()).await;
            assert!(other.is_ok(), "the permit is free meanwhile");
            stop.cancel();
            tokio::task::yield_now().await;
            is_done = true;
        };
        assert_eq!(permit.release_during(work).await, Err(Interrupted::Stopping));
        assert!(is_done);
    }

    #[tokio::test]
    async fn stopping_ends_every_wait() {
        let stop = CancellationToken::new();
        let workers = workers(&stop);
        let mut permit = workers.acquire(namespace()).await.unwrap();
        stop.cancel();
        assert_eq!(
            permit.release_while(pending::<()>()).await,
            Err(Interrupted::Stopping)
        );
        assert_eq!(permit.release_while(ready(())).await, Err(Interrupted::Stopping));
        assert!(workers.acquire(namespace()).await.is_err());
    }
}

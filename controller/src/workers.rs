//! How many objects are reconciled at a time, and whether any is: a replica that does not lead reconciles none.
//!
//! No namespace has more than half of the places, and namespaces that wait for one are served in turn: a tenant with
//! thousands of objects delays another by the time that a few of them take, and not by that of all. Work that waits for
//! a repository or registry gives its place to others meanwhile.

use std::{num::NonZeroU16, sync::Arc};

use helmops_shared::runtime::{FairPermit, FairSemaphore};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::lease::{Leadership, Passed, Term};

/// What places are shared between: the namespace of the objects.
pub type Namespace = Arc<str>;

/// Objects that are large, in bytes: to write one of 1 MB takes the API server some tenths of a second, and several at a time
/// as much longer, for everybody.
const LARGE: usize = 128 << 10;
/// Large objects that are worked on at a time; of one namespace it is one.
const LARGE_AT_A_TIME: usize = 4;

/// The places.
#[derive(Clone, Debug)]
pub struct Workers {
    places: FairSemaphore<Namespace>,
    /// What work on a large object needs besides a place.
    large: FairSemaphore<Namespace>,
    /// Cancelled when work can begin.
    opened: CancellationToken,
    leadership: Leadership,
    stop: CancellationToken,
}

/// A place, which its holder may step aside from.
#[derive(Debug)]
pub struct WorkerPermit {
    workers: Workers,
    namespace: Namespace,
    is_large: bool,
    /// The term of leadership in which its work began.
    term: Term,
    permits: Option<Permits>,
}

/// What work holds while it does not wait.
#[derive(Debug)]
#[expect(dead_code, reason = "held until they are dropped")]
struct Permits {
    place: FairPermit<Namespace>,
    large: Option<FairPermit<Namespace>>,
}

/// The process is stopping, and nothing new is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping;

/// Why work that had stepped aside does not go on.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Interrupted {
    /// The process stops.
    #[error("the controller is stopping")]
    Stopping,
    /// Leadership has passed, and what was known when work began may be out of date before it comes back.
    #[error("this replica does not lead any more")]
    LeadershipLost,
}

impl Workers {
    /// So many places while this process leads, from [`Workers::open`] until `stop`.
    pub fn new(number: NonZeroU16, leadership: Leadership, stop: CancellationToken) -> Self {
        let number = usize::from(number.get());
        Self {
            places: FairSemaphore::new(number, number.div_ceil(2)),
            large: FairSemaphore::new(LARGE_AT_A_TIME, 1),
            opened: CancellationToken::new(),
            leadership,
            stop,
        }
    }

    /// Work can begin.
    pub fn open(&self) {
        self.opened.cancel();
    }

    /// Waits until this process leads.
    ///
    /// # Errors
    /// Where it will never lead again.
    pub async fn until_leading(&self) -> Result<(), Stopping> {
        self.leadership.held().await.map_err(|_| Stopping)
    }

    /// Waits for a place for an object of a namespace. That may take as long as another replica leads: what was seen
    /// before may be out of date.
    ///
    /// # Errors
    /// Where the process stops.
    pub async fn place(&self, namespace: Namespace) -> Result<WorkerPermit, Stopping> {
        let (term, permits) = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(Stopping),
            turn = self.turn(&namespace) => turn?,
        };
        Ok(WorkerPermit {
            workers: self.clone(),
            namespace,
            is_large: false,
            term,
            permits: Some(permits),
        })
    }

    async fn turn(&self, namespace: &Namespace) -> Result<(Term, Permits), Stopping> {
        self.opened.cancelled().await;
        loop {
            self.until_leading().await?;
            let permits = self.permits(namespace, false).await;
            // It may have passed while others had the places.
            if let Some(term) = self.leadership.term() {
                return Ok((term, permits));
            }
        }
    }

    async fn permits(&self, namespace: &Namespace, is_large: bool) -> Permits {
        if !is_large {
            let place = self.places.acquire(Arc::clone(namespace)).await;
            return Permits { place, large: None };
        }
        let large = self.large.acquire(Arc::clone(namespace)).await;
        // Ahead of the others of its namespace, however many there are: other namespaces wait for what it holds already.
        let place = self.places.acquire_first(Arc::clone(namespace)).await;
        Permits {
            place,
            large: Some(large),
        }
    }
}

impl WorkerPermit {
    /// The namespace that it is counted to.
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Waits for something without holding the place.
    ///
    /// # Errors
    /// Where the process stops, and what was waited for is given up then; where leadership has passed meanwhile, even if it
    /// has come back.
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
            *permits = Some(workers.permits(namespace, *is_large).await);
            workers.leadership.check(*term)?;
            Ok(waited)
        };
        tokio::select! {
            biased;
            () = workers.stop.cancelled() => Err(Interrupted::Stopping),
            resumed = resumed => resumed.map_err(|Passed| Interrupted::LeadershipLost),
        }
    }

    /// Notes that the work is about so many bytes. What is large waits until no other large object of its namespace is
    /// worked on.
    ///
    /// # Errors
    /// Where the process stops, or does not lead any more.
    pub async fn carry(&mut self, bytes: usize) -> Result<(), Interrupted> {
        if bytes <= LARGE {
            return Ok(());
        }
        self.alone().await
    }

    /// Whether no other large object of the namespace is worked on.
    pub const fn is_alone(&self) -> bool {
        self.is_large
    }

    /// Waits until no large object of the namespace is worked on, and counts this one as large.
    ///
    /// # Errors
    /// Where the process stops, or does not lead any more.
    pub async fn alone(&mut self) -> Result<(), Interrupted> {
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
    async fn one_namespace_never_has_all_places() {
        let workers = Workers::new(
            NonZeroU16::new(4).unwrap(),
            Leadership::always(),
            CancellationToken::new(),
        );
        workers.open();
        let _held = [
            workers.place(namespace()).await.unwrap(),
            workers.place(namespace()).await.unwrap(),
        ];
        let third = workers.place(namespace());
        tokio::pin!(third);
        assert!(futures::poll!(&mut third).is_pending());
        assert!(
            workers.place("b".into()).await.is_ok(),
            "another has a place at once"
        );
    }

    #[tokio::test]
    async fn large_objects_of_a_namespace_are_worked_on_one_at_a_time() {
        let workers = Workers::new(
            NonZeroU16::new(9).unwrap(),
            Leadership::always(),
            CancellationToken::new(),
        );
        workers.open();
        let place = async |namespace: &str| workers.place(namespace.into()).await.unwrap();
        let mut first = place("a").await;
        assert_eq!(first.carry(LARGE + 1).await, Ok(()));
        assert_eq!(place("a").await.carry(LARGE).await, Ok(()), "it is not large");
        assert_eq!(place("b").await.carry(LARGE + 1).await, Ok(()));
        let mut second = place("a").await;
        let waiting = async move {
            second.carry(LARGE + 1).await.unwrap();
            second
        };
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        let second = first.release_while(&mut waiting);
        tokio::pin!(second);
        assert!(
            futures::poll!(&mut second).is_pending(),
            "the second works, and has to end first"
        );
    }

    #[tokio::test]
    async fn nobody_works_before_it_is_time() {
        let workers = Workers::new(NonZeroU16::MIN, Leadership::always(), CancellationToken::new());
        let waiting = workers.place(namespace());
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        workers.open();
        assert!(waiting.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_lead_works_on_nothing() {
        const TERM: Duration = Duration::from_secs(10);
        let (seat, leadership) = Leadership::elected();
        let workers = open(leadership, CancellationToken::new());
        let place = workers.place(namespace());
        tokio::pin!(place);
        assert!(futures::poll!(&mut place).is_pending(), "nobody leads yet");
        seat.set(Some(Instant::now() + TERM));
        let mut place = place.await.unwrap();

        let next = workers.place(namespace());
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending(), "the place is taken");
        advance(TERM).await;
        assert_eq!(
            place.release_while(ready(())).await,
            Err(Interrupted::LeadershipLost)
        );
        assert!(
            futures::poll!(&mut next).is_pending(),
            "the place is free, and leadership has passed"
        );
        seat.set(Some(Instant::now() + TERM));
        assert!(next.await.is_ok());
    }

    /// Another replica may have worked meanwhile.
    #[tokio::test(start_paused = true)]
    async fn work_does_not_go_on_after_a_term_that_has_passed() {
        const TERM: Duration = Duration::from_secs(10);
        let (seat, leadership) = Leadership::elected();
        let workers = open(leadership, CancellationToken::new());
        seat.set(Some(Instant::now() + TERM));
        let mut place = workers.place(namespace()).await.unwrap();
        let renewed = place.release_while(async { seat.set(Some(Instant::now() + TERM + TERM)) });
        assert_eq!(renewed.await, Ok(()));
        let lost_and_won = place.release_while(async {
            advance(TERM + TERM).await;
            seat.set(Some(Instant::now() + TERM));
        });
        assert_eq!(lost_and_won.await, Err(Interrupted::LeadershipLost));
    }

    #[tokio::test]
    async fn the_end_of_the_election_is_the_end_of_work() {
        let (seat, leadership) = Leadership::elected();
        drop(seat);
        let workers = open(leadership, CancellationToken::new());
        assert!(workers.place(namespace()).await.is_err());
    }

    #[tokio::test]
    async fn who_waits_for_something_else_holds_up_nobody() {
        let workers = workers(&CancellationToken::new());
        let mut place = workers.place(namespace()).await.unwrap();
        let waiting = workers.place(namespace());
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        let other = place.release_while(async { waiting.await.is_ok() }).await;
        assert_eq!(other, Ok(true));
    }

    #[tokio::test]
    async fn stopping_ends_every_wait() {
        let stop = CancellationToken::new();
        let workers = workers(&stop);
        let mut place = workers.place(namespace()).await.unwrap();
        stop.cancel();
        assert_eq!(
            place.release_while(pending::<()>()).await,
            Err(Interrupted::Stopping)
        );
        assert_eq!(place.release_while(ready(())).await, Err(Interrupted::Stopping));
        assert!(workers.place(namespace()).await.is_err());
    }
}

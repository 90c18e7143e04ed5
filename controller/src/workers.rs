//! How many objects are reconciled at a time, and whether any is: a replica that does not lead reconciles none.
//!
//! No namespace has more than half of the places, and namespaces that wait for one are served in turn: a tenant with
//! thousands of objects delays another by the time that a few of them take, and not by that of all. Work that waits for
//! a repository or registry gives its place to others meanwhile.

use std::{num::NonZeroU16, sync::Arc};

use helmops_shared::runtime::{FairPermit, FairSemaphore};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::lease::Leadership;

/// What places are shared between: the namespace of the objects.
pub type Namespace = Arc<str>;

/// The places.
#[derive(Clone, Debug)]
pub struct Workers {
    places: FairSemaphore<Namespace>,
    /// Cancelled when work can begin.
    opened: CancellationToken,
    leadership: Leadership,
    stop: CancellationToken,
}

/// A place, which its holder may step aside from.
#[derive(Debug)]
pub struct Place {
    workers: Workers,
    namespace: Namespace,
    permit: Option<FairPermit<Namespace>>,
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
    Deposed,
}

impl Workers {
    /// So many places while this process leads, from [`Workers::open`] until `stop`.
    pub fn new(number: NonZeroU16, leadership: Leadership, stop: CancellationToken) -> Self {
        let number = usize::from(number.get());
        Self {
            places: FairSemaphore::new(number, number.div_ceil(2)),
            opened: CancellationToken::new(),
            leadership,
            stop,
        }
    }

    /// Work can begin.
    pub fn open(&self) {
        self.opened.cancel();
    }

    /// Waits for a place for an object of a namespace. That may take as long as another replica leads: what was seen
    /// before may be out of date.
    ///
    /// # Errors
    /// Where the process stops.
    pub async fn place(&self, namespace: Namespace) -> Result<Place, Stopping> {
        let permit = self.permit(&namespace).await?;
        Ok(Place {
            workers: self.clone(),
            namespace,
            permit: Some(permit),
        })
    }

    async fn permit(&self, namespace: &Namespace) -> Result<FairPermit<Namespace>, Stopping> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stopping),
            permit = self.turn(namespace) => permit,
        }
    }

    async fn turn(&self, namespace: &Namespace) -> Result<FairPermit<Namespace>, Stopping> {
        self.opened.cancelled().await;
        loop {
            self.leadership.held().await.map_err(|_| Stopping)?;
            let permit = self.places.acquire(Arc::clone(namespace)).await;
            // It may have passed while others had the places.
            if self.leadership.remaining().is_some() {
                return Ok(permit);
            }
        }
    }
}

impl Place {
    /// The namespace that it is counted to.
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Waits for something without holding the place.
    ///
    /// # Errors
    /// Where the process stops, and what was waited for is given up then; where it does not lead any more.
    pub async fn step_aside<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Interrupted> {
        self.permit = None;
        let waited = tokio::select! {
            biased;
            () = self.workers.stop.cancelled() => return Err(Interrupted::Stopping),
            waited = wait => waited,
        };
        if self.workers.leadership.remaining().is_none() {
            return Err(Interrupted::Deposed);
        }
        let permit = self.workers.permit(&self.namespace).await;
        self.permit = Some(permit.map_err(|Stopping| Interrupted::Stopping)?);
        Ok(waited)
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
        assert_eq!(place.step_aside(ready(())).await, Err(Interrupted::Deposed));
        assert!(
            futures::poll!(&mut next).is_pending(),
            "the place is free, and leadership has passed"
        );
        seat.set(Some(Instant::now() + TERM));
        assert!(next.await.is_ok());
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
        let other = place.step_aside(async { waiting.await.is_ok() }).await;
        assert_eq!(other, Ok(true));
    }

    #[tokio::test]
    async fn stopping_ends_every_wait() {
        let stop = CancellationToken::new();
        let workers = workers(&stop);
        let mut place = workers.place(namespace()).await.unwrap();
        stop.cancel();
        assert_eq!(
            place.step_aside(pending::<()>()).await,
            Err(Interrupted::Stopping)
        );
        assert_eq!(place.step_aside(ready(())).await, Err(Interrupted::Stopping));
        assert!(workers.place(namespace()).await.is_err());
    }
}

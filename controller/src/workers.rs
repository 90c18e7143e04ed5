//! How many HelmOps are worked on at a time, and whether any is: a replica that does not lead works on none.
//!
//! Work that waits for a repository or registry gives its place to others meanwhile, so that a slow one holds up nobody
//! but those who ask it.

use std::{num::NonZeroU16, sync::Arc};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::lease::Leadership;

/// The places.
#[derive(Clone, Debug)]
pub struct Workers {
    number: NonZeroU16,
    places: Arc<Semaphore>,
    leadership: Leadership,
    stop: CancellationToken,
}

/// A place, which its holder may step aside from.
#[derive(Debug)]
pub struct Place {
    workers: Workers,
    permit: Option<OwnedSemaphorePermit>,
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
        Self {
            number,
            places: Arc::new(Semaphore::new(0)),
            leadership,
            stop,
        }
    }

    /// Work can begin. Meant to be called once.
    pub fn open(&self) {
        self.places.add_permits(self.number.get().into());
    }

    /// Waits for a place. That may take as long as another replica leads: what was seen before may be out of date.
    ///
    /// # Errors
    /// Where the process stops.
    pub async fn place(&self) -> Result<Place, Stopping> {
        let permit = self.permit().await?;
        Ok(Place {
            workers: self.clone(),
            permit: Some(permit),
        })
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, Stopping> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stopping),
            permit = self.turn() => permit,
        }
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, Stopping> {
        loop {
            self.leadership.held().await.map_err(|_| Stopping)?;
            let permit = Arc::clone(&self.places).acquire_owned().await;
            let permit = permit.map_err(|_| Stopping)?;
            // It may have passed while others had the places.
            if self.leadership.remaining().is_some() {
                return Ok(permit);
            }
        }
    }
}

impl Place {
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
        let permit = self.workers.permit().await;
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

    #[tokio::test]
    async fn nobody_works_before_it_is_time() {
        let workers = Workers::new(NonZeroU16::MIN, Leadership::always(), CancellationToken::new());
        let waiting = workers.place();
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
        let place = workers.place();
        tokio::pin!(place);
        assert!(futures::poll!(&mut place).is_pending(), "nobody leads yet");
        seat.set(Some(Instant::now() + TERM));
        let mut place = place.await.unwrap();

        let next = workers.place();
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
        assert!(workers.place().await.is_err());
    }

    #[tokio::test]
    async fn who_waits_for_something_else_holds_up_nobody() {
        let workers = workers(&CancellationToken::new());
        let mut place = workers.place().await.unwrap();
        let waiting = workers.place();
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        let other = place.step_aside(async { waiting.await.is_ok() }).await;
        assert_eq!(other, Ok(true));
    }

    #[tokio::test]
    async fn stopping_ends_every_wait() {
        let stop = CancellationToken::new();
        let workers = workers(&stop);
        let mut place = workers.place().await.unwrap();
        stop.cancel();
        assert_eq!(
            place.step_aside(pending::<()>()).await,
            Err(Interrupted::Stopping)
        );
        assert_eq!(place.step_aside(ready(())).await, Err(Interrupted::Stopping));
        assert!(workers.place().await.is_err());
    }
}

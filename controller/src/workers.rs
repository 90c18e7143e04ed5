//! How many HelmOps are worked on at a time.
//!
//! Work that waits for a repository or registry gives its place to others meanwhile, so that a slow one holds up nobody
//! but those who ask it.

use std::{num::NonZeroU16, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The places.
#[derive(Clone, Debug)]
pub struct Workers {
    number: NonZeroU16,
    places: Arc<Semaphore>,
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

impl Workers {
    /// So many places, from [`Workers::open`] until `stop`.
    pub fn new(number: NonZeroU16, stop: CancellationToken) -> Self {
        Self {
            number,
            places: Arc::new(Semaphore::new(0)),
            stop,
        }
    }

    /// Work can begin. Meant to be called once.
    pub fn open(&self) {
        self.places.add_permits(self.number.get().into());
    }

    /// Waits for a place.
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
            permit = Arc::clone(&self.places).acquire_owned() => permit.map_err(|_| Stopping),
        }
    }
}

impl Place {
    /// Waits for something without holding the place.
    ///
    /// # Errors
    /// Where the process stops; what was waited for is given up then.
    pub async fn step_aside<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Stopping> {
        self.permit = None;
        let waited = tokio::select! {
            biased;
            () = self.workers.stop.cancelled() => return Err(Stopping),
            waited = wait => waited,
        };
        self.permit = Some(self.workers.permit().await?);
        Ok(waited)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn workers(stop: &CancellationToken) -> Workers {
        let workers = Workers::new(NonZeroU16::MIN, stop.clone());
        workers.open();
        workers
    }

    #[tokio::test]
    async fn nobody_works_before_it_is_time() {
        let workers = Workers::new(NonZeroU16::MIN, CancellationToken::new());
        let waiting = workers.place();
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        workers.open();
        assert!(waiting.await.is_ok());
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
        assert_eq!(place.step_aside(pending::<()>()).await, Err(Stopping));
        assert_eq!(place.step_aside(ready(())).await, Err(Stopping));
        assert!(workers.place().await.is_err());
    }
}

//! How many runs of Helm there are at a time.

use std::{num::NonZeroUsize, sync::Arc};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Permits to run Helm, in the order of the requests. Each run takes about 60 MB of memory.
#[derive(Clone, Debug)]
pub struct HelmPermits(Arc<Semaphore>);

/// A permit for one run of Helm.
#[derive(Debug)]
pub struct HelmPermit {
    _permit: OwnedSemaphorePermit,
}

impl HelmPermits {
    /// This number of permits.
    pub fn new(processes: NonZeroUsize) -> Self {
        let permits = processes.get().min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(permits)))
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// Never: the semaphore is not closed.
    pub async fn acquire(&self) -> Result<HelmPermit, AcquireError> {
        let permit = Arc::clone(&self.0).acquire_owned().await?;
        Ok(HelmPermit { _permit: permit })
    }
}

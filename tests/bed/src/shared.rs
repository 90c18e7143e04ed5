//! What several tests of a program use at the same time, such as a control plane: it is started for the first of them, and stopped soon
//! after the last one. An idle control plane takes a tenth of a processor.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Result;
use tokio::sync::Mutex;

/// How long it is kept without a user: the next test of the same module starts soon.
const LINGER: Duration = Duration::from_secs(15);

/// What tests share.
#[derive(Debug)]
pub struct Shared<T>(Mutex<Weak<T>>);

/// It is not stopped as long as this exists.
#[derive(Debug)]
pub struct InUse<T: Send + Sync + 'static>(Arc<T>);

impl<T: Send + Sync + 'static> Shared<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// What the other tests use, or what `start` returns if there is none.
    ///
    /// # Errors
    /// Those of `start`. Then the next call starts it again.
    pub async fn get(&self, start: impl AsyncFnOnce() -> Result<T>) -> Result<InUse<T>> {
        let mut shared = self.0.lock().await;
        if let Some(running) = shared.upgrade() {
            return Ok(InUse(running));
        }
        let started = Arc::new(start().await?);
        *shared = Arc::downgrade(&started);
        Ok(InUse(started))
    }
}

impl<T: Send + Sync + 'static> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync + 'static> From<T> for InUse<T> {
    fn from(own: T) -> Self {
        Self(Arc::new(own))
    }
}

impl<T: Send + Sync + 'static> Clone for InUse<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> Deref for InUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> Drop for InUse<T> {
    fn drop(&mut self) {
        let used = Arc::clone(&self.0);
        // To stop it takes a moment, which is not that of a test.
        std::thread::spawn(move || {
            std::thread::sleep(LINGER);
            drop(used);
        });
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[tokio::test]
    async fn it_is_started_once_for_all_that_use_it_at_the_same_time() {
        let shared = Shared::new();
        let (first, second) = tokio::join!(
            shared.get(async || Ok(1)),
            shared.get(async || bail!("it is started already"))
        );
        assert_eq!((*first.unwrap(), *second.unwrap()), (1, 1));
    }

    #[tokio::test]
    async fn a_start_that_fails_is_repeated() {
        let shared = Shared::new();
        shared.get(async || bail!("no port")).await.unwrap_err();
        assert_eq!(*shared.get(async || Ok(2)).await.unwrap(), 2);
    }
}

//! One download at a time for each key.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use helmops_process::lock;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::key::ChartKey;

/// The downloads in progress. There is an entry for each key that is downloaded or waited for.
#[derive(Debug, Default)]
pub struct Flights(Mutex<HashMap<ChartKey, Weak<AsyncMutex<()>>>>);

impl Flights {
    /// Waits until no other task downloads this key. The next one waits until the guard is dropped.
    pub async fn enter(&self, key: &ChartKey) -> OwnedMutexGuard<()> {
        self.of(key).lock_owned().await
    }

    fn of(&self, key: &ChartKey) -> Arc<AsyncMutex<()>> {
        let mut flights = lock(&self.0);
        if let Some(flight) = flights.get(key).and_then(Weak::upgrade) {
            return flight;
        }
        flights.retain(|_, flight| flight.strong_count() > 0);
        let flight = Arc::default();
        flights.insert(key.clone(), Arc::downgrade(&flight));
        flight
    }
}

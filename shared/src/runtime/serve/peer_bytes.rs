//! How much of one address' request bodies is in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts bytes for one address. All its connections share the counter; each request carries it as an extension, so
/// that the application can grant an address no more than a part of what it has for all.
#[derive(Clone, Debug, Default)]
pub struct PeerBytes(Arc<AtomicUsize>);

impl PeerBytes {
    /// Adds `bytes` if the sum stays within `limit`. Never waits.
    pub fn try_add(&self, bytes: usize, limit: usize) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(bytes).filter(|sum| *sum <= limit)
            })
            .is_ok()
    }

    /// Takes `bytes` away that [`Self::try_add`] has added.
    pub fn sub(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

//! The memory that the request bodies of one address use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts bytes for one address. All its connections share the counter. Each request has it as an extension, so that the
/// application can limit an address to a part of its total.
#[derive(Clone, Debug, Default)]
pub struct PeerBytes(Arc<AtomicUsize>);

impl PeerBytes {
    /// Adds `bytes` if the sum stays within `limit`. Never waits.
    pub fn try_add(&self, bytes: usize, limit: usize) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                count.checked_add(bytes).filter(|sum| *sum <= limit)
            })
            .is_ok()
    }

    /// Subtracts `bytes` that [`Self::try_add`] has added.
    pub fn sub(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

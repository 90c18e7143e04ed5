//! How much memory resolutions may use: parts of the memory limit of the process.

use std::sync::Arc;

use helm_index::{Meter, OverBudget};
use helmops_fair::{ByteBudget, Reservation, Share};

/// What an idle process uses, plus a margin.
const PROCESS: usize = 16 << 20;

/// Default for the memory of cached responses. Enough for several hundred repositories, because only the versions of
/// requested charts are kept of each.
const CACHE: usize = 16 << 20;

/// Limits in bytes. Together with the object caches, which get half of the memory, and the process itself they stay within
/// the limit of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBounds {
    /// For all responses, while they are read and while they are cached.
    pub responses: usize,
    /// Of these, for cached responses that no resolution is using.
    pub cache: usize,
}

impl MemoryBounds {
    /// Divides the memory limit of the process. `cache` is the configured cache size; at most half of what is left after the
    /// object caches and the process is used for it.
    ///
    /// Of 256 MiB, 112 MiB are for responses, and 16 MiB of these for the cache.
    pub fn of(memory_limit: usize, cache: Option<usize>) -> Self {
        let responses = (memory_limit / 2).saturating_sub(PROCESS);
        let cache = cache.unwrap_or((responses / 7).min(CACHE)).min(responses / 2);
        Self { responses, cache }
    }

    /// The budget for responses. Each document has a limit of its own, this is the limit of their total.
    pub fn budget(&self) -> ByteBudget {
        ByteBudget::new(self.responses, Share::Half)
    }
}

/// The memory of a document while it is read. Afterwards it belongs to a cache.
#[derive(Debug)]
pub struct ReadMemory(Reservation);

impl ReadMemory {
    /// Charges a namespace.
    pub fn new(budget: &ByteBudget, namespace: &Arc<str>) -> Self {
        Self(budget.reservation(Arc::clone(namespace)))
    }
}

impl Meter for ReadMemory {
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.0.grow_to(bytes).map_err(|_| OverBudget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn all_bounds_together_stay_within_the_memory_limit() {
        for limit in [64, 100, 128, 256, 512, 1024, 4096].map(|limit| limit * MIB) {
            for cache in [None, Some(MIB), Some(16 * MIB), Some(65_535 * MIB)] {
                let bounds = MemoryBounds::of(limit, cache);
                assert!(
                    limit / 2 + bounds.responses <= limit - PROCESS,
                    "{limit}: {bounds:?}"
                );
                assert!(
                    bounds.cache > 0 && bounds.cache <= bounds.responses / 2,
                    "{limit}: {bounds:?}"
                );
            }
        }
    }

    #[test]
    fn the_memory_limit_of_the_manifests_is_divided_as_documented() {
        let expected = MemoryBounds {
            responses: 112 * MIB,
            cache: 16 * MIB,
        };
        assert_eq!(MemoryBounds::of(256 * MIB, None), expected);
        assert_eq!(MemoryBounds::of(256 * MIB, Some(16 * MIB)), expected);
    }
}

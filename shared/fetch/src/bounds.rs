//! How much memory resolutions may use: parts of the memory limit of the process.

/// What an idle process uses, plus a margin.
const PROCESS: usize = 16 << 20;

/// Default for the memory of cached responses. Enough for several hundred repositories, because only the versions of
/// requested charts are kept of each.
const CACHE: usize = 16 << 20;

/// Limits in bytes. Together with the object caches, which get half of the memory, and the process itself they stay within
/// the limit of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBounds {
    /// For all responses that are being read.
    pub reads: usize,
    /// For cached responses that no resolution is using.
    pub cache: usize,
    /// For cached responses in use, in addition to `cache`.
    pub in_use: usize,
}

impl MemoryBounds {
    /// Divides the memory limit of the process. `cache` is the configured cache size; at most half of what is left after the
    /// object caches and the process is used for it.
    ///
    /// 256 MiB are divided into 64 MiB for reads, 16 MiB for the cache and 32 MiB for responses in use, which is two of the
    /// largest indexes.
    pub fn of(memory_limit: usize, cache: Option<usize>) -> Self {
        let rest = (memory_limit / 2).saturating_sub(PROCESS);
        let cache = cache.unwrap_or((rest / 7).min(CACHE)).min(rest / 2);
        let in_use = (rest - cache) / 3;
        Self {
            reads: rest - cache - in_use,
            cache,
            in_use,
        }
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
                let stores = limit / 2;
                let bounds = MemoryBounds::of(limit, cache);
                let sum = stores + bounds.reads + bounds.cache + bounds.in_use;
                assert!(sum <= limit - PROCESS, "{limit}: {bounds:?}");
                assert!(
                    bounds.reads > 0 && bounds.cache > 0 && bounds.in_use > 0,
                    "{limit}: {bounds:?}"
                );
            }
        }
    }

    #[test]
    fn the_memory_limit_of_the_manifests_is_divided_as_documented() {
        let expected = MemoryBounds {
            reads: 64 * MIB,
            cache: 16 * MIB,
            in_use: 32 * MIB,
        };
        assert_eq!(MemoryBounds::of(256 * MIB, None), expected);
        assert_eq!(MemoryBounds::of(256 * MIB, Some(16 * MIB)), expected);
    }
}

//! How much memory look-ups may take: parts of what the process may use.

/// What an idle process takes, and a little more.
const PROCESS: usize = 16 << 20;

/// Memory for answers that are kept between requests, unless somebody wants more: several hundred repositories, since of
/// each only the versions of the charts that are asked for are kept.
const CACHE: usize = 16 << 20;

/// Bounds in bytes. Together with stored objects, which have half of the memory, and the process itself they are no more
/// than the limit of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// For all answers that are being read.
    pub reads: usize,
    /// For answers that nobody is about to use.
    pub cache: usize,
    /// For answers that are in use, beyond that.
    pub in_use: usize,
}

impl Bounds {
    /// Parts of what the process may use. `cache` is what is wanted for answers, of which there is a half of the rest at most.
    ///
    /// With 256 MiB there are 64 MiB for reads, 16 MiB for answers and 32 MiB for those in use, which is two of the largest
    /// indexes.
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
    fn the_sum_of_all_bounds_is_within_the_limit() {
        for limit in [64, 100, 128, 256, 512, 1024, 4096].map(|limit| limit * MIB) {
            for cache in [None, Some(MIB), Some(16 * MIB), Some(65_535 * MIB)] {
                let stores = limit / 2;
                let bounds = Bounds::of(limit, cache);
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
    fn the_limit_of_the_manifests() {
        let expected = Bounds {
            reads: 64 * MIB,
            cache: 16 * MIB,
            in_use: 32 * MIB,
        };
        assert_eq!(Bounds::of(256 * MIB, None), expected);
        assert_eq!(Bounds::of(256 * MIB, Some(16 * MIB)), expected);
    }
}

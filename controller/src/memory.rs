//! How the memory limit of the process is divided: the only place that does it.

use helmops_fetch::MemoryBounds;

/// The parts, in bytes. What they leave is for the process itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryParts {
    /// For the caches of watched objects.
    pub objects: usize,
    /// For archives of charts and their files, while they are stored in the management cluster.
    pub contents: usize,
    /// For responses of repositories.
    pub responses: MemoryBounds,
}

impl MemoryParts {
    /// Divides a limit. `cache` is the configured size of the cache for responses. A process that does not deliver Bundles stores no charts;
    /// in another one they get a third of what the caches and the process leave, at the cost of responses.
    ///
    /// Of 256 MiB, the caches get 128 MiB, charts 37 MiB and responses 74 MiB.
    pub fn of(limit: usize, cache: Option<usize>, delivers: bool) -> Self {
        let left = MemoryBounds::of(limit, cache).responses;
        let contents = if delivers { left / 3 } else { 0 };
        Self {
            objects: limit / 2,
            contents,
            // Responses get half of this limit, less what the process needs.
            responses: MemoryBounds::of(limit.saturating_sub(2 * contents), cache),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_is_promised_twice() {
        for mebibytes in [32, 64, 100, 128, 256, 512, 4096] {
            let limit = mebibytes << 20;
            for delivers in [false, true] {
                let parts = MemoryParts::of(limit, None, delivers);
                let promised = parts.objects + parts.contents + parts.responses.responses;
                // 16 MiB are for the process.
                assert!(promised <= limit - (16 << 20), "{mebibytes}: {parts:?}");
                assert_eq!(
                    parts.contents > 0,
                    delivers && mebibytes > 32,
                    "{mebibytes}: {parts:?}"
                );
            }
        }
        let parts = MemoryParts::of(256 << 20, None, true);
        let mebibytes = [parts.objects, parts.contents, parts.responses.responses].map(|bytes| bytes >> 20);
        assert_eq!(mebibytes, [128, 37, 74]);
    }
}

//! Limits of what is read from a repository.

/// Limits of what is read from a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a pack, as received. It is in memory while a chart is read.
    pub pack: usize,
    /// Objects in a pack.
    pub objects: usize,
    /// Bytes of one object that is read: a file of a chart, or a folder. Helm reads no larger files.
    pub object: usize,
    /// Bytes that objects of a pack may have after decompression, each as often as it is needed for another one.
    pub decoded: u64,
    /// References that are kept of a list.
    pub references: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pack: 32 << 20,
            // The trees of a repository with a million files have some 100,000 objects.
            objects: 200_000,
            object: 5 << 20,
            decoded: 1 << 30,
            references: 20_000,
        }
    }
}

//! Limits of content.

use crate::BYTES_IN_OBJECT;

/// Limits of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes as stored: compressed, of all parts together.
    pub compressed: u64,
    /// Bytes after decompression: JSON with all files.
    pub json: u64,
    /// Bytes of one file after decoding.
    pub file: u64,
    /// Files.
    pub files: usize,
}

impl Limits {
    /// Those of a chart, and of what an agent reads: an agent has the JSON in memory. Helm reads files of at most 5 MiB. The largest public
    /// charts have 1.1 MB as archives.
    pub const CHART: Self = Self {
        compressed: 32 << 20,
        json: 64 << 20,
        file: 5 << 20,
        files: 10_000,
    };

    /// The number of parts that content has at most.
    pub(crate) fn parts(&self) -> usize {
        let parts = self.compressed.div_ceil(BYTES_IN_OBJECT as u64);
        usize::try_from(parts).unwrap_or(usize::MAX)
    }
}

impl Default for Limits {
    /// [`Limits::CHART`].
    fn default() -> Self {
        Self::CHART
    }
}

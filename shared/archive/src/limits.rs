//! Limits of an archive.

/// Limits of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file.
    pub file: u64,
    /// Bytes after decompression of the archive and of all archives of subcharts in it together, with headers and padding.
    /// There is no limit for the ratio of compression: repetitive templates compress well, and this limits what any ratio costs.
    pub total: u64,
    /// Files, with those in archives of subcharts.
    pub files: usize,
    /// How deep archives of subcharts may nest.
    pub depth: usize,
}

impl Limits {
    /// Those of Helm, where it has some: it refuses a file of more than 5 MiB and an archive with more than 100 MiB. Helm counts
    /// the archive of each subchart by itself, so that a small archive could fill the memory; here they count together.
    pub const HELM: Self = Self {
        file: 5 << 20,
        total: 100 << 20,
        // The largest public charts have some hundred.
        files: 10_000,
        depth: 4,
    };
}

impl Default for Limits {
    /// [`Limits::HELM`].
    fn default() -> Self {
        Self::HELM
    }
}

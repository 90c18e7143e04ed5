//! Limits of what is read from a bucket.

/// Limits of what is read from a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects below a prefix.
    pub objects: usize,
    /// Folders that these are in.
    pub folders: usize,
    /// Responses that list them. Servers return a thousand objects in each, and may return fewer.
    pub pages: usize,
    /// Bytes of such a response. A thousand objects with the longest names have some 2 MiB.
    pub page: usize,
    /// Bytes of one object that is a file of a chart. Helm reads no larger files.
    pub object: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects: 10_000,
            folders: 20_000,
            pages: 20,
            page: 4 << 20,
            object: 5 << 20,
        }
    }
}

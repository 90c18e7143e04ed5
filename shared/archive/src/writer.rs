//! Writes archives.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

/// Writes an archive. The same files give the same bytes: nothing of the machine or the time is in it.
pub struct ArchiveWriter<W: Write>(Builder<GzEncoder<W>>);

impl<W: Write> ArchiveWriter<W> {
    /// An archive in `output`.
    pub fn new(output: W) -> Self {
        Self(Builder::new(GzEncoder::new(output, Compression::default())))
    }

    /// Adds a file, whose path begins with the folder of the chart.
    ///
    /// # Errors
    /// If it cannot be written, or has a path that no archive has.
    pub fn add(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(content.len() as u64);
        self.0.append_data(&mut header, path, content)
    }

    /// Ends the archive, and returns its output.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> io::Result<W> {
        self.0.into_inner()?.finish()
    }
}

impl<W: Write> std::fmt::Debug for ArchiveWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveWriter").finish_non_exhaustive()
    }
}

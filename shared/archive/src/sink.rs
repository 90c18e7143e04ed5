//! Where the checked files of an archive go.

use std::io::{self, Read, Write};

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use crate::{ArchiveError, path::EntryPath};

/// The mode of all files: Helm ignores it.
const MODE: u32 = 0o644;

/// Takes the files of a chart, in their order.
pub trait Sink {
    /// Takes a file of `size` bytes.
    fn file(
        &mut self,
        path: &EntryPath,
        modified: u64,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError>;
}

/// Reads the files and drops them.
pub struct Nothing;

impl Sink for Nothing {
    fn file(&mut self, _: &EntryPath, _: u64, _: u64, content: &mut dyn Read) -> Result<(), ArchiveError> {
        io::copy(content, &mut io::sink()).map_err(ArchiveError::Output)?;
        Ok(())
    }
}

/// An archive in canonical form: only files, with the same mode and owner.
pub struct TarGz<W: Write>(Builder<GzEncoder<W>>);

impl<W: Write> TarGz<W> {
    /// An empty archive.
    pub fn new(output: W) -> Self {
        // It is read once, on the same machine.
        Self(Builder::new(GzEncoder::new(output, Compression::fast())))
    }

    /// Writes the end.
    pub fn finish(self) -> Result<(), ArchiveError> {
        let gzip = self.0.into_inner().map_err(ArchiveError::Output)?;
        let mut output = gzip.finish().map_err(ArchiveError::Output)?;
        output.flush().map_err(ArchiveError::Output)
    }
}

impl<W: Write> Sink for TarGz<W> {
    fn file(
        &mut self,
        path: &EntryPath,
        modified: u64,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(MODE);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(modified);
        header.set_size(size);
        self.0
            .append_data(&mut header, path.as_str(), content)
            .map_err(ArchiveError::Output)
    }
}

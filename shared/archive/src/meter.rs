//! Counts the bytes that decompression gives, and stops it at a limit.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

use flate2::read::MultiGzDecoder;
use thiserror::Error;

use crate::ArchiveError;

/// What remains of the limits, for an archive and for those of its subcharts together. Clones share it.
#[derive(Clone, Debug)]
pub struct Remaining {
    bytes: Rc<Cell<u64>>,
    files: Rc<Cell<usize>>,
}

impl Remaining {
    /// Limits of which nothing is used.
    pub fn new(bytes: u64, files: usize) -> Self {
        Self {
            bytes: Rc::new(Cell::new(bytes)),
            files: Rc::new(Cell::new(files)),
        }
    }

    /// The bytes that may still be read.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// The files that may still be read.
    pub fn files(&self) -> usize {
        self.files.get()
    }

    /// Counts a file. `None` if it is one too many.
    pub fn take_file(&self) -> Option<()> {
        self.files.set(self.files.get().checked_sub(1)?);
        Some(())
    }
}

/// The decompressed bytes of an archive, as far as the limit allows.
pub struct Decompressed<R> {
    inner: MultiGzDecoder<Marked<R>>,
    remaining: Remaining,
}

impl<R: Read> Decompressed<R> {
    /// Decompresses an archive.
    pub fn new(archive: R, remaining: Remaining) -> Self {
        Self {
            inner: MultiGzDecoder::new(Marked(archive)),
            remaining,
        }
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let rest = self.remaining.bytes().checked_sub(read as u64);
        self.remaining
            .bytes
            .set(rest.ok_or_else(|| io::Error::other(OverLimit))?);
        Ok(read)
    }
}

/// Marks the errors of the source, so that they are distinguished from those of its format.
struct Marked<R>(R);

impl<R: Read> Read for Marked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => io::Error::other(SourceFailed(error)),
        })
    }
}

/// The limit is reached.
#[derive(Debug, Error)]
#[error("the limit of the archive is reached")]
struct OverLimit;

/// The source of the archive failed.
#[derive(Debug, Error)]
#[error("{0}")]
struct SourceFailed(io::Error);

/// The cause of an I/O error that a reader of the archive got. `limit` is that of all bytes.
pub fn cause(error: io::Error, limit: u64) -> ArchiveError {
    let kind = error.kind();
    let over_limit = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<OverLimit>());
    if over_limit.is_some() {
        return ArchiveError::TooLarge { limit };
    }
    match (error.downcast::<SourceFailed>(), kind) {
        (Ok(SourceFailed(error)), _) => ArchiveError::Input(error),
        (Err(_), io::ErrorKind::UnexpectedEof) => ArchiveError::Gzip("it ends too early".to_owned()),
        // Those of the decompression; the others come from the reader of the tar archive.
        (Err(error), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
            ArchiveError::Gzip(error.to_string())
        }
        (Err(error), _) => ArchiveError::Tar(error.to_string()),
    }
}

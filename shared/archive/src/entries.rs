//! The entries of a tar archive: files and folders, with the paths that extended headers give them.
//!
//! The headers are read by the crate `tar` and interpreted here: it would read extended headers of any size into memory. What Go's
//! `archive/tar`, and so Helm, would read differently is an error: it could hide a file from these checks.

use std::{
    io::{self, Read},
    ops::Range,
};

use tar::{Archive, Entry, EntryType, Header, PaxExtensions};

use crate::{
    ArchiveError,
    meter::cause,
    path::{EntryPath, Layout, shown},
};

/// The maximum size of an extended header, in bytes: it has the path of an entry, and attributes that are ignored.
const MAX_EXTENDED: u64 = 16 << 10;
/// Where a header has the start of a path that is too long for its name.
const PREFIX: Range<usize> = 345..500;

/// A file of the archive.
pub struct File<'e, 'a, R: Read> {
    /// Its path.
    pub path: EntryPath,
    /// Its size, in bytes.
    pub size: u64,
    /// Its content.
    pub content: Content<'e, 'a, R>,
}

/// The content of a file, as long as its header says.
pub struct Content<'e, 'a, R: Read> {
    entry: &'e mut Entry<'a, R>,
    missing: u64,
    limit: u64,
    failure: Option<ArchiveError>,
}

impl<R: Read> Read for Content<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.entry.read(buffer).and_then(|read| {
            self.missing = self.missing.saturating_sub(read as u64);
            if read == 0 && !buffer.is_empty() && self.missing > 0 {
                return Err(io::Error::other("it ends within a file"));
            }
            Ok(read)
        });
        read.map_err(|error| {
            // The caller takes the cause from `failure`.
            let passed = io::Error::new(error.kind(), "the archive cannot be read");
            self.failure = Some(cause(error, self.limit));
            passed
        })
    }
}

impl<R: Read> Content<'_, '_, R> {
    /// The cause of a failed read: the archive itself, or `other`.
    pub fn cause(self, other: ArchiveError) -> ArchiveError {
        self.failure.unwrap_or(other)
    }
}

/// Calls `visit` for each file, in the order of the archive. `limit` is that of all bytes.
///
/// The rest of the archive is read too, up to the end of the compressed data: only then its checksum is verified.
pub fn for_each_file<R: Read>(
    archive: R,
    limit: u64,
    layout: Layout,
    mut visit: impl FnMut(File<'_, '_, R>) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let broken = |error| cause(error, limit);
    let mut archive = Archive::new(archive);
    let mut long_path = None;
    let mut follows_extended = false;
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let header_path = entry.path_bytes().into_owned();
        let entry_type = entry.header().entry_type();
        if !has_one_path(entry.header()) {
            return Err(ArchiveError::Tar(format!(
                "programs read different paths in the header of {:?}",
                shown(&header_path)
            )));
        }
        // Go forgets a path that another extended header follows, and prefers the one of GNU in any order.
        let is_extended = matches!(entry_type, EntryType::GNULongName | EntryType::XHeader);
        if follows_extended && (is_extended || entry_type == EntryType::XGlobalHeader) {
            return Err(ArchiveError::Tar(
                "an entry has several extended headers".to_owned(),
            ));
        }
        follows_extended = is_extended;
        match entry_type {
            EntryType::XGlobalHeader => skip(&mut entry, limit)?,
            EntryType::GNULongName => {
                let mut path = extended(&mut entry, limit)?;
                while path.last() == Some(&0) {
                    path.pop();
                }
                long_path = Some(path);
            }
            EntryType::XHeader => {
                if let Some(path) = pax_path(&extended(&mut entry, limit)?)? {
                    long_path = Some(path);
                }
            }
            EntryType::Directory => {
                folder(&long_path.take().unwrap_or(header_path), layout, entry.size())?;
            }
            EntryType::Regular => {
                let path = long_path.take().unwrap_or(header_path);
                if path.ends_with(b"/") {
                    // In the oldest format.
                    folder(&path, layout, entry.size())?;
                    continue;
                }
                let file = File {
                    path: EntryPath::parse(&path, layout, false)?,
                    size: entry.size(),
                    content: Content {
                        missing: entry.size(),
                        entry: &mut entry,
                        limit,
                        failure: None,
                    },
                };
                visit(file)?;
            }
            other => {
                return Err(ArchiveError::Special {
                    path: shown(&long_path.unwrap_or(header_path)),
                    kind: kind(other),
                });
            }
        }
    }
    if follows_extended {
        return Err(ArchiveError::Tar("it ends with an extended header".to_owned()));
    }
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| cause(error, limit))?;
    Ok(())
}

/// Whether all programs find the same path in a header: some read the prefix also in other formats than POSIX's, or as a shorter one.
fn has_one_path(header: &Header) -> bool {
    let bytes = header.as_bytes();
    let has_prefix = bytes
        .get(PREFIX)
        .is_some_and(|prefix| prefix.iter().any(|byte| *byte != 0));
    let is_posix = header.as_ustar().is_some() && !bytes.ends_with(b"tar\0");
    !has_prefix || is_posix
}

/// Checks a folder. Go reads content of one as further entries, or as a file.
fn folder(path: &[u8], layout: Layout, size: u64) -> Result<(), ArchiveError> {
    EntryPath::parse(path, layout, true)?;
    if size > 0 {
        let path = shown(path);
        return Err(ArchiveError::Tar(format!("the folder {path:?} has content")));
    }
    Ok(())
}

/// The content of an extended header.
fn extended<R: Read>(entry: &mut Entry<'_, R>, limit: u64) -> Result<Vec<u8>, ArchiveError> {
    if entry.size() > MAX_EXTENDED {
        return Err(ArchiveError::Tar(format!(
            "an extended header has {} bytes, more than {MAX_EXTENDED}",
            entry.size()
        )));
    }
    let mut content = Vec::new();
    entry
        .read_to_end(&mut content)
        .map_err(|error| cause(error, limit))?;
    Ok(content)
}

/// The path in an extended header of POSIX, if it has one.
fn pax_path(content: &[u8]) -> Result<Option<Vec<u8>>, ArchiveError> {
    let mut path = None;
    for record in PaxExtensions::new(content) {
        let record =
            record.map_err(|_| ArchiveError::Tar("an extended header cannot be decoded".to_owned()))?;
        match record.key_bytes() {
            b"path" => path = Some(record.value_bytes().to_owned()),
            // They change what the content of the next entry is.
            key if key == b"size" || key.starts_with(b"GNU.sparse") => {
                return Err(ArchiveError::Tar(format!(
                    "an extended header sets {:?}, which no chart needs",
                    shown(key)
                )));
            }
            _ => {}
        }
    }
    Ok(path)
}

fn skip<R: Read>(entry: &mut Entry<'_, R>, limit: u64) -> Result<(), ArchiveError> {
    io::copy(entry, &mut io::sink()).map_err(|error| cause(error, limit))?;
    Ok(())
}

/// What an entry is, for a message.
fn kind(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a named pipe",
        EntryType::GNUSparse => "a sparse file",
        EntryType::GNULongLink => "a link with a long target",
        _ => "of an unknown type",
    }
}

#![doc = include_str!("../README.md")]
//!
//! # How an archive is read
//!
//! ```text
//! gzip ─► meter ─► entries ─► path ─► reader ──┬─► metadata: Chart.yaml
//!         (bytes)  (headers)  (names)          └─► nested: the archives of subcharts
//! ```
//!
//! `writer` writes archives, with the same bytes for the same files.
//!
//! `crds`, `templates`, `values_files` and `unpack` read the folders of CRDs, of templates, and files with values in the same way.

#![warn(missing_docs)]

mod crds;
mod entries;
mod error;
mod files;
mod limits;
mod metadata;
mod meter;
mod nested;
mod path;
mod reader;
mod templates;
mod unpack;
mod values_files;
mod writer;

pub use crds::check_crds;
pub use error::{ArchiveError, CrdProblem, MissingDependency, PathProblem};
pub use limits::Limits;
pub use path::{Layout, MAX_PATH, is_path};
pub use templates::template_with;
pub use unpack::{files, size};
pub use values_files::{ValuesFiles, values_files};
pub use writer::ArchiveWriter;

use std::io::Read;

/// A chart whose archive was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// Its version, as written.
    pub version: String,
    /// The number of its files, with those in archives of subcharts.
    pub files: usize,
    /// The bytes of the archive after decompression, with those of archives of subcharts.
    pub bytes: u64,
}

/// Checks an archive.
///
/// # Errors
/// If it is not the archive of a chart, or contains something that no chart needs.
pub fn check(archive: impl Read, limits: Limits) -> Result<Chart, ArchiveError> {
    reader::read(archive, limits)
}

#[cfg(test)]
mod tests;

#![doc = include_str!("../README.md")]
//!
//! # How an archive is read
//!
//! ```text
//! gzip ─► meter ─► entries ─► path ─► reader ──┬─► sink: nothing, or an archive in canonical form
//!         (bytes)  (headers)  (names)          ├─► metadata: Chart.yaml, edited
//!                                              └─► nested: the archives of subcharts
//! ```
//!
//! `crds` and `templates` read the folders of CRDs and of templates in the same way.

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
mod sink;
mod templates;

pub use crds::check_crds;
pub use error::{ArchiveError, CrdProblem, MissingDependency, PathProblem};
pub use limits::Limits;
pub use path::MAX_PATH;
pub use templates::template_with;

use std::io::{Read, Write};

use sink::{Nothing, TarGz};

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
    let (chart, Nothing) = reader::read(archive, Nothing, limits, str::to_owned)?;
    Ok(chart)
}

/// Checks an archive, and writes its chart to `output` in canonical form: with an edited `Chart.yaml`, and with all other files
/// as they are. The same archive and the same edit give the same bytes.
///
/// What was written before an error is of no use.
///
/// ```
/// use helm_archive::{Limits, rewrite};
/// # use std::io::Write;
/// # let chart = "name: web\nversion: 1.2.3\n";
/// # let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
/// # let mut header = tar::Header::new_ustar();
/// # header.set_size(chart.len() as u64);
/// # tar.append_data(&mut header, "web/Chart.yaml", chart.as_bytes()).unwrap();
/// # let archive = tar.into_inner().unwrap().finish().unwrap();
///
/// let edit = |chart_yaml: &str| format!("{chart_yaml}annotations: {{deployed-by: me}}\n");
/// let chart = rewrite(&*archive, std::io::sink(), Limits::default(), edit).unwrap();
/// assert_eq!((&*chart.name, &*chart.version, chart.files), ("web", "1.2.3", 1));
/// ```
///
/// # Errors
/// Those of [`check`], and those of `output`.
pub fn rewrite(
    archive: impl Read,
    output: impl Write,
    limits: Limits,
    edit: impl FnOnce(&str) -> String,
) -> Result<Chart, ArchiveError> {
    let (chart, written) = reader::read(archive, TarGz::new(output), limits, edit)?;
    written.finish()?;
    Ok(chart)
}

#[cfg(test)]
mod tests;

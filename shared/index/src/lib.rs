#![doc = include_str!("../README.md")]
//!
//! # How an index is read
//!
//! ```text
//!             ┌ helm_layout ┐ lines in Helm's layout
//! source ─────┤ json        ├─► collect ─► Index
//! bytes       └ yaml        ┘ relevant nodes
//! ```
//!
//! `helm_layout` and `json` are the fast readers. They stop at whatever they do not support, and then `yaml` reads the document from
//! its start; so the result does not depend on which of them returned it.
//!
//! # Which entries are valid
//! Helm (version 4, `loadIndex`) skips an entry if it is null or if `Validate` fails. The same entries are skipped here, and
//! [`Index::skipped`] counts them:
//! - `name` is empty, `.` or `..`, or has a `/`; Helm does not compare it to the name that the entry is listed under;
//! - `version` is empty or not a version;
//! - `type` is neither empty nor `application` nor `library`;
//! - one of the `maintainers` or `dependencies` is null, or the `alias` of a dependency has other characters than
//!   letters, digits, `_` and `-`. (Two dependencies may have the same name, as in Helm.)
//!
//! Other errors make Helm reject the whole index. Here they affect only their entry, or nothing:
//! - An entry with a value of a wrong type is skipped and counted. `version: 1.10` without quotes is one: Helm's YAML
//!   is version 1.1, where that is the number 1.1. So is `deprecated: "true"`, and a list of versions that is not a list.
//! - An unknown field, an invalid `created`, and a missing `apiVersion` are ignored.
//! - Of a duplicate key the last value is used, and two `entries` are merged. Helm does the same in JSON.
//! - Keys merged into a mapping with `<<` do not replace its own keys.
//!
//! Keys that are not text, such as `on:` or `1.10:`, are used as they are written; for Helm they are `true` and `1.1`. As in
//! Helm, field names are case-insensitive, only the first of several documents is read, and `null` for a chart or for
//! `entries` means an empty one.

#![warn(missing_docs)]

mod collect;
mod entry;
mod error;
mod helm_layout;
mod json;
mod meter;
mod request;
mod scalar;
mod select;
mod source;
pub mod tags;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use self::collect::Collector;
use self::source::Source;

pub use self::{
    entry::{EntryDetails, IndexEntry, SkippedEntry},
    error::{DocumentKind, IndexError},
    meter::{Meter, OverBudget, Unmetered},
    request::{OwnedVersionRequest, VersionFilter, VersionRequest, is_complete_version, is_strict_version},
    select::{
        Candidate, Explained, Explanation, Nearest, Outlook, SelectError, Verdict, explain, outlook, select,
    },
};

/// How much of the requested charts is kept, in bytes: some 60,000 versions, more than large repositories list in total.
pub const MAX_KEPT: usize = 16 << 20;

/// The longest text or comment in the document, in bytes: annotations of a chart contain a change log at most.
pub const MAX_TOKEN_LEN: usize = 1 << 20;

/// Names of the charts to keep.
pub type ChartFilter = BTreeSet<String>;

/// The requested charts of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The requested charts that the index lists, with their versions in the order of the document.
    pub charts: BTreeMap<String, Vec<IndexEntry>>,
    /// How many invalid entries of requested charts were skipped.
    pub skipped: u64,
    /// Some of them, by chart, with [`Detail::Full`] only.
    pub skipped_entries: BTreeMap<String, Vec<SkippedEntry>>,
}

impl Index {
    /// The versions of a chart, in the order of the document.
    ///
    /// # Errors
    /// [`IndexError::NoSuchChart`] if the index does not list it, or it was not requested.
    pub fn versions(&self, chart: &str) -> Result<&[IndexEntry], IndexError> {
        match self.charts.get(chart) {
            Some(versions) => Ok(versions),
            None => Err(IndexError::NoSuchChart(chart.to_owned())),
        }
    }

    /// Memory usage of the index in bytes.
    pub fn bytes(&self) -> usize {
        let charts = self.charts.iter().map(|(name, versions)| {
            let spare = versions.capacity() - versions.len();
            let entries: usize = versions.iter().map(IndexEntry::bytes).sum();
            size_of::<(String, Vec<IndexEntry>)>()
                + name.capacity()
                + spare * size_of::<IndexEntry>()
                + entries
        });
        size_of::<Self>() + charts.sum::<usize>()
    }
}

/// How much of a version is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// What a selection needs.
    #[default]
    Selection,
    /// What a person wants to know as well: [`EntryDetails`], and why entries were skipped.
    Full,
}

/// The expected layout of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Probably Helm's own, or JSON: [`IndexError::UnsupportedLayout`] is returned if it is neither and that is detected too late.
    Any,
    /// Any YAML. Takes about thirty times as long.
    General,
}

/// Reads the requested charts of an index.
///
/// `input` is the text of the document, decompressed; it is read to its end and may block.
///
/// # Errors
/// - [`IndexError::Input`] with the error of the input;
/// - [`IndexError::UnsupportedLayout`], with [`Layout::Any`] only: fetch the document again for [`Layout::General`];
/// - any other, if the document is invalid. A requested chart that is not listed is not an error here.
pub fn read(input: impl io::Read, filter: &ChartFilter, layout: Layout) -> Result<Index, IndexError> {
    read_metered(input, filter, layout, Detail::Selection, &mut Unmetered)
}

/// Like [`read`], but keeps this much detail, and `meter` limits the memory for what is kept.
///
/// # Errors
/// Those of [`read`], and [`IndexError::OverBudget`] if the meter does not grant enough memory.
pub fn read_metered(
    input: impl io::Read,
    filter: &ChartFilter,
    layout: Layout,
    detail: Detail,
    meter: &mut dyn Meter,
) -> Result<Index, IndexError> {
    let mut source = Source::open(input, layout).map_err(IndexError::Input)?;
    if let Some(encoding) = source.unsupported_encoding() {
        return Err(IndexError::NotUtf8(encoding));
    }
    if layout == Layout::Any {
        match read_fast(&mut source, filter, detail, meter) {
            Err(FastReadError::Unsupported) if source.rewind() => {}
            Err(FastReadError::Unsupported) => return Err(IndexError::UnsupportedLayout),
            Err(FastReadError::Input(error)) => return Err(IndexError::Input(error)),
            Ok(result) => return result,
        }
    }
    let is_markup = source.first() == Some(b'<');
    read_general(source, filter, detail, meter).map_err(|error| match error {
        IndexError::Malformed(_) | IndexError::CutOff(_) | IndexError::NotAnIndex(_) if is_markup => {
            IndexError::NotAnIndex(DocumentKind::WebPage)
        }
        error => error,
    })
}

/// Why one of the fast readers stops before the end of the document.
#[derive(Debug)]
enum FastReadError {
    /// The input failed.
    Input(io::Error),
    /// The document has something that only the general reader supports.
    Unsupported,
}

impl From<io::Error> for FastReadError {
    fn from(error: io::Error) -> Self {
        Self::Input(error)
    }
}

fn read_fast<R: io::Read>(
    source: &mut Source<R>,
    filter: &ChartFilter,
    detail: Detail,
    meter: &mut dyn Meter,
) -> Result<Result<Index, IndexError>, FastReadError> {
    let mut collector = Collector::new(filter, detail, meter);
    match source.first() {
        Some(b'{') => json::read(source, &mut collector)?,
        Some(b'<') => return Err(FastReadError::Unsupported),
        _ => helm_layout::read(source, &mut collector)?,
    }
    Ok(collector.finish())
}

fn read_general<R: io::Read>(
    source: Source<R>,
    filter: &ChartFilter,
    detail: Detail,
    meter: &mut dyn Meter,
) -> Result<Index, IndexError> {
    let mut collector = Collector::new(filter, detail, meter);
    yaml::read(source, &mut collector)?;
    collector.finish()
}

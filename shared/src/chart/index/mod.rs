//! Reading a Helm repository's `index.yaml`.
//!
//! The document is read as it comes, node by node, and only the versions of the wanted charts are kept: memory grows
//! neither with the document nor with its other charts.
//!
//! ```text
//!             ┌ helm_layout ┐ lines, as Helm writes them
//! source ─────┤ json        ├─► collect ─► Index
//! bytes       └ yaml        ┘ what counts
//! ```
//!
//! `helm_layout` and `json` are there for speed. They give up on whatever they do not fully understand, and then `yaml`
//! reads the document from its beginning; so the answer never depends on which of them gave it.
//!
//! # What counts as an entry
//! Helm (version 4, `loadIndex`) passes over an entry if it is null or if its `Validate` says no. So it is here, and
//! [`Index::skipped`] counts those:
//! - `name` is empty, `.` or `..`, or has a `/`; Helm does not compare it to the name that the entry is listed under;
//! - `version` is empty or no version;
//! - `type` is neither empty nor `application` nor `library`;
//! - one of the `maintainers` or `dependencies` is null, or the `alias` of a dependency has other characters than
//!   letters, digits, `_` and `-`. (That two dependencies share a name is let pass, as Helm does.)
//!
//! Other things make Helm refuse the whole index. Here they cost the entry that they are in, or nothing:
//! - An entry with a value of a wrong type is passed over and counted. `version: 1.10` without quotes is one: Helm's YAML
//!   is version 1.1, where that is the number 1.1. So is `deprecated: "true"`, and a list of versions that is no list.
//! - An unknown field, a `created` that is no time, and a missing `apiVersion` are of no interest.
//! - A key that comes twice counts as it comes last, and two `entries` count together. In JSON Helm does just that.
//! - What `<<` merges into a mapping does not replace keys that it has.
//!
//! Keys that are no text, such as `on:` or `1.10:`, are taken as they are written; Helm finds them as `true` and `1.1`.
//! As in Helm, field names may be written in any case, only the first of several documents counts, and `null` for a
//! chart or for `entries` is none at all.

mod collect;
mod entry;
mod error;
mod helm_layout;
mod json;
mod scalar;
mod source;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use self::collect::Collector;
use self::source::Source;
use super::meter::{Meter, Unmetered};

pub use self::entry::IndexEntry;
pub use self::error::{IndexError, Instead};

/// How much is kept of the wanted charts, in bytes: some 60,000 versions, more than large repositories list in all.
const MAX_KEPT: usize = 16 << 20;

/// The longest text or comment in the document, in bytes: annotations of a chart hold a change log at most.
const MAX_QUIET: usize = 1 << 20;

/// Names of charts.
pub type ChartFilter = BTreeSet<String>;

/// What an index says of the wanted charts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The wanted charts that the index lists, with their versions in the order of the document.
    pub charts: BTreeMap<String, Vec<IndexEntry>>,
    /// How many broken entries of wanted charts were passed over.
    pub skipped: u64,
}

impl Index {
    /// The versions of a chart, in the order of the document.
    ///
    /// # Errors
    /// [`IndexError::NoSuchChart`] where the index does not list it, or it was not wanted.
    pub fn versions(&self, chart: &str) -> Result<&[IndexEntry], IndexError> {
        match self.charts.get(chart) {
            Some(versions) => Ok(versions),
            None => Err(IndexError::NoSuchChart(chart.to_owned())),
        }
    }

    /// What the index costs in memory, in bytes.
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

/// What to expect of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Most likely Helm's own, or JSON: [`IndexError::OddLayout`] tells if it shows too late that it is neither.
    Any,
    /// Anything in YAML. Takes some thirty times as long.
    General,
}

/// Reads what an index says of the wanted charts.
///
/// `input` is the text of the document, decompressed; it is read to its end and may block.
///
/// # Errors
/// - [`IndexError::Input`] with the error that the input gave;
/// - [`IndexError::OddLayout`], with [`Layout::Any`] only: fetch the document again for [`Layout::General`];
/// - any other, if the document is not in order. That a wanted chart is not listed is no such error.
pub fn read(input: impl io::Read, wanted: &ChartFilter, layout: Layout) -> Result<Index, IndexError> {
    read_metered(input, wanted, layout, &mut Unmetered)
}

/// The same as [`read`], with a say in how much memory what is kept may take.
///
/// # Errors
/// Those of [`read`], and [`IndexError::OverBudget`] where the meter does not grant enough.
pub fn read_metered(
    input: impl io::Read,
    wanted: &ChartFilter,
    layout: Layout,
    meter: &mut dyn Meter,
) -> Result<Index, IndexError> {
    let mut source = Source::open(input, layout).map_err(IndexError::Input)?;
    if let Some(encoding) = source.foreign_encoding() {
        return Err(IndexError::NotUtf8(encoding));
    }
    if layout == Layout::Any {
        match quick(&mut source, wanted, meter) {
            Err(Stop::Odd) if source.rewind() => {}
            Err(Stop::Odd) => return Err(IndexError::OddLayout),
            Err(Stop::Input(error)) => return Err(IndexError::Input(error)),
            Ok(answer) => return answer,
        }
    }
    let is_markup = source.first() == Some(b'<');
    general(source, wanted, meter).map_err(|error| match error {
        IndexError::Malformed(_) | IndexError::CutOff(_) | IndexError::NotAnIndex(_) if is_markup => {
            IndexError::NotAnIndex(Instead::WebPage)
        }
        error => error,
    })
}

/// Why one of the quick readers stops before the end of the document.
#[derive(Debug)]
enum Stop {
    /// The input failed.
    Input(io::Error),
    /// The document has something that only the general reader understands.
    Odd,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Input(error)
    }
}

fn quick<R: io::Read>(
    source: &mut Source<R>,
    wanted: &ChartFilter,
    meter: &mut dyn Meter,
) -> Result<Result<Index, IndexError>, Stop> {
    let mut collector = Collector::new(wanted, meter);
    match source.first() {
        Some(b'{') => json::read(source, &mut collector)?,
        Some(b'<') => return Err(Stop::Odd),
        _ => helm_layout::read(source, &mut collector)?,
    }
    Ok(collector.finish())
}

fn general<R: io::Read>(
    source: Source<R>,
    wanted: &ChartFilter,
    meter: &mut dyn Meter,
) -> Result<Index, IndexError> {
    let mut collector = Collector::new(wanted, meter);
    yaml::read(source, &mut collector)?;
    collector.finish()
}

//! The candidates for a version.

use jiff::Timestamp;

use crate::IndexEntry;

/// A list entry that represents one version of a chart.
pub trait Candidate {
    /// The version, as the repository or registry writes it.
    fn version(&self) -> &str;

    /// When it was published, as the repository writes it; empty if unknown.
    fn created(&self) -> &str {
        Default::default()
    }

    /// URL of its archive; empty if the index should have one but does not. `None` for tags, which need no URL.
    fn url(&self) -> Option<&str> {
        None
    }
}

impl<C: Candidate> Candidate for &C {
    fn version(&self) -> &str {
        (*self).version()
    }

    fn created(&self) -> &str {
        (*self).created()
    }

    fn url(&self) -> Option<&str> {
        (*self).url()
    }
}

impl Candidate for IndexEntry {
    fn version(&self) -> &str {
        &self.version
    }

    fn created(&self) -> &str {
        &self.created
    }

    fn url(&self) -> Option<&str> {
        Some(&self.url)
    }
}

/// A publication time, ordered: texts that are not a time first, then times in ascending order.
///
/// (Comparing as texts whenever one of the two is not a time would not be transitive.)
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Published<'a> {
    Text(&'a str),
    At(Timestamp),
}

impl<'a> Published<'a> {
    /// Parses a time in RFC 3339, the format that Helm writes.
    pub(super) fn parse(text: &'a str) -> Self {
        text.parse().map_or(Self::Text(text), Self::At)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_as_instants_and_sort_after_other_texts() {
        let ascending = [
            "",
            "2027-01-01",
            "yesterday",
            "2026-01-01T00:30:00+02:00",
            "2025-12-31T23:00:00Z",
            "2025-12-31T23:00:00.000000001Z",
            "2026-01-01T00:00:00Z",
        ];
        for pair in ascending.windows(2) {
            assert!(Published::parse(pair[0]) < Published::parse(pair[1]), "{pair:?}");
        }
        assert_eq!(
            Published::parse("2026-01-01T00:00:00Z"),
            Published::parse("2026-01-01T01:00:00+01:00")
        );
    }
}

//! The candidates for a version.

use jiff::Timestamp;

use masterminds_semver::Version;

use crate::IndexEntry;

/// A list entry that represents one version of a chart.
pub trait Candidate {
    /// The version, as the repository or registry writes it.
    fn version(&self) -> &str;

    /// When it was published, as the repository writes it; empty if unknown.
    fn created(&self) -> &str {
        Default::default()
    }

    /// Whether it is marked as deprecated.
    fn is_deprecated(&self) -> bool {
        false
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

    fn is_deprecated(&self) -> bool {
        (*self).is_deprecated()
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

    fn is_deprecated(&self) -> bool {
        self.deprecated
    }

    fn url(&self) -> Option<&str> {
        Some(&self.url)
    }
}

/// A candidate with a valid version.
pub(super) struct Parsed<C> {
    pub(super) version: Version,
    pub(super) candidate: C,
}

impl<C: Candidate> Parsed<C> {
    pub(super) fn parse(candidate: C) -> Option<Self> {
        let version = Version::parse(candidate.version()).ok()?;
        Some(Self { version, candidate })
    }

    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        let order = self.version.precedence(&other.version);
        order.is_gt() || (order.is_eq() && is_later(&self.candidate, &other.candidate))
    }
}

/// Whether `a` was published after `b`.
pub(super) fn is_later<C: Candidate>(a: &C, b: &C) -> bool {
    Published::parse(a.created()) > Published::parse(b.created())
}

/// A publication time, ordered: texts that are not a time first, then times in ascending order.
///
/// (Comparing as texts whenever one of the two is not a time would not be transitive.)
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Published<'a> {
    Text(&'a str),
    At(Timestamp),
}

impl<'a> Published<'a> {
    /// Parses a time in RFC 3339, the format that Helm writes.
    fn parse(text: &'a str) -> Self {
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

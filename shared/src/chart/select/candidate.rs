//! What a version can be chosen from.

use k8s_openapi::jiff::Timestamp;

use crate::chart::index::IndexEntry;

/// Something that stands for one version of a chart.
pub trait Candidate {
    /// The version, as the repository or registry writes it.
    fn version(&self) -> &str;

    /// When it was published, as the repository writes it; empty where that is not known.
    fn created(&self) -> &str {
        Default::default()
    }

    /// Where its archive is; empty where there should be a place and none is named. `None` where no place is needed: a tag
    /// is one itself.
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

/// A time of publication, by rank: the earlier first, and before all of them what is no time.
///
/// Comparing texts only where one of two is no time would be no order among three.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Published<'a> {
    Text(&'a str),
    At(Timestamp),
}

impl<'a> Published<'a> {
    /// Reads a time as RFC 3339 has it, which is how Helm writes it.
    pub(super) fn read(text: &'a str) -> Self {
        text.parse().map_or(Self::Text(text), Self::At)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_as_instants_and_follow_all_else() {
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
            assert!(Published::read(pair[0]) < Published::read(pair[1]), "{pair:?}");
        }
        assert_eq!(
            Published::read("2026-01-01T00:00:00Z"),
            Published::read("2026-01-01T01:00:00+01:00")
        );
    }
}

//! Why no version was chosen.

use std::fmt;

use thiserror::Error;

/// Why no version was chosen. The messages contain those of Helm and Fleet, so that a search for them finds these.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectError {
    /// The chart is listed without any version.
    #[error("no chart version found: chart {chart:?} has no versions")]
    NoVersions {
        /// Name of the chart.
        chart: String,
    },
    /// No version matches.
    #[error("no chart version found for {chart}-{requested}: {nearest}")]
    NoMatch {
        /// Name of the chart.
        chart: String,
        /// The version field.
        requested: String,
        /// The nearest existing versions.
        nearest: Nearest,
    },
    /// No version passes the filter.
    #[error(
        "no chart version found for {chart}-{requested}: semverFilter {filter:?} matches none of its {listed} versions; it matches \
         anywhere in a version, unless ^ and $ are in it"
    )]
    Filtered {
        /// Name of the chart.
        chart: String,
        /// The version field.
        requested: String,
        /// The expression.
        filter: String,
        /// How many versions are listed.
        listed: usize,
    },
    /// Only pre-releases match, and a range allows pre-releases only if it names one.
    #[error(
        "no chart version found for {chart}-{requested}: no release matches, only pre-releases do, the newest of them {newest}; \
        to allow pre-releases, write {constraint:?}"
    )]
    OnlyPrereleases {
        /// Name of the chart.
        chart: String,
        /// The version field.
        requested: String,
        /// The pre-release that would be chosen.
        newest: String,
        /// The constraint that allows it.
        constraint: String,
    },
    /// The version that was chosen has no archive.
    #[error("no URLs found for chart {chart} {version}: the index has no URL for its archive")]
    NoUrl {
        /// Name of the chart.
        chart: String,
        /// The version.
        version: String,
    },
}

/// The versions nearest to the requested ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Some of them as listed, newest first. Empty if there is no semantic version at all.
    pub versions: Vec<String>,
    /// How many other entries there are, valid or not.
    pub others: usize,
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.versions.len() + self.others;
        match (self.versions.as_slice(), self.others) {
            ([], _) => f.write_str("none of its versions is a semantic version such as 1.2.3"),
            ([only], 0) => write!(f, "its only version is {only}"),
            ([one], _) => write!(f, "of its {all} versions the nearest is {one}"),
            (some, 0) => write!(f, "its versions are {}", some.join(", ")),
            (some, _) => write!(f, "of its {all} versions the nearest are {}", some.join(", ")),
        }
    }
}

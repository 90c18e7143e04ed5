//! A deployed revision.

use std::fmt;

use helmops_release::{names::ReleaseKey, record::Acceptance};
use k8s_openapi::jiff::Timestamp;

/// A deployed revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The release.
    pub release: ReleaseKey,
    /// The revision.
    pub revision: u64,
    /// When it was made. A record that was discarded gives its number to the next one, so that the number alone does not identify it.
    pub made_at: Option<Timestamp>,
    /// Whether it was ready and passed its tests, as its record shows.
    pub acceptance: Option<Acceptance>,
    /// The revision that was deployed before, if there is a record of it.
    pub previous: Option<u64>,
}

/// As in a status.
impl fmt::Display for Deployed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.release, self.revision)
    }
}

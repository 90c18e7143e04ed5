//! A deployed revision.

use helmops_release::record::Acceptance;

use crate::revision::RevisionId;

/// A deployed revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// Which one.
    pub id: RevisionId,
    /// Whether it was ready and passed its tests, as its record shows.
    pub acceptance: Option<Acceptance>,
    /// Whether it restores another revision: then nothing is awaited or tested again, and it cannot fail as an attempt.
    pub is_rollback: bool,
    /// The revision that was deployed before, if there is a record of it.
    pub previous: Option<u64>,
}

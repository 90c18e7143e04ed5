//! A deployed revision, and its identity.

use std::fmt;

use jiff::Timestamp;

use crate::{
    history::History,
    names::ReleaseKey,
    record::{Acceptance, AttemptAction},
};

/// The identity of a revision: what is known of one revision says nothing of another one.
///
/// The number alone does not identify it: a record that was discarded gives its number to the next one. Both have their own times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionId {
    /// The release.
    pub release: ReleaseKey,
    /// The number, which Helm shows.
    pub number: u64,
    /// When the revision was made; `None` if its record does not show it.
    pub made_at: Option<Timestamp>,
}

/// A deployed revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// Its identity.
    pub id: RevisionId,
    /// Whether it was ready and passed its tests, as its record shows.
    pub acceptance: Option<Acceptance>,
    /// What has made it: an upgrade, unless its record is that of an installation by an agent.
    pub action: AttemptAction,
    /// Whether it restores another revision: then nothing is awaited or tested again, and it cannot fail as an attempt.
    pub is_rollback: bool,
    /// The revision that was deployed before, if there is a record of it.
    pub previous: Option<u64>,
}

impl Deployed {
    /// A revision of a release, as its records show it.
    pub fn of(release: &ReleaseKey, history: &History, number: u64) -> Self {
        let found = history.get(number);
        Self {
            id: RevisionId {
                release: release.clone(),
                number,
                made_at: found.and_then(|revision| revision.made_at),
            },
            acceptance: found.and_then(|revision| revision.acceptance),
            action: found
                .and_then(|revision| revision.origin.attempt.as_ref())
                .map_or(AttemptAction::Upgrade, |attempt| attempt.action),
            is_rollback: found.is_some_and(|revision| revision.is_rollback),
            previous: history.iter().map(|one| one.number).find(|one| *one < number),
        }
    }
}

/// The form in which statuses name a revision.
impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.release, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, number: u64, made_at: i64) -> RevisionId {
        RevisionId {
            release: ReleaseKey::new("shop", name),
            number,
            made_at: Timestamp::from_second(made_at).ok(),
        }
    }

    /// A record that is deleted before the next attempt gives its number to it.
    #[test]
    fn a_number_that_is_used_again_is_another_revision() {
        let first = revision("web", 1, 0);
        assert_eq!(first, revision("web", 1, 0));
        assert_ne!(first, revision("web", 1, 300));
        assert_ne!(first, revision("web", 2, 0));
        assert_ne!(first, revision("db", 1, 0), "a renamed release");
        assert_eq!(first.to_string(), "shop/web:1");
    }
}

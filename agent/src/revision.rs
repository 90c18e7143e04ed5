//! The identity of a revision.

use std::fmt;

use helmops_release::names::ReleaseKey;
use k8s_openapi::jiff::Timestamp;

/// The identity of a revision: what is known of one revision says nothing of another one.
///
/// The number alone does not identify it: a record that was discarded gives its number to the next one. Both have their own times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionId {
    /// The release.
    pub release: ReleaseKey,
    /// The number.
    pub number: u64,
    /// When the revision was made; `None` if its record does not show it.
    pub made_at: Option<Timestamp>,
}

/// As in a status.
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
            release: ReleaseKey {
                namespace: "shop".to_owned(),
                name: name.to_owned(),
            },
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

//! Whether a revision has succeeded in all that an attempt has to: not only Helm, but the wait for its objects, and its tests.

use std::fmt;

/// Whether a revision has succeeded in all that an attempt has to: the value of the label [`ACCEPTANCE`](crate::marks::ACCEPTANCE) of
/// its record. Helm knows neither readiness nor the judgement of tests, and its status `superseded` says nothing of them.
///
/// Each revision of a life cycle starts as awaited, and gets a label of its own, since Helm passes labels on to the next revision. A
/// rollback has the label of the revision that it restores. Records of older versions and of other agents have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is not ready yet, or its tests have not ended.
    Awaited,
    /// It was ready, and passed its tests.
    Accepted,
}

impl Acceptance {
    /// Reads the value of the label. A value that is not known is as no label.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Awaited, Self::Accepted]
            .into_iter()
            .find(|one| one.as_str() == text)
    }

    /// The value of the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Awaited => "Awaited",
            Self::Accepted => "Accepted",
        }
    }
}

impl fmt::Display for Acceptance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_read_again() {
        for acceptance in [Acceptance::Awaited, Acceptance::Accepted] {
            assert_eq!(Acceptance::parse(&acceptance.to_string()), Some(acceptance));
        }
        assert_eq!(Acceptance::parse("null"), None);
    }
}

//! Version constraints such as `>=1.2 <2 || ~3.1`, parsed and matched as in `Masterminds/semver` 3.
//!
//! ```text
//! text ─► hyphen: "1 - 2" becomes ">= 1, <= 2" ─► split at || ─► grammar: members of a group ─► comparator: one condition
//! ```
//!
//! That library parses constraints with regular expressions, and some of what it accepts is surprising (`x.1|2` means any
//! version). Such texts are in use, so they have the same meaning here. The test tables are generated with that library.

mod comparator;
mod condition;
mod error;
mod grammar;
mod hint;
mod hyphen;
mod quote;
mod satisfiable;

use std::{fmt, str::FromStr};

use self::comparator::Comparator;
pub use self::condition::{Condition, Precision};
pub use self::error::{BoundError, ConstraintError};
pub use self::grammar::{Expected, Operator};
use self::hyphen::Rewritten;
use crate::version::Version;

/// The longest constraint that is accepted, in bytes. Helm rejects longer ones.
pub const MAX_CONSTRAINT_LEN: usize = 512;

/// The maximum number of alternatives joined by `||`. Helm rejects more.
pub const MAX_CONSTRAINT_GROUPS: usize = 32;

/// Which versions match: alternatives, each a list of conditions that must all hold.
///
/// `Display` gives the normal form, `>=1.2 <2 || ~3.1`, with hyphen ranges written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    comparators: Vec<Comparator>,
    /// Whether a bound of the group is a pre-release: only such a group matches pre-releases.
    considers_prereleases: bool,
}

impl Constraint {
    /// Parses a constraint. An empty text is an error: its meaning is up to the caller, see [`Constraint::any`].
    ///
    /// # Errors
    /// What is wrong with the text, and at which byte of it.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        if text.len() > MAX_CONSTRAINT_LEN {
            return Err(ConstraintError::TooLong { len: text.len() });
        }
        let rewritten = hyphen::rewrite(text);
        let groups = rewritten.text().split("||").count();
        if groups > MAX_CONSTRAINT_GROUPS {
            return Err(ConstraintError::TooManyGroups { groups });
        }
        let mut start = 0;
        let mut parsed = Vec::with_capacity(groups);
        for segment in rewritten.text().split("||") {
            parsed.push(Group::parse(segment, start, &rewritten)?);
            start += segment.len() + "||".len();
        }
        Ok(Self { groups: parsed })
    }

    /// `*`: every release and no pre-release.
    pub fn any() -> Self {
        Self {
            groups: vec![Group {
                comparators: vec![Comparator::any()],
                considers_prereleases: false,
            }],
        }
    }

    /// No version at all.
    pub const fn none() -> Self {
        Self { groups: Vec::new() }
    }

    /// The alternatives, each with its conditions, all of which must hold. Conditions are never empty, and alternatives only for
    /// [`Self::none`].
    pub fn conditions(&self) -> impl Iterator<Item = impl Iterator<Item = Condition<'_>>> {
        self.groups
            .iter()
            .map(|group| group.comparators.iter().map(Comparator::condition))
    }

    /// Whether `version` matches. A pre-release matches only a group that names a pre-release itself, such as `>=1.2-0`.
    pub fn matches(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| group.unmet(version).is_none())
    }

    /// Why a version does not match: for each alternative, the first condition that it does not meet. At least one alternative has
    /// none if the version matches.
    pub fn unmet(&self, version: &Version) -> impl Iterator<Item = Option<Unmet<'_>>> {
        self.groups.iter().map(|group| group.unmet(version))
    }
}

/// Why a version does not match an alternative of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet<'a> {
    /// It does not meet this condition.
    Condition(Condition<'a>),
    /// It meets all conditions, but is a pre-release, and none of them names one.
    Prerelease,
}

impl Group {
    /// Parses the segment that starts at byte `start` of the rewritten text.
    fn parse(segment: &str, start: usize, rewritten: &Rewritten<'_>) -> Result<Self, ConstraintError> {
        // The whole segment first, then its versions: of two errors the same one is reported as by Helm.
        let members =
            grammar::members(segment).map_err(|stop| error::improper(segment, start, &stop, rewritten))?;
        let comparators = members
            .iter()
            .map(|member| {
                Comparator::new(member).map_err(|error| error::version(member, start, error, rewritten))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let considers_prereleases = comparators.iter().any(Comparator::names_prerelease);
        Ok(Self {
            comparators,
            considers_prereleases,
        })
    }

    fn unmet(&self, version: &Version) -> Option<Unmet<'_>> {
        let mut comparators = self.comparators.iter();
        match comparators.find(|comparator| !comparator.matches(version)) {
            Some(comparator) => Some(Unmet::Condition(comparator.condition())),
            None if version.is_prerelease() && !self.considers_prereleases => Some(Unmet::Prerelease),
            None => None,
        }
    }
}

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        Self::parse(text)
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, group) in self.conditions().enumerate() {
            f.write_str(if i == 0 { "" } else { " || " })?;
            for (k, condition) in group.enumerate() {
                let blank = if k == 0 { "" } else { " " };
                write!(f, "{blank}{condition}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

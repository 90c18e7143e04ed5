//! One condition of a constraint, and whether a version meets it.

use std::cmp::Ordering;

use super::error::VersionFault;
use super::grammar::{Member, Operator, is_wildcard};
use crate::chart::version::scan::Scanned;
use crate::chart::version::{Version, VersionError};

/// An operator and the version beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comparator {
    operator: Operator,
    /// The version beside the operator, with 0 for each number that was not given.
    bound: Version,
    given: Given,
    /// Operator and version as written, without the blank between them.
    text: Box<str>,
}

/// How many of the three numbers were given, neither left out nor a wildcard. Those behind the first wildcard are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    None,
    Major,
    MajorMinor,
    All,
}

impl Comparator {
    pub(super) fn new(member: &Member<'_>) -> Result<Self, VersionFault> {
        let (given, bound) = bound(&member.version)?;
        let text = format!("{}{}", member.operator_text, member.version.whole).into();
        Ok(Self {
            operator: member.operator,
            bound,
            given,
            text,
        })
    }

    /// `*`.
    pub(super) fn any() -> Self {
        Self {
            operator: Operator::Equal,
            bound: Version::zero(),
            given: Given::None,
            text: "*".into(),
        }
    }

    /// Operator and version as written, without the blank between them.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The version beside the operator, with 0 for each number that was not given.
    pub(super) const fn bound(&self) -> &Version {
        &self.bound
    }

    pub(super) fn names_prerelease(&self) -> bool {
        self.bound.is_prerelease()
    }

    /// Whether `version` meets this condition, taken for itself: the group has looked at pre-releases already.
    pub(super) fn matches(&self, version: &Version) -> bool {
        match self.operator {
            Operator::Equal if self.given == Given::All => self.precedence(version) == Ordering::Equal,
            Operator::Equal | Operator::Tilde => self.tilde(version),
            Operator::NotEqual => self.not_equal(version),
            Operator::Greater => self.greater(version),
            Operator::Less => self.precedence(version) == Ordering::Less,
            Operator::GreaterEqual => self.precedence(version) != Ordering::Less,
            Operator::LessEqual => self.less_equal(version),
            Operator::Caret => self.caret(version),
        }
    }

    /// How `version` stands to the bound.
    fn precedence(&self, version: &Version) -> Ordering {
        version.precedence(&self.bound)
    }

    fn not_equal(&self, version: &Version) -> bool {
        match self.given {
            Given::Major => version.major() != self.bound.major(),
            // Pre-releases are compared although the patch is not: "!=1.2" lets 1.2.5-a through if its group sees it.
            Given::MajorMinor => {
                minor_line(version) != minor_line(&self.bound)
                    || version.prerelease() != self.bound.prerelease()
            }
            // "!=*" excludes 0.0.0 alone.
            Given::None | Given::All => self.precedence(version) != Ordering::Equal,
        }
    }

    /// ">1.2" starts at 1.3.0, ">1" at 2.0.0.
    fn greater(&self, version: &Version) -> bool {
        match self.given {
            Given::Major => version.major() > self.bound.major(),
            Given::MajorMinor => minor_line(version) > minor_line(&self.bound),
            Given::None | Given::All => self.precedence(version) == Ordering::Greater,
        }
    }

    /// "<=1.2" ends before 1.3.0, "<=1" before 2.0.0; "<=*" allows 0.0.x alone.
    fn less_equal(&self, version: &Version) -> bool {
        match self.given {
            Given::Major => version.major() <= self.bound.major(),
            Given::None | Given::MajorMinor => minor_line(version) <= minor_line(&self.bound),
            Given::All => self.precedence(version) != Ordering::Greater,
        }
    }

    /// The same minor line, or the same major if no minor is given; at 0.0.0 and at a wildcard, anything.
    fn tilde(&self, version: &Version) -> bool {
        let same_line = match self.given {
            Given::None => true,
            Given::Major => version.major() == self.bound.major(),
            Given::MajorMinor => minor_line(version) == minor_line(&self.bound),
            Given::All => self.is_zero() || minor_line(version) == minor_line(&self.bound),
        };
        same_line && self.precedence(version) != Ordering::Less
    }

    /// No change of the first number that is not 0. "^*" is no wildcard but 0.0.0.
    fn caret(&self, version: &Version) -> bool {
        let compatible = if self.bound.major() > 0 || self.given == Given::Major {
            version.major() == self.bound.major()
        } else if self.bound.minor() > 0 || self.given == Given::MajorMinor {
            minor_line(version) == minor_line(&self.bound)
        } else {
            (minor_line(version), version.patch()) == (minor_line(&self.bound), self.bound.patch())
        };
        compatible && self.precedence(version) != Ordering::Less
    }

    fn is_zero(&self) -> bool {
        (minor_line(&self.bound), self.bound.patch()) == ((0, 0), 0)
    }
}

fn minor_line(version: &Version) -> (u64, u64) {
    (version.major(), version.minor())
}

/// The version to compare with. Only a version with all its numbers keeps its build metadata, and its `v`, which counts
/// against the limit of length.
fn bound(scanned: &Scanned<'_>) -> Result<(Given, Version), VersionFault> {
    let number = |number: Option<&'_ str>| number.is_some_and(|number| !is_wildcard(number));
    let pre = scanned.pre.map(|pre| format!("-{pre}")).unwrap_or_default();
    let Scanned {
        major, minor, patch, ..
    } = *scanned;
    let (given, text) = if !number(Some(major)) {
        (Given::None, format!("0.0.0{pre}"))
    } else if !number(minor) {
        (Given::Major, format!("{major}.0.0{pre}"))
    } else if !number(patch) {
        (
            Given::MajorMinor,
            format!("{major}.{}.0{pre}", minor.unwrap_or_default()),
        )
    } else {
        (Given::All, scanned.whole.to_owned())
    };
    Version::parse(&text)
        .map(|bound| (given, bound))
        .map_err(|error| fault(error, scanned))
}

fn fault(error: VersionError, scanned: &Scanned<'_>) -> VersionFault {
    match error {
        VersionError::TooLong { len } => VersionFault::TooLong { len },
        VersionError::NumberTooLarge { number, .. } => VersionFault::NumberTooLarge { number },
        VersionError::PrereleaseLeadingZero { identifier, .. } => {
            VersionFault::PrereleaseLeadingZero { identifier }
        }
        VersionError::Empty | VersionError::Malformed { .. } | VersionError::NotStrict { .. } => {
            let numbers = [Some(scanned.major), scanned.minor, scanned.patch];
            let is_bad = |number: &&str| !number.bytes().all(|byte| byte.is_ascii_digit());
            let number = numbers
                .into_iter()
                .flatten()
                .find(is_bad)
                .unwrap_or(scanned.whole);
            VersionFault::NotANumber {
                number: number.to_owned(),
            }
        }
    }
}

//! One condition of a constraint.

use std::cmp::Ordering;

use super::condition::{Condition, Precision};
use super::error::BoundError;
use super::grammar::{Member, Operator, is_wildcard};
use crate::version::scan::Scanned;
use crate::version::{Version, VersionError};

/// An operator and the version after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comparator {
    operator: Operator,
    /// As written.
    operator_text: &'static str,
    /// The version after the operator, with 0 for each number that is not specified.
    bound: Version,
    precision: Precision,
    /// The version as written.
    version: Box<str>,
    /// Length of the numbers in it, which may have a `v` before them.
    numbers: usize,
    /// Length of its build metadata, including the `+`.
    build: usize,
}

impl Comparator {
    pub(super) fn new(member: &Member<'_>) -> Result<Self, BoundError> {
        let (precision, bound) = bound(&member.version)?;
        let Scanned {
            whole, pre, build, ..
        } = member.version;
        let with_separator = |part: Option<&str>| part.map_or(0, |part| 1 + part.len());
        Ok(Self {
            operator: member.operator,
            operator_text: member.operator_text,
            bound,
            precision,
            version: whole.into(),
            numbers: whole.len() - with_separator(pre) - with_separator(build),
            build: with_separator(build),
        })
    }

    /// `*`.
    pub(super) fn any() -> Self {
        Self {
            operator: Operator::Equal,
            operator_text: "",
            bound: Version::zero(),
            precision: Precision::None,
            version: "*".into(),
            numbers: 1,
            build: 0,
        }
    }

    /// Its parts.
    pub(super) fn condition(&self) -> Condition<'_> {
        let build_at = self.version.len().saturating_sub(self.build);
        Condition {
            operator: self.operator,
            operator_text: self.operator_text,
            numbers: self.version.get(..self.numbers).unwrap_or_default(),
            precision: self.precision,
            prerelease: self.bound.prerelease(),
            build: self.version.get(build_at..).unwrap_or_default(),
            bound: &self.bound,
        }
    }

    /// The version after the operator, with 0 for each number that is not specified.
    pub(super) const fn bound(&self) -> &Version {
        &self.bound
    }

    pub(super) fn names_prerelease(&self) -> bool {
        self.bound.is_prerelease()
    }

    /// Whether `version` meets this condition on its own: the group has checked pre-releases already.
    pub(super) fn matches(&self, version: &Version) -> bool {
        match self.operator {
            Operator::Equal if self.precision == Precision::All => {
                self.precedence(version) == Ordering::Equal
            }
            Operator::Equal | Operator::Tilde => self.tilde(version),
            Operator::NotEqual => self.not_equal(version),
            Operator::Greater => self.greater(version),
            Operator::Less => self.precedence(version) == Ordering::Less,
            Operator::GreaterEqual => self.precedence(version) != Ordering::Less,
            Operator::LessEqual => self.less_equal(version),
            Operator::Caret => self.caret(version),
        }
    }

    /// The precedence of `version` relative to the bound.
    fn precedence(&self, version: &Version) -> Ordering {
        version.precedence(&self.bound)
    }

    fn not_equal(&self, version: &Version) -> bool {
        match self.precision {
            Precision::Major => version.major() != self.bound.major(),
            // Pre-releases are compared although the patch is not: "!=1.2" matches 1.2.5-a if its group considers pre-releases.
            Precision::MajorMinor => {
                minor_line(version) != minor_line(&self.bound)
                    || version.prerelease() != self.bound.prerelease()
            }
            // "!=*" excludes 0.0.0 alone.
            Precision::None | Precision::All => self.precedence(version) != Ordering::Equal,
        }
    }

    /// ">1.2" starts at 1.3.0, ">1" at 2.0.0.
    fn greater(&self, version: &Version) -> bool {
        match self.precision {
            Precision::Major => version.major() > self.bound.major(),
            Precision::MajorMinor => minor_line(version) > minor_line(&self.bound),
            Precision::None | Precision::All => self.precedence(version) == Ordering::Greater,
        }
    }

    /// "<=1.2" ends before 1.3.0, "<=1" before 2.0.0; "<=*" allows 0.0.x alone.
    fn less_equal(&self, version: &Version) -> bool {
        match self.precision {
            Precision::Major => version.major() <= self.bound.major(),
            Precision::None | Precision::MajorMinor => minor_line(version) <= minor_line(&self.bound),
            Precision::All => self.precedence(version) != Ordering::Greater,
        }
    }

    /// The same minor line, or the same major if no minor is specified; at 0.0.0 and at a wildcard, anything.
    fn tilde(&self, version: &Version) -> bool {
        let same_line = match self.precision {
            Precision::None => true,
            Precision::Major => version.major() == self.bound.major(),
            Precision::MajorMinor => minor_line(version) == minor_line(&self.bound),
            Precision::All => self.is_zero() || minor_line(version) == minor_line(&self.bound),
        };
        same_line && self.precedence(version) != Ordering::Less
    }

    /// No change of the first number that is not 0. "^*" is not a wildcard; it means ^0.0.0.
    fn caret(&self, version: &Version) -> bool {
        let compatible = if self.bound.major() > 0 || self.precision == Precision::Major {
            version.major() == self.bound.major()
        } else if self.bound.minor() > 0 || self.precision == Precision::MajorMinor {
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

/// The version to compare with. Only a version with all three numbers keeps its build metadata and its `v`, which counts
/// towards the maximum length.
fn bound(scanned: &Scanned<'_>) -> Result<(Precision, Version), BoundError> {
    let is_number = |number: Option<&'_ str>| number.is_some_and(|number| !is_wildcard(number));
    let pre = scanned.pre.map(|pre| format!("-{pre}")).unwrap_or_default();
    let Scanned {
        major, minor, patch, ..
    } = *scanned;
    let (precision, text) = if !is_number(Some(major)) {
        (Precision::None, format!("0.0.0{pre}"))
    } else if !is_number(minor) {
        (Precision::Major, format!("{major}.0.0{pre}"))
    } else if !is_number(patch) {
        (
            Precision::MajorMinor,
            format!("{major}.{}.0{pre}", minor.unwrap_or_default()),
        )
    } else {
        (Precision::All, scanned.whole.to_owned())
    };
    Version::parse(&text)
        .map(|bound| (precision, bound))
        .map_err(|error| bound_error(error, scanned))
}

fn bound_error(error: VersionError, scanned: &Scanned<'_>) -> BoundError {
    match error {
        VersionError::TooLong { len } => BoundError::TooLong { len },
        VersionError::NumberTooLarge { number, .. } => BoundError::NumberTooLarge { number },
        VersionError::PrereleaseLeadingZero { identifier, .. } => {
            BoundError::PrereleaseLeadingZero { identifier }
        }
        VersionError::Empty | VersionError::Malformed { .. } | VersionError::NotStrict { .. } => {
            let numbers = [Some(scanned.major), scanned.minor, scanned.patch];
            let is_invalid = |number: &&str| !number.bytes().all(|byte| byte.is_ascii_digit());
            let number = numbers
                .into_iter()
                .flatten()
                .find(is_invalid)
                .unwrap_or(scanned.whole);
            BoundError::NotANumber {
                number: number.to_owned(),
            }
        }
    }
}

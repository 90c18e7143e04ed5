//! Versions, parsed and ordered as in `Masterminds/semver` 3.
//!
//! It parses more texts than the specification allows (`v1`, `1.2`, `01.2.3`), and it orders pre-releases with numbers
//! beyond 64 bits differently. Both decide which chart is deployed, so both are the same here.

pub(super) mod scan;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use semver::{BuildMetadata, Prerelease};

/// The longest version text that is accepted, in bytes. Helm rejects longer ones.
pub const MAX_VERSION_LEN: usize = 256;

/// A version and the text it was parsed from.
///
/// Two versions are equal if their numbers, pre-release and build metadata are, however they were written: `v1.2` equals
/// `1.2.0`. There is no `Ord`: precedence ignores the build metadata and so contradicts that equality; use
/// [`Version::precedence`].
#[derive(Clone, Debug)]
pub struct Version {
    parsed: semver::Version,
    original: Box<str>,
}

/// Why a text is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text is empty.
    #[error("version is empty; write one such as 1.2.3")]
    Empty,
    /// The text is longer than [`MAX_VERSION_LEN`].
    #[error("version is {len} bytes long; at most {MAX_VERSION_LEN} are allowed")]
    TooLong {
        /// Length of the text in bytes.
        len: usize,
    },
    /// The text does not have the form of a version.
    #[error("{text:?} is not a version; write one such as 1.2.3, 1.2 or v1.2.3-rc.1")]
    Malformed {
        /// The whole text.
        text: String,
    },
    /// The text is a version, but not one that the semver specification allows.
    #[error(
        "{text:?} is not a strict semantic version ({reason}); write all three numbers, without a v, such as 1.2.3"
    )]
    NotStrict {
        /// The whole text.
        text: String,
        /// The error of the strict parser.
        reason: String,
    },
    /// A major, minor or patch number does not fit 64 bits.
    #[error(
        "number {number} in version {text:?} is too large; the largest is {}",
        u64::MAX
    )]
    NumberTooLarge {
        /// The whole text.
        text: String,
        /// The number, as written.
        number: String,
    },
    /// A numeric pre-release identifier starts with a zero.
    #[error(
        "pre-release part {identifier:?} in version {text:?} starts with a zero; write it without leading zeros"
    )]
    PrereleaseLeadingZero {
        /// The whole text.
        text: String,
        /// The identifier, as written.
        identifier: String,
    },
}

impl Version {
    /// Parses a version loosely: with or without a lower-case `v`, with one to three numbers, leading zeros allowed in them.
    ///
    /// # Errors
    /// What is wrong with the text: it has not that form, is too long, has a number that does not fit 64 bits, or a numeric
    /// pre-release identifier with a leading zero.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        check_len(text)?;
        let Some((found, "")) = scan::version(text, |c| c.is_ascii_digit()) else {
            return Err(malformed(text));
        };
        // In this order, so that of two errors the same one is reported as by Helm.
        let parsed = semver::Version {
            major: number(text, found.major)?,
            minor: number(text, found.minor.unwrap_or("0"))?,
            patch: number(text, found.patch.unwrap_or("0"))?,
            pre: prerelease(text, found.pre.unwrap_or_default())?,
            build: BuildMetadata::new(found.build.unwrap_or_default()).map_err(|_| malformed(text))?,
        };
        Ok(Self {
            parsed,
            original: text.into(),
        })
    }

    /// Parses a version strictly, as the semver specification defines it: three numbers, no `v`, no leading zeros.
    ///
    /// # Errors
    /// [`VersionError::NotStrict`] with the reason, or an error about the length.
    pub fn parse_strict(text: &str) -> Result<Self, VersionError> {
        check_len(text)?;
        match semver::Version::parse(text) {
            Ok(parsed) => Ok(Self {
                parsed,
                original: text.into(),
            }),
            Err(error) => Err(VersionError::NotStrict {
                text: text.to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    /// 0.0.0, the lowest release.
    pub(super) fn zero() -> Self {
        Self {
            parsed: semver::Version::new(0, 0, 0),
            original: "0.0.0".into(),
        }
    }

    /// The text as it was parsed, such as `v1.2`.
    pub fn original(&self) -> &str {
        &self.original
    }

    /// The first number.
    pub fn major(&self) -> u64 {
        self.parsed.major
    }

    /// The second number, 0 if it was not written.
    pub fn minor(&self) -> u64 {
        self.parsed.minor
    }

    /// The third number, 0 if it was not written.
    pub fn patch(&self) -> u64 {
        self.parsed.patch
    }

    /// The text after the hyphen; empty for a release.
    pub fn prerelease(&self) -> &str {
        self.parsed.pre.as_str()
    }

    /// The build metadata: the text after the plus sign; empty if there is none.
    pub fn metadata(&self) -> &str {
        self.parsed.build.as_str()
    }

    /// Whether this is a pre-release such as `1.2.3-rc.1`.
    pub fn is_prerelease(&self) -> bool {
        !self.parsed.pre.is_empty()
    }

    /// Whether this version is newer than the other; `Equal` for versions that differ in build metadata only.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major(), version.minor(), version.patch());
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| prerelease_precedence(self.prerelease(), other.prerelease()))
    }
}

/// The normal form: three numbers without `v`, then pre-release and build metadata if there are any.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parsed.fmt(f)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::parse(text)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.parsed == other.parsed
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parsed.hash(state);
    }
}

fn check_len(text: &str) -> Result<(), VersionError> {
    match text.len() {
        0 => Err(VersionError::Empty),
        len if len > MAX_VERSION_LEN => Err(VersionError::TooLong { len }),
        _ => Ok(()),
    }
}

fn malformed(text: &str) -> VersionError {
    VersionError::Malformed {
        text: text.to_owned(),
    }
}

fn number(text: &str, digits: &str) -> Result<u64, VersionError> {
    // The scanner accepts digits only, so the only possible error is the size.
    digits.parse().map_err(|_| VersionError::NumberTooLarge {
        text: text.to_owned(),
        number: digits.to_owned(),
    })
}

fn prerelease(text: &str, identifiers: &str) -> Result<Prerelease, VersionError> {
    let has_leading_zero =
        |id: &&str| id.len() > 1 && id.starts_with('0') && id.bytes().all(|byte| byte.is_ascii_digit());
    match identifiers.split('.').find(has_leading_zero) {
        Some(identifier) => Err(VersionError::PrereleaseLeadingZero {
            text: text.to_owned(),
            identifier: identifier.to_owned(),
        }),
        None => Prerelease::new(identifiers).map_err(|_| malformed(text)),
    }
}

/// A pre-release identifier by rank. A number that does not fit 64 bits counts as text: the specification and the semver
/// crate compare it as a number; Helm does not.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identifier<'a> {
    Number(u64),
    Text(&'a str),
}

fn prerelease_precedence(a: &str, b: &str) -> Ordering {
    fn ranked(identifiers: &str) -> impl Iterator<Item = Identifier<'_>> {
        identifiers
            .split('.')
            .map(|id| id.parse().map_or(Identifier::Text(id), Identifier::Number))
    }
    // A release is newer than its pre-releases.
    match (a.is_empty(), b.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => ranked(a).cmp(ranked(b)),
    }
}

#[cfg(test)]
mod tests;

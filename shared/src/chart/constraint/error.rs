//! What is wrong with a constraint, told by the text that was written rather than by the one that was read.

use std::fmt;

use super::grammar::{Member, Stop, is_blank};
use super::hint::hint;
use super::hyphen::Rewritten;
use super::quote::quoted;
use super::{MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LEN};
use crate::chart::version::MAX_VERSION_LEN;

/// Why a text is not a constraint. Offsets are bytes of the text that was given, tokens are pieces of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// The text is longer than [`MAX_CONSTRAINT_LEN`].
    #[error("constraint is {len} bytes long; at most {MAX_CONSTRAINT_LEN} are allowed")]
    TooLong {
        /// Length of the text in bytes.
        len: usize,
    },
    /// More than [`MAX_CONSTRAINT_GROUPS`] alternatives.
    #[error("constraint has {groups} alternatives joined by ||; at most {MAX_CONSTRAINT_GROUPS} are allowed")]
    TooManyGroups {
        /// How many there are.
        groups: usize,
    },
    /// An alternative that is no list of conditions. The message starts as Helm's does.
    #[error("improper constraint: {} (at byte {at}: expected {expected}{}{})", quoted(.segment), found(.segment, .token), advice(*.hint))]
    Improper {
        /// The alternative, with hyphen ranges written out as Helm does before it reads it.
        segment: String,
        /// Where reading stopped.
        at: usize,
        /// What stands there; empty at the end.
        token: String,
        /// What should stand there.
        expected: Expected,
        /// What was probably meant.
        hint: Option<&'static str>,
    },
    /// A version that has the right shape but cannot be used.
    #[error("unusable version {token:?} in constraint (at byte {at}: {fault})")]
    Version {
        /// Where the version starts.
        at: usize,
        /// The version.
        token: String,
        /// What is wrong with it.
        fault: VersionFault,
    },
}

/// What should stand where reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A version, after an operator or without one.
    Version,
    /// Something between two conditions, or the end.
    Separator,
}

/// What makes a version of the right shape unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionFault {
    /// A number with a wildcard or a bar inside it, such as `1x` or `1|2`.
    #[error("{number:?} is not a number; {}", number_advice(.number))]
    NotANumber {
        /// The number, as written.
        number: String,
    },
    /// A number that does not fit 64 bits.
    #[error("number {number} is too large; the largest is {}", u64::MAX)]
    NumberTooLarge {
        /// The number, as written.
        number: String,
    },
    /// A numeric pre-release identifier that starts with a zero.
    #[error("pre-release part {identifier:?} starts with a zero; write it without leading zeros")]
    PrereleaseLeadingZero {
        /// The identifier, as written.
        identifier: String,
    },
    /// Longer than [`MAX_VERSION_LEN`].
    #[error("it is {len} bytes long with all its numbers; at most {MAX_VERSION_LEN} are allowed")]
    TooLong {
        /// Length in bytes, with 0 for each number that was left out.
        len: usize,
    },
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "a version such as 1.2.3, 1.2.x or *",
            Self::Separator => "a blank, a comma or || before what comes next",
        })
    }
}

/// For a segment, starting at byte `start` of the rewritten text, that could be read up to `stop`.
pub(super) fn improper(
    segment: &str,
    start: usize,
    stop: &Stop,
    rewritten: &Rewritten<'_>,
) -> ConstraintError {
    let origin = rewritten.origin(start + stop.at);
    let token = token(rewritten.original().get(origin.at..).unwrap_or_default());
    ConstraintError::Improper {
        segment: segment.to_owned(),
        at: origin.at,
        token: token.to_owned(),
        expected: stop.expected,
        hint: hint(stop.expected, token, origin.inserted),
    }
}

/// For a member of the segment that starts at byte `start` of the rewritten text.
pub(super) fn version(
    member: &Member<'_>,
    start: usize,
    fault: VersionFault,
    rewritten: &Rewritten<'_>,
) -> ConstraintError {
    let at = rewritten.origin(start + member.at).at;
    ConstraintError::Version {
        at,
        token: member.version.whole.to_owned(),
        fault,
    }
}

/// The piece at the start of `text` that a reader sees as one: a comma, or all before the next separator.
fn token(text: &str) -> &str {
    if text.starts_with(',') {
        return ",";
    }
    let alternative = text.split("||").next().unwrap_or_default();
    alternative
        .split(|c| is_blank(c) || c == ',')
        .next()
        .unwrap_or_default()
}

fn found(segment: &str, token: &str) -> String {
    match token {
        "" => ", found nothing".to_owned(),
        _ if token == segment.trim_matches(is_blank) => String::new(),
        _ => format!(", found {}", quoted(token)),
    }
}

fn advice(hint: Option<&'static str>) -> String {
    hint.map(|hint| format!("; {hint}")).unwrap_or_default()
}

fn number_advice(number: &str) -> &'static str {
    if number.contains('|') {
        "write || between alternatives"
    } else {
        "a wildcard x or * stands alone between the dots"
    }
}

#[cfg(test)]
mod tests;

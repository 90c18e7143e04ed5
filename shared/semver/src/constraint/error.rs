//! What is wrong with a constraint. Positions refer to the text that the user wrote, not to the rewritten one.

use super::grammar::{Expected, Member, Stop, is_blank};
use super::hint::hint;
use super::hyphen::Rewritten;
use super::quote::quoted;
use super::{MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LEN};
use crate::version::MAX_VERSION_LEN;

/// Why a text is not a constraint. Offsets are byte offsets in the text that was passed, tokens are parts of it.
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
        /// How many alternatives there are.
        groups: usize,
    },
    /// An alternative that is not a list of conditions. The message starts like Helm's.
    #[error("improper constraint: {} (at byte {at}: expected {expected}{}{})", quoted(.segment), found(.segment, .token), advice(*.hint))]
    Improper {
        /// The alternative, with hyphen ranges written out, as Helm does before parsing.
        segment: String,
        /// Where parsing stopped.
        at: usize,
        /// The token found there; empty at the end.
        token: String,
        /// What is expected there.
        expected: Expected,
        /// How to fix the probable mistake.
        hint: Option<&'static str>,
    },
    /// A version that has the right form but cannot be used.
    #[error("unusable version {token:?} in constraint (at byte {at}: {error})")]
    Version {
        /// Where the version starts.
        at: usize,
        /// The version.
        token: String,
        /// What is wrong with it.
        error: BoundError,
    },
}

/// Why a version of the right form cannot be used as a bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
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
        /// Length in bytes, with 0 for each omitted number.
        len: usize,
    },
}

/// The error for a segment that starts at byte `start` of the rewritten text and could be parsed up to `stop`.
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

/// The error for a member of the segment that starts at byte `start` of the rewritten text.
pub(super) fn version(
    member: &Member<'_>,
    start: usize,
    error: BoundError,
    rewritten: &Rewritten<'_>,
) -> ConstraintError {
    let at = rewritten.origin(start + member.at).at;
    ConstraintError::Version {
        at,
        token: member.version.whole.to_owned(),
        error,
    }
}

/// The token at the start of `text`: a comma, or everything before the next separator.
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

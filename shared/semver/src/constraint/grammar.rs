//! The members of one group: `operator version`, separated by blanks or a comma.

use std::fmt;

use crate::version::scan::{self, Scanned};

/// The operator of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=` or none. Before an incomplete version it means the same as `~`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `>`.
    Greater,
    /// `<`.
    Less,
    /// `>=` or `=>`.
    GreaterEqual,
    /// `<=` or `=<`.
    LessEqual,
    /// `~` or `~>`.
    Tilde,
    /// `^`.
    Caret,
}

/// Each operator before its prefixes. No operator means `=`.
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterEqual),
    ("=>", Operator::GreaterEqual),
    ("<=", Operator::LessEqual),
    ("=<", Operator::LessEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

/// One condition as written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) operator: Operator,
    pub(super) operator_text: &'static str,
    pub(super) version: Scanned<'a>,
    /// Where the version starts: a byte offset in the segment.
    pub(super) at: usize,
}

/// Where parsing stopped, a byte offset in the segment, and what is expected there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) at: usize,
    pub(super) expected: Expected,
}

/// What is expected where parsing stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A version, after an operator or without one.
    Version,
    /// Something between two conditions, or the end.
    Separator,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "a version such as 1.2.3, 1.2.x or *",
            Self::Separator => "a blank, a comma or || before what comes next",
        })
    }
}

/// `\s` of Go's regular expressions: no vertical tab, nothing beyond ASCII.
pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

pub(super) fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

/// A number in a constraint may hold wildcards and, because of a mistake in Masterminds' character class, a bar.
pub(super) fn is_numeral(c: char) -> bool {
    matches!(c, '0'..='9' | 'x' | 'X' | '*' | '|')
}

/// Whether a number is a wildcard.
pub(super) fn is_wildcard(number: &str) -> bool {
    matches!(number, "x" | "X" | "*")
}

/// Characters of operators and separators.
pub(super) fn is_mark(c: char) -> bool {
    matches!(c, '=' | '!' | '<' | '>' | '~' | '^' | ',')
}

/// All members of a segment, at least one.
pub(super) fn members(segment: &str) -> Result<Vec<Member<'_>>, Stop> {
    let mut members = Vec::new();
    let mut rest = skip_blanks(segment);
    loop {
        let (operator_text, operator, after) = operator(rest);
        let text = skip_blanks(after);
        let at = segment.len() - text.len();
        let Some((version, tail)) = scan::version(text, is_numeral) else {
            return Err(Stop {
                at: missing_version(segment, at),
                expected: Expected::Version,
            });
        };
        members.push(Member {
            operator,
            operator_text,
            version,
            at,
        });
        let gap = skip_blanks(tail);
        rest = if gap.is_empty() {
            return Ok(members);
        } else if let Some(next) = gap.strip_prefix(',') {
            skip_blanks(next)
        } else if gap.len() < tail.len() {
            gap
        } else {
            return Err(Stop {
                at: segment.len() - tail.len(),
                expected: Expected::Separator,
            });
        };
    }
}

fn operator(text: &str) -> (&'static str, Operator, &str) {
    OPERATORS
        .iter()
        .find_map(|&(symbol, operator)| text.strip_prefix(symbol).map(|rest| (symbol, operator, rest)))
        .unwrap_or(("", Operator::Equal, text))
}

/// The position to report for a version that is missing at `at`. At the end of the segment, that is the operator or comma
/// before it.
fn missing_version(segment: &str, at: usize) -> usize {
    if at < segment.len() {
        return at;
    }
    segment.trim_end_matches(is_blank).trim_end_matches(is_mark).len()
}

//! Syntax errors, in Go's words, so that a search finds them.

use bounded_text::cut;
use thiserror::Error;

/// Longest part of an expression that a message quotes, in bytes: enough to find it.
const MAX_FRAGMENT: usize = 80;

/// A syntax error in the words of Go, and the part of the expression that it is about, cut to 80 bytes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("error parsing regexp: {kind}: `{fragment}`")]
pub struct SyntaxError {
    kind: ErrorKind,
    fragment: String,
}

impl SyntaxError {
    /// The error without the part of the expression, which may be confidential.
    pub fn message(&self) -> String {
        self.kind.to_string()
    }
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum ErrorKind {
    #[error("invalid escape sequence")]
    InvalidEscape,
    #[error("trailing backslash at end of expression")]
    TrailingBackslash,
    #[error("invalid character class range")]
    InvalidRange,
    #[error("missing closing ]")]
    MissingBracket,
    #[error("missing closing )")]
    MissingParen,
    #[error("unexpected )")]
    UnexpectedParen,
    #[error("invalid or unsupported Perl syntax")]
    InvalidGroup,
    #[error("invalid named capture")]
    InvalidNamedCapture,
    #[error("missing argument to repetition operator")]
    NothingToRepeat,
    #[error("invalid nested repetition operator")]
    RepeatedRepetition,
    #[error("invalid repeat count")]
    InvalidCount,
}

impl ErrorKind {
    pub fn at(self, fragment: &str) -> SyntaxError {
        SyntaxError {
            kind: self,
            fragment: cut(fragment.to_owned(), MAX_FRAGMENT),
        }
    }
}

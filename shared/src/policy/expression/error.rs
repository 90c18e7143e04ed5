//! What is wrong with an expression, in Go's words: people search for them.

use thiserror::Error;

use crate::text::cut;

/// Longest piece of an expression that is repeated, in bytes: enough to find it.
const MAX_PIECE: usize = 80;

/// An expression that cannot be read, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("error parsing regexp: {fault}: `{piece}`")]
pub struct SyntaxError {
    fault: Fault,
    piece: String,
}

impl SyntaxError {
    /// What is wrong, without the piece of the expression.
    pub fn what(&self) -> String {
        self.fault.to_string()
    }
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum Fault {
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

impl Fault {
    pub fn at(self, piece: &str) -> SyntaxError {
        SyntaxError {
            fault: self,
            piece: cut(piece.to_owned(), MAX_PIECE),
        }
    }
}

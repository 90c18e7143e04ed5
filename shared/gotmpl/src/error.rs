//! The error of a template.

use bounded_text::cut;
use thiserror::Error;

use super::budget::{Budget, Exceeded};

/// Maximum length of the piece of the template that an error quotes, in bytes.
const MAX_PIECE: usize = 80;

/// Maximum length of a message, in bytes: `fail` accepts any text.
const MAX_MESSAGE: usize = 400;

/// What is wrong with a template, and at which position.
///
/// The message has at most 500 bytes. It never contains data, other than a text that the template passes to `fail`, and keys: so it
/// can be shown to those who may not see the data.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}{kind}", at(.piece))]
pub struct TemplateError {
    /// The offset in the template, in bytes; 0 if the whole template or the data is concerned.
    pub offset: usize,
    /// The piece of the template that causes it, on one line and cut to 80 bytes; empty if it is not a certain piece.
    pub piece: String,
    /// What is wrong.
    pub kind: TemplateErrorKind,
}

/// What is wrong with a template.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateErrorKind {
    /// It does not parse, an action fails, or a single rendering is too large. It is the same each time for the same data.
    #[error("{0}")]
    Invalid(String),
    /// It calls a function that is not supported.
    #[error("{0}")]
    Unsupported(UnsupportedFunction),
    /// The budget is exceeded, by this rendering or by earlier ones with the same budget.
    #[error("{0}")]
    Exceeded(#[from] Exceeded),
}

impl TemplateError {
    /// An error about the piece of `text` at `span`.
    pub(super) fn new(text: &str, span: std::ops::Range<usize>, message: impl Into<String>) -> Self {
        let message = cut(message.into(), MAX_MESSAGE);
        Self::of_kind(text, span, TemplateErrorKind::Invalid(message))
    }

    /// An error about the piece of `text` at `span`.
    pub(super) fn of_kind(text: &str, span: std::ops::Range<usize>, kind: TemplateErrorKind) -> Self {
        let piece = text.get(span.clone()).unwrap_or_default();
        Self {
            offset: span.start,
            piece: line(piece),
            kind,
        }
    }

    /// The exceeded limit of the budget instead, if there is one: other errors can follow from it.
    pub(super) fn or_exceeded(self, budget: &Budget) -> Self {
        match budget.exceeded() {
            Some(exceeded) => Self {
                kind: exceeded.into(),
                ..self
            },
            None => self,
        }
    }
}

/// A piece of a template on one line, with white space collapsed, and cut if it is long.
pub fn line(piece: &str) -> String {
    // A word has at least one byte, so more words than bytes are never needed.
    let words: Vec<&str> = piece.split_whitespace().take(MAX_PIECE).collect();
    cut(words.join(" "), MAX_PIECE)
}

fn at(piece: &str) -> String {
    if piece.is_empty() {
        String::new()
    } else {
        format!("at <{piece}>: ")
    }
}

/// A function of Go or Sprig that is not supported, by design.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("function {name:?} {reason}")]
pub struct UnsupportedFunction {
    /// The name of the function.
    pub name: String,
    /// The byte of the template at which it is named first.
    pub offset: usize,
    /// Why it is not supported.
    pub reason: UnsupportedReason,
}

/// Why a function is not supported.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsupportedReason {
    /// It uses random numbers.
    #[error("returns another result each time")]
    Random,
    /// It uses the clock or the time zone of the machine.
    #[error("depends on the clock or the time zone")]
    Time,
    /// It sends requests.
    #[error("depends on the network")]
    Network,
    /// It works with private keys or passwords, or with functions as values.
    #[error("is not supported")]
    NotImplemented,
}

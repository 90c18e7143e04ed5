//! The error of a template.

use bounded_text::cut;
use thiserror::Error;

/// Maximum length of the piece of the template that an error quotes, in bytes.
const MAX_PIECE: usize = 80;

/// Maximum length of a message, in bytes: `fail` accepts any text.
const MAX_MESSAGE: usize = 400;

/// What is wrong with a template, and at which position.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}{message}", at(.piece))]
pub struct TemplateError {
    /// The offset in the template, in bytes.
    pub offset: usize,
    /// The piece of the template that causes it; empty if that is unknown.
    pub piece: String,
    /// What is wrong.
    pub message: String,
}

impl TemplateError {
    /// An error about the piece of `text` at `span`.
    pub(super) fn new(text: &str, span: std::ops::Range<usize>, message: impl Into<String>) -> Self {
        let piece = text.get(span.clone()).unwrap_or_default();
        Self {
            offset: span.start,
            piece: line(piece),
            message: cut(message.into(), MAX_MESSAGE),
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

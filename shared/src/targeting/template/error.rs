//! What is wrong with a template.

use thiserror::Error;

use crate::text::cut;

/// Longest piece of the template that an error repeats, in bytes.
const MAX_PIECE: usize = 80;

/// Longest message, in bytes: `fail` takes any text.
const MAX_MESSAGE: usize = 400;

/// What is wrong with a template, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}{message}", at(.piece))]
pub struct TemplateError {
    /// The byte of the text at which it is.
    pub offset: usize,
    /// The piece of the template that it is about; empty where that is unknown.
    pub piece: String,
    /// What is wrong.
    pub message: String,
}

impl TemplateError {
    /// An error about a piece of `text`.
    pub(super) fn new(text: &str, place: std::ops::Range<usize>, message: impl Into<String>) -> Self {
        let piece = text.get(place.clone()).unwrap_or_default();
        Self {
            offset: place.start,
            piece: line(piece),
            message: cut(message.into(), MAX_MESSAGE),
        }
    }
}

/// A piece of a template on one line, however it was written.
pub fn line(piece: &str) -> String {
    // Words enough for the longest piece.
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

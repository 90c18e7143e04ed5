//! The text of decode errors.

use bounded_text::cut;

/// Maximum length of a reported decode error in bytes: what fits into an Event.
const MAX_DECODE_ERROR: usize = 1000;

/// A decode error, cut for the log and for Events: it may contain text of the object, of any length.
pub fn cut_error(error: &str) -> String {
    cut(error.to_owned(), MAX_DECODE_ERROR)
}

#![doc = include_str!("../README.md")]

use std::fmt::{Display, Write as _};

/// A text as a cell of a Markdown table: on one line, with white space collapsed and `|` escaped.
pub fn table_cell(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// Truncates a text to at most `longest` bytes, including the mark `…`, which has three: with less, the mark alone remains.
pub fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

/// The first of some items, with the number of the others: `a, b and 3 more`.
pub fn listed(items: &[impl Display], longest: usize) -> String {
    let first: Vec<_> = items.iter().take(longest).map(ToString::to_string).collect();
    let text = first.join(", ");
    match items.len().saturating_sub(longest) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Bytes as hexadecimal digits, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    let out = String::with_capacity(bytes.len() * 2);
    bytes.iter().fold(out, |mut out, byte| {
        // Writing into a string cannot fail.
        _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let short = cut("ä".repeat(1000), 1024);
        assert!(short.len() <= 1024 && short.ends_with("ä…"));
        assert_eq!(cut("short".to_owned(), 5), "short");
    }

    #[test]
    fn a_long_list_ends_with_a_number() {
        assert_eq!(listed(&[1, 2, 3], 2), "1, 2 and 1 more");
        assert_eq!(listed(&[1, 2], 2), "1, 2");
        assert_eq!(listed(&[""; 0], 2), "");
    }
}

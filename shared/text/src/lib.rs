#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
};

/// Whether a character does something else than to be shown: it controls a terminal, ends a line for some readers only, hides a text, or
/// changes its direction, so that it can be read as another one. A line feed and a tab are none, and neither are the joiners U+200C and
/// U+200D, which scripts and emoji need.
pub fn is_control(c: char) -> bool {
    let changes_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let ends_line = matches!(c, '\u{2028}' | '\u{2029}');
    // They are not shown, but programs read them: with tags, a whole text.
    let is_hidden = matches!(c, '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    changes_direction || ends_line || is_hidden || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// A text of others as it can be shown: without control characters ([`is_control`]) and the colors of terminals.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' if rest.next_if_eq(&'[').is_some() => {
                // Up to its final character.
                while rest.next_if(|next| (' '..'@').contains(next)).is_some() {}
                rest.next_if(|next| ('@'..='~').contains(next));
            }
            c if is_control(c) => {}
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// A text of others for a message: without control characters, and truncated to at most `longest` bytes.
pub fn excerpt(text: &str, longest: usize) -> String {
    cut(printable(text).into_owned(), longest)
}

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

/// A number of things with a regular plural: `1 cluster`, `2 clusters`.
pub fn numbered<N: Copy + Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {what}{plural}")
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
    fn one_thing_is_no_plural() {
        let of = |number: u32| numbered(number, "cluster");
        assert_eq!([0, 1, 2].map(of), ["0 clusters", "1 cluster", "2 clusters"]);
    }

    #[test]
    fn what_is_printable_has_no_control_characters() {
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m\ttab\r\n\u{7}bell\u{0}", "red\ttab\nbell"),
            ("\u{1b}[38;5;1mcolor", "color"),
            ("\u{1b}]0;title\u{7}", "]0;title"),
            // A sequence of eight bits, and one within another.
            ("\u{9b}2J\u{7f}", "2J"),
            ("\u{1b}[\u{1b}[2J", ""),
            ("\u{1b}[\nline", "\nline"),
            ("\u{1b}[", ""),
            ("\u{202e}txt.exe\u{2066}\u{200f}\u{61c}", "txt.exe"),
            ("one\u{2028}line\u{2029}", "oneline"),
            (
                "\u{feff}to\u{2060}ken\u{e0001}\u{e0069}\u{e0067}\u{e007f}",
                "token",
            ),
            ("é 語 👩‍💻 می\u{200c}خواهم", "é 語 👩‍💻 می\u{200c}خواهم"),
        ] {
            let shown = printable(text);
            assert_eq!(shown, expected, "{text:?}");
            assert!(!shown.contains(is_control));
        }
        assert_eq!(excerpt("\u{1b}[1mabcdef", 5), "ab…");
    }

    #[test]
    fn a_long_list_ends_with_a_number() {
        assert_eq!(listed(&[1, 2, 3], 2), "1, 2 and 1 more");
        assert_eq!(listed(&[1, 2], 2), "1, 2");
        assert_eq!(listed(&[""; 0], 2), "");
    }
}

//! Truncated texts, and bytes as hexadecimal digits.

use std::{borrow::Cow, fmt::Write as _};

use ring::digest::{SHA256, digest};

/// Digits of a hash that distinguishes texts, also if an attacker chooses them: 128 bits.
const HASH_DIGITS: usize = 32;

/// A text in one line of a Markdown table.
pub fn table_cell(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// Truncates a text to at most `longest` bytes, including the mark `…`.
pub fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

/// Replaces a text of more than `longest` bytes by its beginning, the mark `…` and a hash of the whole text, so that
/// different texts stay different. Used if a text identifies something, such as the label of a metric.
pub fn cut_distinct(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    let mut hash = hex(digest(&SHA256, text.as_bytes()).as_ref());
    hash.truncate(HASH_DIGITS);
    let kept = longest.saturating_sub(HASH_DIGITS + '…'.len_utf8());
    let beginning = text.get(..text.floor_char_boundary(kept)).unwrap_or_default();
    Cow::Owned(format!("{beginning}…{hash}"))
}

/// Bytes as hexadecimal digits.
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
    fn cut_texts_stay_different() {
        assert_eq!(cut_distinct("short", 5), "short");
        let (one, other) = ("ä".repeat(200) + "1", "ä".repeat(200) + "2");
        let (one, other) = (cut_distinct(&one, 253), cut_distinct(&other, 253));
        assert!(
            one.len() <= 253 && one.starts_with("ää") && one.contains('…'),
            "{one}"
        );
        assert_ne!(one, other);
    }
}

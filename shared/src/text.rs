//! Texts that fit into their place.

/// Cuts a text off where it is longer than `longest` bytes, the mark of the cut included.
pub fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        let short = cut("ä".repeat(1000), 1024);
        assert!(short.len() <= 1024 && short.ends_with("ä…"));
        assert_eq!(cut("short".to_owned(), 5), "short");
    }
}

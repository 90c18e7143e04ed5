//! The structure of JSON text, without decoding it: what a decoder would have to allocate, and how deep it would get.

use memchr::memchr2;

/// Memory of an element of a list or an entry of a map besides its text, in bytes: a key, a value, and their share of a
/// half-empty node.
pub const ELEMENT: usize = 128;

/// Finds the bytes that structure JSON, in parts of any size. It is as fast as a search in texts, which are most of a document.
///
/// Text that is no JSON has some structure too: that of the JSON at its start, as far as a decoder reads it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scanner {
    is_text: bool,
    is_escaped: bool,
}

impl Scanner {
    /// The position and the value of the next `{`, `}`, `[`, `]`, `,` or `:` outside of texts, or of the next quote that starts or
    /// ends a text, from `at` on. `None` at the end of the part.
    #[inline]
    pub fn next(&mut self, part: &[u8], mut at: usize) -> Option<(usize, u8)> {
        loop {
            let byte = *part.get(at)?;
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'"' => {
                    self.is_text = !self.is_text;
                    return Some((at, byte));
                }
                b'\\' if self.is_text => self.is_escaped = true,
                _ if self.is_text => {
                    at += memchr2(b'"', b'\\', part.get(at..)?)?;
                    continue;
                }
                b'{' | b'}' | b'[' | b']' | b',' | b':' => return Some((at, byte)),
                _ => {}
            }
            at += 1;
        }
    }

    /// Whether the next byte is in a text.
    pub const fn is_text(&self) -> bool {
        self.is_text
    }
}

/// The bytes that structure a document, with their positions.
#[inline]
pub fn structure(json: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let (mut scanner, mut from) = (Scanner::default(), 0);
    std::iter::from_fn(move || {
        let (at, byte) = scanner.next(json, from)?;
        from = at + 1;
        Some((at, byte))
    })
}

/// The number of values in a document, and a few more: lists and objects, and what follows a comma.
pub fn values(json: &[u8]) -> usize {
    1 + structure(json)
        .filter(|(_, byte)| matches!(byte, b'{' | b'[' | b','))
        .count()
}

/// The nesting depth of lists and objects.
pub fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for (_, byte) in structure(json) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"a\\":"{[,\"","b":[1,[]],"\u007b":{}}"#;

    #[test]
    fn only_what_is_outside_of_texts_is_structure() {
        let found: Vec<_> = structure(TEXT.as_bytes())
            .map(|(_, byte)| char::from(byte))
            .collect();
        assert_eq!(String::from_iter(found), r#"{"":"","":[,[]],"":{}}"#);
        assert_eq!((values(TEXT.as_bytes()), depth(TEXT.as_bytes())), (8, 3));
    }

    #[test]
    fn parts_of_any_size_have_the_structure_of_the_whole() {
        for size in 1..TEXT.len() {
            let (mut scanner, mut found) = (Scanner::default(), Vec::new());
            for (number, part) in TEXT.as_bytes().chunks(size).enumerate() {
                let mut from = 0;
                while let Some((at, byte)) = scanner.next(part, from) {
                    found.push((number * size + at, byte));
                    from = at + 1;
                }
            }
            assert!(found.into_iter().eq(structure(TEXT.as_bytes())), "{size}");
        }
    }

    #[test]
    fn what_is_no_json_is_scanned_to_its_end() {
        for (text, found) in [("", 0), ("}]\\\"", 3), ("\"\\", 1), ("[\"a", 2)] {
            assert_eq!(structure(text.as_bytes()).count(), found, "{text}");
            assert_eq!(
                depth(text.as_bytes()),
                usize::from(text.starts_with('[')),
                "{text}"
            );
        }
    }
}

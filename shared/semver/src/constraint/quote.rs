//! Quotes a text like Go's `%q`, as Helm's messages do, so that tools that match those messages match ours.

use std::fmt::Write as _;

pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match escape(c) {
            Some(letter) => out.extend(['\\', letter]),
            None if is_printable(c) => out.push(c),
            None => push_code(&mut out, c),
        }
    }
    out.push('"');
    out
}

/// The letter that represents `c` after a backslash.
fn escape(c: char) -> Option<char> {
    Some(match c {
        '"' | '\\' => c,
        '\x07' => 'a',
        '\x08' => 'b',
        '\x0c' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\x0b' => 'v',
        _ => return None,
    })
}

fn push_code(out: &mut String, c: char) {
    let code = u32::from(c);
    // Writing to a string cannot fail.
    let _ = match code {
        0..=0x7f => write!(out, "\\x{code:02x}"),
        0x80..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Letters, marks, numbers, punctuation, symbols and the plain blank, by the tables of the standard library. They
/// are accessible only through its escaping, which leaves combining marks alone only after another character, so there is
/// a letter before `c`.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let probe: String = ['a', c].into_iter().collect();
    probe.escape_debug().eq(probe.chars())
}

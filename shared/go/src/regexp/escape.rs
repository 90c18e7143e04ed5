//! Escape sequences.

use std::borrow::Cow;

use super::{
    cursor::Cursor,
    error::{ErrorKind, SyntaxError},
};

/// A set of characters: the content of a class, without its brackets.
pub struct CharSet {
    /// Whether the set is all characters except these.
    pub negated: bool,
    /// The characters, in the syntax of the `regex` crate.
    pub items: Cow<'static, str>,
}

/// Parses `\d`, `\pL` and similar sets; `None` if something else comes next.
pub fn set(cursor: &mut Cursor<'_>) -> Result<Option<CharSet>, SyntaxError> {
    for (lower, upper, items) in [
        (r"\d", r"\D", "0-9"),
        (r"\s", r"\S", r"\t\n\f\r\x{20}"),
        (r"\w", r"\W", "0-9A-Za-z_"),
    ] {
        let negated = cursor.rest().starts_with(upper);
        if cursor.eat(lower) || cursor.eat(upper) {
            let items = items.into();
            return Ok(Some(CharSet { negated, items }));
        }
    }
    unicode(cursor)
}

/// `\pL`, `\PL`, `\p{Greek}`, `\p{^Greek}` and `\P{Greek}`.
fn unicode(cursor: &mut Cursor<'_>) -> Result<Option<CharSet>, SyntaxError> {
    let start = cursor.rest();
    let mut negated = start.starts_with(r"\P");
    if !cursor.eat(r"\p") && !cursor.eat(r"\P") {
        return Ok(None);
    }
    let name = if cursor.eat("{") {
        cursor
            .until("}")
            .ok_or_else(|| ErrorKind::InvalidRange.at(start))?
    } else {
        let length = cursor.peek().map_or(0, char::len_utf8);
        cursor.skip(length)
    };
    let stripped = name.strip_prefix('^');
    negated ^= stripped.is_some();
    let name: String = stripped
        .unwrap_or(name)
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .collect::<String>()
        .to_ascii_lowercase();
    // The `regex` crate ignores a prefix `is`.
    let is_name = !name.is_empty() && name.bytes().all(|c| c.is_ascii_lowercase()) && !name.starts_with("is");
    if !is_name {
        return Err(ErrorKind::InvalidRange.at(cursor.since(start)));
    }
    let items = format!(r"\p{{{}={name}}}", property(&name)).into();
    Ok(Some(CharSet { negated, items }))
}

/// The property that a name belongs to, as the `regex` crate calls it: general category or script.
fn property(name: &str) -> &'static str {
    match name {
        // The only script with a name of two letters.
        "yi" => "sc",
        "any" | "ascii" | "assigned" => "gc",
        _ if name.len() <= 2 => "gc",
        _ => "sc",
    }
}

/// Parses an escaped character.
pub fn character(cursor: &mut Cursor<'_>) -> Result<char, SyntaxError> {
    let start = cursor.rest();
    cursor.eat("\\");
    let code = match cursor.peek() {
        None => return Err(ErrorKind::TrailingBackslash.at("")),
        Some('0') => cursor.digits(8, 1, 3),
        // A single digit would be a backreference, which Go does not support.
        Some('1'..='7') => cursor.digits(8, 2, 3).or_else(|| {
            cursor.next();
            None
        }),
        Some('x') => hexadecimal(cursor),
        Some(c) => {
            cursor.next();
            letter(c).map(u32::from)
        }
    };
    code.and_then(char::from_u32)
        .ok_or_else(|| ErrorKind::InvalidEscape.at(cursor.since(start)))
}

/// A control character with a letter of its own, or an escaped punctuation character.
fn letter(c: char) -> Option<char> {
    Some(match c {
        'a' => '\x07',
        'f' => '\x0C',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0B',
        _ if c.is_ascii() && !c.is_ascii_alphanumeric() => c,
        _ => return None,
    })
}

/// `x7F` or `x{10FFFF}`.
fn hexadecimal(cursor: &mut Cursor<'_>) -> Option<u32> {
    cursor.next();
    if !cursor.eat("{") {
        let high = cursor.next()?.to_digit(16)?;
        return Some(high * 16 + cursor.next()?.to_digit(16)?);
    }
    let mut code: Option<u32> = None;
    loop {
        // The error ends where Go stops to read.
        let c = cursor.next()?;
        if c == '}' {
            return code;
        }
        let next = code.unwrap_or_default() * 16 + c.to_digit(16)?;
        code = Some(next).filter(|code| *code <= u32::from(char::MAX));
        code?;
    }
}

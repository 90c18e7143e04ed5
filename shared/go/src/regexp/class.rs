//! Character classes in brackets.

use std::fmt::Write as _;

use super::{
    Literal,
    cursor::Cursor,
    error::{ErrorKind, SyntaxError},
    escape::{CharSet, character, set},
};

/// The names of ASCII classes, such as `[[:alpha:]]`.
const NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Parses a class, and returns it in the syntax of the `regex` crate.
pub fn parse(cursor: &mut Cursor<'_>) -> Result<String, SyntaxError> {
    let start = cursor.rest();
    cursor.eat("[");
    let mut class = String::from(if cursor.eat("^") { "[^" } else { "[" });
    // A closing bracket in the first position is a literal.
    let mut is_first = true;
    while is_first || !cursor.eat("]") {
        is_first = false;
        if let Some(named) = named(cursor)? {
            class.push_str(named);
        } else if let Some(CharSet { negated, items }) = set(cursor)? {
            let (open, close) = if negated { ("[^", "]") } else { ("", "") };
            class.extend([open, &items, close]);
        } else {
            range(cursor, start, &mut class)?;
        }
    }
    class.push(']');
    Ok(class)
}

/// `[:alpha:]` and `[:^alpha:]`.
fn named<'e>(cursor: &mut Cursor<'e>) -> Result<Option<&'e str>, SyntaxError> {
    let start = cursor.rest();
    let Some((name, _)) = start.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
        return Ok(None);
    };
    let text = cursor.skip(name.len() + "[::]".len());
    if NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
        Ok(Some(text))
    } else {
        Err(ErrorKind::InvalidRange.at(text))
    }
}

/// A character or a range of characters.
fn range(cursor: &mut Cursor<'_>, class: &str, out: &mut String) -> Result<(), SyntaxError> {
    let start = cursor.rest();
    let low = member(cursor, class)?;
    // Writing to a string cannot fail.
    let _ = write!(out, "{}", Literal(low));
    // A hyphen at the end is a literal.
    let rest = cursor.rest();
    if rest.starts_with('-') && !rest.starts_with("-]") && rest.len() > 1 {
        cursor.next();
        let high = member(cursor, class)?;
        if high < low {
            return Err(ErrorKind::InvalidRange.at(cursor.since(start)));
        }
        let _ = write!(out, "-{}", Literal(high));
    }
    Ok(())
}

fn member(cursor: &mut Cursor<'_>, class: &str) -> Result<char, SyntaxError> {
    match cursor.peek() {
        None => Err(ErrorKind::MissingBracket.at(class)),
        Some('\\') => character(cursor),
        Some(c) => {
            cursor.next();
            Ok(c)
        }
    }
}

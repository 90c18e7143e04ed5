//! Classes: what stands in brackets.

use std::fmt::Write as _;

use super::{
    Exactly,
    cursor::Cursor,
    error::{Fault, SyntaxError},
    escape::{Set, character, set},
};

/// The names of classes in brackets of their own, such as `[[:alpha:]]`.
const NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Reads a class, and gives it as the `regex` crate reads it.
pub fn read(cursor: &mut Cursor<'_>) -> Result<String, SyntaxError> {
    let start = cursor.rest();
    cursor.eat("[");
    let mut class = String::from(if cursor.eat("^") { "[^" } else { "[" });
    // A bracket that comes first closes nothing.
    let mut is_first = true;
    while is_first || !cursor.eat("]") {
        is_first = false;
        if let Some(named) = named(cursor)? {
            class.push_str(named);
        } else if let Some(Set { negated, items }) = set(cursor)? {
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
        Err(Fault::InvalidRange.at(text))
    }
}

/// A character or a range of them.
fn range(cursor: &mut Cursor<'_>, class: &str, out: &mut String) -> Result<(), SyntaxError> {
    let start = cursor.rest();
    let low = member(cursor, class)?;
    // Writing to a string cannot fail.
    let _ = write!(out, "{}", Exactly(low));
    // A hyphen at the end stands for itself.
    let rest = cursor.rest();
    if rest.starts_with('-') && !rest.starts_with("-]") && rest.len() > 1 {
        cursor.next();
        let high = member(cursor, class)?;
        if high < low {
            return Err(Fault::InvalidRange.at(cursor.since(start)));
        }
        let _ = write!(out, "-{}", Exactly(high));
    }
    Ok(())
}

fn member(cursor: &mut Cursor<'_>, class: &str) -> Result<char, SyntaxError> {
    match cursor.peek() {
        None => Err(Fault::MissingBracket.at(class)),
        Some('\\') => character(cursor),
        Some(c) => {
            cursor.next();
            Ok(c)
        }
    }
}

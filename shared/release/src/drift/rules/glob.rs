//! Globs: `*`, `?`, `[a-z]`, `[!a]` and `{a,b}`, over the whole text.

use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled expression, in bytes. Names of kinds and groups need far less.
const MAX_COMPILED: usize = 64 * 1024;

/// A glob. Most are plain texts.
#[derive(Clone, Debug)]
pub enum Glob {
    /// A text without special characters.
    Plain(String),
    /// A pattern with special characters.
    Pattern(Regex),
}

impl Glob {
    /// Parses a glob, or returns why it is invalid.
    pub fn parse(glob: &str) -> Result<Self, String> {
        if !glob.contains(['*', '?', '[', '{', '\\']) {
            return Ok(Self::Plain(glob.to_owned()));
        }
        let compiled = RegexBuilder::new(&expression(glob)?)
            .size_limit(MAX_COMPILED)
            .build();
        compiled.map(Self::Pattern).map_err(|error| error.to_string())
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Plain(plain) => plain == text,
            Self::Pattern(pattern) => pattern.is_match(text),
        }
    }
}

/// The regular expression of a glob.
fn expression(glob: &str) -> Result<String, String> {
    let mut out = String::from(r"^(?s:");
    let mut depth = 0_usize;
    let mut chars = glob.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '[' => out.push_str(&class(&mut chars)?),
            '{' => {
                depth += 1;
                out.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                out.push(')');
            }
            ',' if depth > 0 => out.push('|'),
            '\\' => {
                let escaped = chars.next().ok_or("ends with a backslash")?;
                out.push_str(&regex::escape(escaped.encode_utf8(&mut [0; 4])));
            }
            c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    if depth > 0 {
        return Err("has no closing brace".to_owned());
    }
    out.push_str(")$");
    Ok(out)
}

fn class(chars: &mut std::str::Chars<'_>) -> Result<String, String> {
    let mut out = String::from("[");
    let mut is_first = true;
    for c in chars.by_ref() {
        match c {
            ']' if !is_first => {
                out.push(']');
                return Ok(out);
            }
            '!' if is_first => {
                out.push('^');
                // A bracket that follows the `!` ends an empty class, which is invalid.
                continue;
            }
            '-' => out.push('-'),
            c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
        is_first = false;
    }
    Err("has no closing bracket".to_owned())
}

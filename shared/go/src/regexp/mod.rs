//! Translates Go's regular expressions to those of the `regex` crate.
//!
//! For expressions that were written for a Go program. The `regex` crate has the same origin (RE2) and also matches in linear
//! time, but some expressions have a different meaning:
//!
//! | written | Go | `regex` | here |
//! |---|---|---|---|
//! | `\d`, `\w`, `\s`, `\b` | ASCII only (`\s` without `\v`) | all of Unicode | as in Go |
//! | `\Q…\E`, `\123`, `\_`, `\<` | a quotation, an octal code, literals | errors; `\<` is the start of a word | as in Go |
//! | `{` that starts no count, `{,5}` | a literal | an error; 0 to 5 times | as in Go |
//! | `[a[b]`, `[a&&b]`, `[a~~b]` | these characters | nested sets | as in Go |
//! | `(?x)`, `(?u)`, `(?R)`, `\u0041`, `\b{start}` | errors, or a different meaning | extensions | as in Go |
//! | `a**`, `a{1001}`, `(a{40}){40}` | errors | allowed | as in Go |
//! | `(?U)`, `\z`, `\A`, `(?P<name>…)`, `[[:alpha:]]`, `\pL`, `\p{^Greek}` | | the same, or nearly | as in Go |
//!
//! So an expression is parsed as Go parses it, and written again with only those constructs that mean the same to the crate.
//!
//! Some differences remain, all of which are errors here, some only when the result is compiled:
//!
//! - Categories have only their short names: `\p{Lu}`, not `\p{Uppercase_Letter}`. Surrogates do not exist: `\p{Cs}`, `\x{d800}`.
//! - A repetition cannot follow a change of flags, as in `a(?i)*`.
//! - With [`rewrite_with_groups`], the name of a group cannot start with a digit, and names are different.
//!
//! ```
//! use go_formats::regexp::rewrite;
//!
//! let name = regex::Regex::new(&rewrite(r"^\Qweb.\E[a-z&&b]{1,}$").unwrap()).unwrap();
//! assert!(name.is_match("web.&b") && !name.is_match("web-b"));
//! assert_eq!(rewrite("(web").unwrap_err().to_string(), "error parsing regexp: missing closing ): `(web`");
//! ```

mod class;
mod compile;
mod cursor;
mod error;
mod escape;
mod size;

use std::fmt::Write as _;

pub use self::{
    compile::{InvalidExpression, compile},
    error::SyntaxError,
};
use self::{
    cursor::Cursor,
    error::ErrorKind,
    escape::{CharSet, character, set},
    size::Sizes,
};

/// The maximum of Go for repetitions, where nested counts are multiplied.
const MAX_COUNT: u32 = 1000;

/// Whether an expression has no special characters, so that it matches only its own text.
pub fn is_plain(expression: &str) -> bool {
    !expression.contains([
        '\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$',
    ])
}

/// Parses an expression as Go does and writes it for the `regex` crate.
///
/// The result has no capturing groups. It is complete: inserted into a group, it cannot close that group, and `\Q` without `\E`
/// extends to its own end.
///
/// Compile it with a limit, as [`compile()`] does, if the expression comes from a user: `\pL{1000}` takes megabytes.
///
/// # Errors
/// Go's error for the expression, with the part that it is about.
pub fn rewrite(expression: &str) -> Result<String, SyntaxError> {
    write(expression, false).map(|(text, _)| text)
}

/// Like [`rewrite`], with capturing groups. Also returns the number of items with counts expanded, where sets of many
/// characters count as several items: compiling and searching take time in proportion to it.
///
/// # Errors
/// Go's error for the expression, with the part that it is about.
pub fn rewrite_with_groups(expression: &str) -> Result<(String, u32), SyntaxError> {
    write(expression, true)
}

fn write(expression: &str, captures: bool) -> Result<(String, u32), SyntaxError> {
    let mut rewriter = Rewriter {
        expression,
        cursor: Cursor::new(expression),
        out: String::with_capacity(expression.len() * 2),
        previous: Previous::None,
        sizes: Sizes::default(),
        captures,
    };
    while let Some(c) = rewriter.cursor.peek() {
        rewriter.token(c)?;
    }
    if rewriter.sizes.is_open() {
        return Err(ErrorKind::MissingParen.at(expression));
    }
    Ok((rewriter.out, rewriter.sizes.items()))
}

/// The token before a repetition.
#[derive(Clone, Copy)]
enum Previous<'e> {
    /// Nothing that can be repeated.
    None,
    /// An item, which can be repeated.
    Item,
    /// Another repetition: the rest of the expression from its start.
    Repetition(&'e str),
}

struct Rewriter<'e> {
    expression: &'e str,
    cursor: Cursor<'e>,
    out: String,
    previous: Previous<'e>,
    /// Groups that are not closed yet, and the sizes of all items.
    sizes: Sizes,
    /// Whether groups capture.
    captures: bool,
}

impl<'e> Rewriter<'e> {
    fn token(&mut self, c: char) -> Result<(), SyntaxError> {
        let start = self.cursor.rest();
        match c {
            '(' => self.group(),
            ')' => self.close(),
            '|' => {
                self.cursor.next();
                self.out.push('|');
                self.previous = Previous::None;
                Ok(())
            }
            '^' | '$' | '.' => {
                self.cursor.next();
                self.item(c)
            }
            '[' => {
                let class = class::parse(&mut self.cursor)?;
                let size = if class.contains(r"\p") || class.starts_with("[^") {
                    size::LARGE_SET
                } else {
                    1
                };
                self.sized(class, size)
            }
            '*' | '+' | '?' => {
                self.cursor.next();
                self.repetition(start)
            }
            '{' => self.count(start),
            '\\' => self.escape(),
            _ => {
                self.cursor.next();
                self.literal(c)
            }
        }
    }

    fn item(&mut self, text: impl std::fmt::Display) -> Result<(), SyntaxError> {
        self.sized(text, 1)
    }

    #[expect(clippy::unnecessary_wraps, reason = "the arms of token() return it")]
    fn sized(&mut self, text: impl std::fmt::Display, size: u32) -> Result<(), SyntaxError> {
        self.sizes.item(size);
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{text}");
        self.previous = Previous::Item;
        Ok(())
    }

    fn literal(&mut self, c: char) -> Result<(), SyntaxError> {
        self.item(Literal(c))
    }

    /// `(…`, `(?:…`, `(?P<name>…`, `(?<name>…`, `(?flags)` and `(?flags:…`.
    ///
    /// A group is written with its number and name only if groups capture.
    fn group(&mut self) -> Result<(), SyntaxError> {
        let start = self.cursor.rest();
        // Go needs a character after `(?P<` to take it for a name.
        if start.len() > "(?P<".len() && (self.cursor.eat("(?P<") || self.cursor.eat("(?<")) {
            let name = self
                .cursor
                .until(">")
                .ok_or_else(|| ErrorKind::InvalidNamedCapture.at(start))?;
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(ErrorKind::InvalidNamedCapture.at(self.cursor.since(start)));
            }
            if self.captures {
                self.open_with(&format!("(?P<{name}>"));
            } else {
                self.open_with("(?:");
            }
        } else if self.cursor.eat("(?") {
            let (flags, opens) = self.flags(start)?;
            if opens {
                self.open_with(&format!("(?{flags}:"));
            } else if !flags.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(self.out, "(?{flags})");
                self.previous = Previous::None;
            }
        } else {
            self.cursor.next();
            self.open_with(if self.captures { "(" } else { "(?:" });
        }
        Ok(())
    }

    fn open_with(&mut self, text: &str) {
        self.out.push_str(text);
        self.sizes.open();
        self.previous = Previous::None;
    }

    /// Flags up to `:` or `)`, and whether they start a group. Later flags override earlier ones.
    fn flags(&mut self, start: &'e str) -> Result<(String, bool), SyntaxError> {
        let (mut on, mut off) = (String::new(), String::new());
        let (mut negative, mut dangling) = (false, false);
        loop {
            match self.cursor.next() {
                Some(flag @ ('i' | 'm' | 's' | 'U')) => {
                    dangling = false;
                    on.retain(|c| c != flag);
                    let list = if negative { &mut off } else { &mut on };
                    if !list.contains(flag) {
                        list.push(flag);
                    }
                }
                Some('-') if !negative => (negative, dangling) = (true, true),
                Some(end @ (':' | ')')) if !dangling => {
                    let minus = if off.is_empty() { "" } else { "-" };
                    return Ok((format!("{on}{minus}{off}"), end == ':'));
                }
                _ => return Err(ErrorKind::InvalidGroup.at(self.cursor.since(start))),
            }
        }
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        if !self.sizes.close() {
            return Err(ErrorKind::UnexpectedParen.at(self.expression));
        }
        self.cursor.next();
        self.out.push(')');
        self.previous = Previous::Item;
        Ok(())
    }

    /// `{n}`, `{n,}` and `{n,m}`; any other brace is a literal.
    fn count(&mut self, start: &'e str) -> Result<(), SyntaxError> {
        let Some((min, max)) = self.cursor.count() else {
            self.cursor.next();
            return self.literal('{');
        };
        // Go counts `{0,}` as one where it multiplies counts.
        let factor = max.unwrap_or(min.max(1));
        let max = max.unwrap_or(min);
        if min > MAX_COUNT || max > MAX_COUNT || min > max {
            return Err(ErrorKind::InvalidCount.at(self.cursor.since(start)));
        }
        self.repetition(start)?;
        if self.sizes.repeat(factor) {
            Ok(())
        } else {
            Err(ErrorKind::InvalidCount.at(self.cursor.since(start)))
        }
    }

    /// A repetition from `start` to the cursor, and the `?` that may follow.
    fn repetition(&mut self, start: &'e str) -> Result<(), SyntaxError> {
        self.cursor.eat("?");
        let text = self.cursor.since(start);
        match self.previous {
            Previous::Item => {}
            Previous::None => return Err(ErrorKind::NothingToRepeat.at(text)),
            Previous::Repetition(first) => {
                return Err(ErrorKind::RepeatedRepetition.at(self.cursor.since(first)));
            }
        }
        self.out.push_str(text);
        self.previous = Previous::Repetition(start);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        if self.cursor.eat(r"\Q") {
            return self.quotation();
        }
        for (escape, text) in [
            (r"\A", r"\A"),
            (r"\z", r"\z"),
            (r"\b", r"(?-u:\b)"),
            (r"\B", r"(?-u:\B)"),
        ] {
            if self.cursor.eat(escape) {
                return self.item(text);
            }
        }
        match set(&mut self.cursor)? {
            Some(CharSet {
                negated: false,
                items,
            }) if items.starts_with(r"\p") => self.sized(format_args!("[{items}]"), size::LARGE_SET),
            Some(CharSet {
                negated: false,
                items,
            }) => self.item(format_args!("[{items}]")),
            Some(CharSet { negated: true, items }) => self.sized(format_args!("[^{items}]"), size::LARGE_SET),
            None => {
                let c = character(&mut self.cursor)?;
                self.literal(c)
            }
        }
    }

    /// `\Q…\E`, or to the end if there is no `\E`.
    fn quotation(&mut self) -> Result<(), SyntaxError> {
        let rest = self.cursor.rest();
        let quoted = match self.cursor.until(r"\E") {
            Some(quoted) => quoted,
            None => self.cursor.skip(rest.len()),
        };
        for c in quoted.chars() {
            self.literal(c)?;
        }
        if matches!(self.previous, Previous::Repetition(_)) {
            self.previous = Previous::Item;
        }
        Ok(())
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// A literal character, inside a class or outside.
struct Literal(char);

impl std::fmt::Display for Literal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_ascii_alphanumeric() {
            self.0.fmt(f)
        } else {
            write!(f, "\\x{{{:X}}}", u32::from(self.0))
        }
    }
}

#[cfg(test)]
mod tests;

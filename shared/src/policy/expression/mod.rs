//! Go's regular expressions, said in Rust's.
//!
//! Policies are written for Fleet, whose controller reads them with Go's `regexp`. The `regex` crate comes from the same
//! house and is as safe against expressions that never end, but the same text can mean something else to it:
//!
//! | written | Go | `regex` | here |
//! |---|---|---|---|
//! | `\d`, `\w`, `\s`, `\b` | ASCII alone (`\s` without `\v`) | all of Unicode | as in Go |
//! | `\Q…\E`, `\123`, `\_`, `\<` | a quotation, an octal code, themselves | errors; `\<` is the start of a word | as in Go |
//! | `{` that begins no count, `{,5}` | itself | an error; 0 to 5 times | as in Go |
//! | `[a[b]`, `[a&&b]`, `[a~~b]` | these characters | sets within sets | as in Go |
//! | `(?x)`, `(?u)`, `(?R)`, `\u0041`, `\b{start}` | errors, or other things | a meaning of their own | as in Go |
//! | `a**`, `a{1001}`, `(a{40}){40}` | errors | allowed | as in Go |
//! | `(?U)`, `\z`, `\A`, `(?P<name>…)`, `[[:alpha:]]`, `\pL`, `\p{^Greek}` | | the same, or nearly | as in Go |
//!
//! So an expression is read as Go reads it and written anew with nothing but what the crate takes in the same sense.
//!
//! Three things stay different, none of which lets anything through that its author did not mean. Categories have their short
//! names alone: `\p{Lu}`, not `\p{Uppercase_Letter}`. A repetition cannot stand behind a change of flags, as in `a(?i)*`.
//! And `\Q` without `\E` reaches to the end of the expression, where in Fleet it swallows the parenthesis behind it and is an
//! error.

mod class;
mod cursor;
mod error;
mod escape;
mod size;

use std::fmt::Write as _;

pub use self::error::SyntaxError;
use self::{
    cursor::Cursor,
    error::Fault,
    escape::{Set, character, set},
    size::Sizes,
};

/// Go refuses to repeat anything more often, counts within counts multiplied.
const MAX_COUNT: u32 = 1000;

/// Whether an expression is one that matches nothing but its own text.
pub fn is_plain(expression: &str) -> bool {
    !expression.contains([
        '\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$',
    ])
}

/// Reads an expression as Go does and writes it for the `regex` crate.
///
/// What it writes stands for itself wherever it is put inside a group: it cannot close that group, as it could in Fleet,
/// which pastes the text between parentheses unread.
///
/// # Errors
/// Says what Go would say, and where.
pub fn rewrite(expression: &str) -> Result<String, SyntaxError> {
    write(expression, false).map(|(text, _)| text)
}

/// The same, with groups that tell what they matched. Also gives how many items the expression has with counts written
/// out, those for many characters counted as several: it says how long compiling and searching take.
///
/// # Errors
/// Says what Go would say, and where.
pub fn rewrite_with_groups(expression: &str) -> Result<(String, u32), SyntaxError> {
    write(expression, true)
}

fn write(expression: &str, keeps_groups: bool) -> Result<(String, u32), SyntaxError> {
    let mut rewriter = Rewriter {
        cursor: Cursor::new(expression),
        out: String::with_capacity(expression.len() * 2),
        before: Before::Nothing,
        sizes: Sizes::default(),
        keeps_groups,
    };
    while let Some(c) = rewriter.cursor.peek() {
        rewriter.token(c)?;
    }
    if rewriter.sizes.is_open() {
        return Err(Fault::MissingParen.at(expression));
    }
    Ok((rewriter.out, rewriter.sizes.items()))
}

/// What stands before a repetition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing that could be repeated.
    Nothing,
    /// Something to repeat.
    Item,
    /// Another repetition.
    Repetition,
}

struct Rewriter<'e> {
    cursor: Cursor<'e>,
    out: String,
    before: Before,
    /// Groups that are not closed yet, and how large everything is.
    sizes: Sizes,
    /// Whether what groups match is asked for.
    keeps_groups: bool,
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
                self.before = Before::Nothing;
                Ok(())
            }
            '^' | '$' | '.' => {
                self.cursor.next();
                self.item(c)
            }
            '[' => {
                let class = class::read(&mut self.cursor)?;
                let size = if class.contains(r"\p") || class.starts_with("[^") {
                    size::MANY
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

    #[expect(clippy::unnecessary_wraps, reason = "the arms of token() end in it")]
    fn sized(&mut self, text: impl std::fmt::Display, size: u32) -> Result<(), SyntaxError> {
        self.sizes.item(size);
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{text}");
        self.before = Before::Item;
        Ok(())
    }

    fn literal(&mut self, c: char) -> Result<(), SyntaxError> {
        self.item(Exactly(c))
    }

    /// `(…`, `(?:…`, `(?P<name>…`, `(?<name>…`, `(?flags)` and `(?flags:…`.
    ///
    /// A group is written with its number and name only where somebody asks what it matched.
    fn group(&mut self) -> Result<(), SyntaxError> {
        let start = self.cursor.rest();
        if self.cursor.eat("(?P<") || self.cursor.eat("(?<") {
            let name = self
                .cursor
                .until(">")
                .ok_or_else(|| Fault::InvalidNamedCapture.at(start))?;
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(Fault::InvalidNamedCapture.at(self.cursor.since(start)));
            }
            if self.keeps_groups {
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
                self.before = Before::Nothing;
            }
        } else {
            self.cursor.next();
            self.open_with(if self.keeps_groups { "(" } else { "(?:" });
        }
        Ok(())
    }

    fn open_with(&mut self, text: &str) {
        self.out.push_str(text);
        self.sizes.open();
        self.before = Before::Nothing;
    }

    /// Flags up to `:` or `)`, and whether a group begins with them. Later ones win over earlier ones.
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
                _ => return Err(Fault::InvalidGroup.at(self.cursor.since(start))),
            }
        }
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        if !self.sizes.close() {
            return Err(Fault::UnexpectedParen.at(self.cursor.rest()));
        }
        self.cursor.next();
        self.out.push(')');
        self.before = Before::Item;
        Ok(())
    }

    /// `{n}`, `{n,}` and `{n,m}`; any other brace is a character like others.
    fn count(&mut self, start: &'e str) -> Result<(), SyntaxError> {
        let Some((least, most)) = self.cursor.count() else {
            self.cursor.next();
            return self.literal('{');
        };
        // Go takes `{0,}` for once where it multiplies counts.
        let factor = most.unwrap_or(least.max(1));
        let most = most.unwrap_or(least);
        let text = self.cursor.since(start);
        if least > MAX_COUNT || most > MAX_COUNT || least > most {
            return Err(Fault::InvalidCount.at(text));
        }
        self.repetition(start)?;
        if self.sizes.repeat(factor) {
            Ok(())
        } else {
            Err(Fault::InvalidCount.at(text))
        }
    }

    /// A repetition from `start` to the cursor, and the `?` that may follow.
    fn repetition(&mut self, start: &'e str) -> Result<(), SyntaxError> {
        self.cursor.eat("?");
        let text = self.cursor.since(start);
        match self.before {
            Before::Item => {}
            Before::Nothing => return Err(Fault::NothingToRepeat.at(text)),
            Before::Repetition => return Err(Fault::RepeatedRepetition.at(text)),
        }
        self.out.push_str(text);
        self.before = Before::Repetition;
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
            Some(Set {
                negated: false,
                items,
            }) if items.starts_with(r"\p") => self.sized(format_args!("[{items}]"), size::MANY),
            Some(Set {
                negated: false,
                items,
            }) => self.item(format_args!("[{items}]")),
            Some(Set { negated: true, items }) => self.sized(format_args!("[^{items}]"), size::MANY),
            None => {
                let c = character(&mut self.cursor)?;
                self.literal(c)
            }
        }
    }

    /// `\Q…\E`, or to the end where there is no `\E`.
    fn quotation(&mut self) -> Result<(), SyntaxError> {
        let rest = self.cursor.rest();
        let quoted = match self.cursor.until(r"\E") {
            Some(quoted) => quoted,
            None => self.cursor.skip(rest.len()),
        };
        for c in quoted.chars() {
            self.literal(c)?;
        }
        if self.before == Before::Repetition {
            self.before = Before::Item;
        }
        Ok(())
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// A character that means nothing but itself, inside a class or outside.
struct Exactly(char);

impl std::fmt::Display for Exactly {
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

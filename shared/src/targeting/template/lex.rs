//! From text to tokens.

use std::ops::Range;

use super::{
    budget::{BYTE, Meter, STEP},
    error::TemplateError,
};

/// What begins an action. Braces alone would be flow collections in YAML.
pub const LEFT: &str = "${";
const RIGHT: &str = "}";

/// Bytes of a token and of what is made of it, at the most.
const TOKEN: usize = 192;

/// A token and where it is.
#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub place: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Left,
    Right,
    Space,
    Assign,
    Declare,
    Pipe,
    Comma,
    Open,
    Close,
    Dot,
    /// `.name`
    Field,
    /// `$name`
    Variable,
    /// A function or a keyword.
    Word,
    Number,
    Character,
    Quoted,
    /// Punctuation that means nothing.
    Other,
    End,
}

/// Splits a text into tokens, the last of which is [`Kind::End`].
pub fn tokens(text: &str, meter: &Meter) -> Result<Vec<Token>, TemplateError> {
    let whole = |message| TemplateError::new(text, 0..0, message);
    meter.each(text.len(), BYTE).map_err(whole)?;
    let mut lexer = Lexer {
        text,
        at: 0,
        tokens: Vec::new(),
        meter,
    };
    lexer.run()?;
    lexer.push(Kind::End, text.len());
    Ok(lexer.tokens)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    tokens: Vec<Token>,
    meter: &'t Meter,
}

impl<'t> Lexer<'t> {
    fn run(&mut self) -> Result<(), TemplateError> {
        while let Some(length) = self.rest().find(LEFT) {
            let (start, left) = (self.at, self.at + length);
            self.at = left + LEFT.len();
            self.count(left)?;
            let trims = self.rest().starts_with('-') && self.rest().get(1..).is_some_and(starts_with_space);
            let before = self.text.get(start..left).unwrap_or_default();
            let kept = if trims {
                before.trim_end_matches(is_space)
            } else {
                before
            };
            if !kept.is_empty() {
                self.tokens.push(Token {
                    kind: Kind::Text,
                    place: start..start + kept.len(),
                });
            }
            if trims {
                self.at += 1;
            }
            // A comment directly follows the delimiter, or the space that the mark needs.
            let comment = if trims {
                self.rest().get(1..).unwrap_or_default()
            } else {
                self.rest()
            };
            if comment.starts_with("/*") {
                self.at = self.text.len() - comment.len();
                self.comment()?;
            } else {
                self.tokens.push(Token {
                    kind: Kind::Left,
                    place: left..self.at,
                });
                self.action(left)?;
            }
        }
        if !self.rest().is_empty() {
            self.push(Kind::Text, self.text.len());
        }
        Ok(())
    }

    fn comment(&mut self) -> Result<(), TemplateError> {
        let start = self.at;
        let Some(length) = self.rest().find("*/") else {
            return Err(self.error(start..self.text.len(), "unclosed comment"));
        };
        self.at += length + 2;
        if !self.right() {
            return Err(self.error(start..self.at, "comment ends before closing delimiter"));
        }
        Ok(())
    }

    /// Goes past the end of the action, if it is here.
    fn right(&mut self) -> bool {
        let rest = self.rest();
        let trimmed = rest
            .strip_prefix(is_space)
            .and_then(|rest| rest.strip_prefix('-'));
        if let Some(behind) = trimmed.and_then(|rest| rest.strip_prefix(RIGHT)) {
            self.at = self.text.len() - behind.trim_start_matches(is_space).len();
            return true;
        }
        if rest.starts_with(RIGHT) {
            self.at += RIGHT.len();
            return true;
        }
        false
    }

    fn action(&mut self, left: usize) -> Result<(), TemplateError> {
        let mut depth = 0_usize;
        loop {
            let start = self.at;
            if self.right() {
                if depth > 0 {
                    return Err(self.error(left..self.at, "unclosed left paren"));
                }
                self.tokens.push(Token {
                    kind: Kind::Right,
                    place: start..self.at,
                });
                return Ok(());
            }
            let Some(first) = self.rest().chars().next() else {
                return Err(self.error(left..self.text.len(), "unclosed action"));
            };
            self.count(left)?;
            let (kind, length) = self.token(first)?;
            match kind {
                Kind::Open => depth += 1,
                Kind::Close if depth == 0 => {
                    return Err(self.error(left..start + 1, "unexpected right paren"));
                }
                Kind::Close => depth -= 1,
                _ => {}
            }
            self.push(kind, start + length);
        }
    }

    /// The token that begins with `first`, and its length in bytes.
    fn token(&self, first: char) -> Result<(Kind, usize), TemplateError> {
        let rest = self.rest();
        let second = rest.chars().nth(1);
        Ok(match first {
            c if is_space(c) => (Kind::Space, self.space()),
            '=' => (Kind::Assign, 1),
            ':' if second == Some('=') => (Kind::Declare, 2),
            ':' => return Err(self.error(self.at..self.at + 1, "expected :=")),
            '|' => (Kind::Pipe, 1),
            ',' => (Kind::Comma, 1),
            '(' => (Kind::Open, 1),
            ')' => (Kind::Close, 1),
            '"' => (Kind::Quoted, self.quoted('"', "unterminated quoted string")?),
            '\'' => (
                Kind::Character,
                self.quoted('\'', "unterminated character constant")?,
            ),
            '`' => match rest.get(1..).and_then(|rest| rest.find('`')) {
                Some(length) => (Kind::Quoted, length + 2),
                None => return Err(self.error(self.at..self.text.len(), "unterminated raw quoted string")),
            },
            '.' if !second.is_some_and(|c| c.is_ascii_digit()) => {
                let length = self.word(1)?;
                (if length == 1 { Kind::Dot } else { Kind::Field }, length)
            }
            '$' => (Kind::Variable, self.word(1)?),
            '.' | '+' | '-' | '0'..='9' => (Kind::Number, self.number()?),
            c if is_alphanumeric(c) => (Kind::Word, self.word(0)?),
            c if c.is_ascii_graphic() => (Kind::Other, 1),
            c => {
                let message = format!("unrecognized character in action: {c:?}");
                return Err(self.error(self.at..self.at + c.len_utf8(), message));
            }
        })
    }

    /// Spaces, but not the one before the mark that trims.
    fn space(&self) -> usize {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches(is_space).len();
        let behind = rest.get(length..).unwrap_or_default();
        if behind
            .strip_prefix('-')
            .is_some_and(|behind| behind.starts_with(RIGHT))
        {
            length - 1
        } else {
            length
        }
    }

    fn quoted(&self, quote: char, message: &str) -> Result<usize, TemplateError> {
        let mut escaped = false;
        for (index, c) in self.rest().char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => return Ok(index + 1),
                _ => {}
            }
        }
        Err(self.error(self.at..self.text.len(), message))
    }

    fn word(&self, skip: usize) -> Result<usize, TemplateError> {
        let rest = self.rest().get(skip..).unwrap_or_default();
        let behind = rest.trim_start_matches(is_alphanumeric);
        let length = skip + rest.len() - behind.len();
        match behind.chars().next() {
            Some(c) if !(is_space(c) || ".,|:)(".contains(c) || behind.starts_with(RIGHT)) => {
                let place = self.at..self.at + length + c.len_utf8();
                Err(self.error(place, format!("bad character {c:?}")))
            }
            _ => Ok(length),
        }
    }

    fn number(&self) -> Result<usize, TemplateError> {
        let rest = self.rest();
        let mut previous = ' ';
        let unsigned = rest.trim_start_matches(['+', '-']);
        let is_hex = unsigned.starts_with("0x") || unsigned.starts_with("0X");
        let length = rest
            .char_indices()
            .find(|(index, c)| {
                let sign = matches!(c, '+' | '-')
                    && (*index == 0
                        || (matches!(previous, 'e' | 'E') && !is_hex)
                        || matches!(previous, 'p' | 'P'));
                previous = *c;
                !(sign || *c == '.' || is_alphanumeric(*c))
            })
            .map_or(rest.len(), |(index, _)| index);
        let place = self.at..self.at + length;
        let text = rest.get(..length).unwrap_or_default();
        if text.ends_with('i') || !text.contains(|c: char| c.is_ascii_digit()) {
            return Err(self.error(place, format!("bad number syntax: {text:?}")));
        }
        Ok(length)
    }

    /// Counts a token before it is made.
    fn count(&self, left: usize) -> Result<(), TemplateError> {
        let counted = self.meter.work(STEP).and_then(|()| self.meter.make(TOKEN));
        counted.map_err(|message| self.error(left..self.at, message))
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, kind: Kind, end: usize) {
        self.tokens.push(Token {
            kind,
            place: self.at..end,
        });
        self.at = end;
    }

    fn error(&self, place: Range<usize>, message: impl Into<String>) -> TemplateError {
        TemplateError::new(self.text, place, message)
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn starts_with_space(text: &str) -> bool {
    text.starts_with(is_space)
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

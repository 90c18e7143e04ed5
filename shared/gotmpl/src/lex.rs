//! The lexer: splits a template into tokens.

use std::ops::Range;

use super::{
    budget::{BYTE, Meter, STEP},
    delimiters::Delimiters,
    error::TemplateError,
};

/// Maximum bytes of a token and of the node that the parser makes of it.
const TOKEN: usize = 192;

/// A token and its position in the template.
#[derive(Clone, Debug)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
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
    /// Punctuation without a meaning.
    Other,
    End,
}

/// Splits a template into tokens, the last of which is [`TokenKind::End`].
pub fn tokens(text: &str, delimiters: Delimiters<'_>, meter: &Meter) -> Result<Vec<Token>, TemplateError> {
    let whole = |message| TemplateError::new(text, 0..0, message);
    meter.charge_each(text.len(), BYTE).map_err(whole)?;
    let mut lexer = Lexer {
        text,
        left: delimiters.left(),
        right: delimiters.right(),
        at: 0,
        tokens: Vec::new(),
        meter,
    };
    lexer.run()?;
    lexer.push(TokenKind::End, text.len());
    Ok(lexer.tokens)
}

struct Lexer<'t> {
    text: &'t str,
    left: &'t str,
    right: &'t str,
    at: usize,
    tokens: Vec<Token>,
    meter: &'t Meter,
}

impl<'t> Lexer<'t> {
    fn run(&mut self) -> Result<(), TemplateError> {
        while let Some(length) = self.rest().find(self.left) {
            let (start, left) = (self.at, self.at + length);
            self.at = left + self.left.len();
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
                    kind: TokenKind::Text,
                    span: start..start + kept.len(),
                });
            }
            if trims {
                self.at += 1;
            }
            // A comment follows the delimiter directly, or the space that a trim marker (`-`) requires.
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
                    kind: TokenKind::Left,
                    span: left..self.at,
                });
                self.action(left)?;
            }
        }
        if !self.rest().is_empty() {
            self.push(TokenKind::Text, self.text.len());
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

    /// Consumes the end of the action, if it is next.
    fn right(&mut self) -> bool {
        let rest = self.rest();
        let trimmed = rest
            .strip_prefix(is_space)
            .and_then(|rest| rest.strip_prefix('-'));
        if let Some(after) = trimmed.and_then(|rest| rest.strip_prefix(self.right)) {
            self.at = self.text.len() - after.trim_start_matches(is_space).len();
            return true;
        }
        if rest.starts_with(self.right) {
            self.at += self.right.len();
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
                    kind: TokenKind::Right,
                    span: start..self.at,
                });
                return Ok(());
            }
            let Some(first) = self.rest().chars().next() else {
                return Err(self.error(left..self.text.len(), "unclosed action"));
            };
            self.count(left)?;
            let (kind, length) = self.token(first)?;
            match kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close if depth == 0 => {
                    return Err(self.error(left..start + 1, "unexpected right paren"));
                }
                TokenKind::Close => depth -= 1,
                _ => {}
            }
            self.push(kind, start + length);
        }
    }

    /// The token that starts with `first`, and its length in bytes.
    fn token(&self, first: char) -> Result<(TokenKind, usize), TemplateError> {
        let rest = self.rest();
        let second = rest.chars().nth(1);
        Ok(match first {
            c if is_space(c) => (TokenKind::Space, self.space()),
            '=' => (TokenKind::Assign, 1),
            ':' if second == Some('=') => (TokenKind::Declare, 2),
            ':' => return Err(self.error(self.at..self.at + 1, "expected :=")),
            '|' => (TokenKind::Pipe, 1),
            ',' => (TokenKind::Comma, 1),
            '(' => (TokenKind::Open, 1),
            ')' => (TokenKind::Close, 1),
            '"' => (TokenKind::Quoted, self.quoted('"', "unterminated quoted string")?),
            '\'' => (
                TokenKind::Character,
                self.quoted('\'', "unterminated character constant")?,
            ),
            '`' => match rest.get(1..).and_then(|rest| rest.find('`')) {
                Some(length) => (TokenKind::Quoted, length + 2),
                None => return Err(self.error(self.at..self.text.len(), "unterminated raw quoted string")),
            },
            '.' if !second.is_some_and(|c| c.is_ascii_digit()) => {
                let length = self.word(1)?;
                (
                    if length == 1 {
                        TokenKind::Dot
                    } else {
                        TokenKind::Field
                    },
                    length,
                )
            }
            '$' => (TokenKind::Variable, self.word(1)?),
            '.' | '+' | '-' | '0'..='9' => (TokenKind::Number, self.number()?),
            c if is_alphanumeric(c) => (TokenKind::Word, self.word(0)?),
            c if c.is_ascii_graphic() => (TokenKind::Other, 1),
            c => {
                let message = format!("unrecognized character in action: {c:?}");
                return Err(self.error(self.at..self.at + c.len_utf8(), message));
            }
        })
    }

    /// The length of the spaces, without the one that belongs to a trim marker.
    fn space(&self) -> usize {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches(is_space).len();
        let after = rest.get(length..).unwrap_or_default();
        if after
            .strip_prefix('-')
            .is_some_and(|after| after.starts_with(self.right))
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
        let after = rest.trim_start_matches(is_alphanumeric);
        let length = skip + rest.len() - after.len();
        match after.chars().next() {
            Some(c) if !(is_space(c) || ".,|:)(".contains(c) || after.starts_with(self.right)) => {
                let span = self.at..self.at + length + c.len_utf8();
                Err(self.error(span, format!("bad character {c:?}")))
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
        let span = self.at..self.at + length;
        let text = rest.get(..length).unwrap_or_default();
        if text.ends_with('i') || !text.contains(|c: char| c.is_ascii_digit()) {
            return Err(self.error(span, format!("bad number syntax: {text:?}")));
        }
        Ok(length)
    }

    /// Charges for a token before it is created.
    fn count(&self, left: usize) -> Result<(), TemplateError> {
        let counted = self.meter.charge(STEP).and_then(|()| self.meter.allocate(TOKEN));
        counted.map_err(|message| self.error(left..self.at, message))
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, kind: TokenKind, end: usize) {
        self.tokens.push(Token {
            kind,
            span: self.at..end,
        });
        self.at = end;
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>) -> TemplateError {
        TemplateError::new(self.text, span, message)
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

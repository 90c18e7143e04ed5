//! From characters to tokens.

use std::{borrow::Cow, collections::VecDeque};

use super::{
    SyntaxError,
    cursor::{Cursor, Mark, invalid_character},
};
use crate::yaml::place::Span;

/// How far from its start a key ends that has no `?`, in characters.
const MAX_SIMPLE_KEY: usize = 1024;

/// A token, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    pub kind: TokenKind<'t>,
    pub span: Span,
    /// The line of its start.
    pub line: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind<'t> {
    StreamEnd,
    VersionDirective { is_1_1: bool },
    TagDirective { handle: &'t str, prefix: Cow<'t, str> },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'t str),
    Anchor(&'t str),
    Tag(TagText<'t>),
    Scalar { text: Cow<'t, str>, is_plain: bool },
}

/// A tag as it is written: what is replaced by a prefix, and what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagText<'t> {
    /// `!`, `!!` or `!name!`; empty if the suffix is the whole tag.
    pub handle: &'t str,
    pub suffix: Cow<'t, str>,
}

/// A token that is a key if `:` follows it.
#[derive(Clone, Copy, Debug)]
struct SimpleKey {
    /// Whether only a key can be there.
    is_required: bool,
    /// The number of the token.
    token: usize,
    mark: Mark,
}

pub const fn error_at(mark: Mark, message: &'static str) -> SyntaxError {
    SyntaxError {
        message,
        at: mark.at,
        line: mark.line,
    }
}

/// Makes tokens.
#[derive(Debug)]
pub struct Scanner<'t> {
    pub(super) source: &'t str,
    pub(super) cursor: Cursor<'t>,
    /// The indentation of the current block; `None` outside of all blocks.
    pub(super) indent: Option<usize>,
    /// Whether a key without `?` may start here.
    pub(super) simple_key_allowed: bool,
    outer_indents: Vec<Option<usize>>,
    /// Tokens that wait, and the number of those that were taken.
    tokens: VecDeque<Token<'t>>,
    taken: usize,
    /// The possible key of the block context and of each open flow collection.
    simple_keys: Vec<Option<SimpleKey>>,
}

impl<'t> Scanner<'t> {
    pub fn new(source: &'t str) -> Self {
        Self {
            source,
            cursor: Cursor::new(source),
            indent: None,
            simple_key_allowed: true,
            outer_indents: Vec::new(),
            tokens: VecDeque::new(),
            taken: 0,
            simple_keys: vec![None],
        }
    }

    /// Fails if there is a character that YAML does not allow, such as a control character.
    pub fn check_characters(&self) -> Result<(), SyntaxError> {
        match invalid_character(self.source) {
            None => Ok(()),
            Some(at) => {
                let before = self.source.get(..at).unwrap_or_default();
                Err(SyntaxError {
                    message: "control characters are not allowed",
                    at,
                    line: before.matches('\n').count(),
                })
            }
        }
    }

    /// The next token. At the end of the text it is always the same.
    pub fn peek(&mut self) -> Result<&Token<'t>, SyntaxError> {
        while self.needs_tokens()? {
            self.fetch()?;
        }
        match self.tokens.front() {
            Some(token) => Ok(token),
            None => Err(self.error("unexpected end of stream")),
        }
    }

    /// Takes the token that was peeked at.
    pub fn take(&mut self) -> Option<Token<'t>> {
        self.taken += 1;
        self.tokens.pop_front()
    }

    /// Whether the next token is not known yet, because it may turn out to be a key.
    fn needs_tokens(&mut self) -> Result<bool, SyntaxError> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        let taken = self.taken;
        let level = self
            .simple_keys
            .iter()
            .position(|key| key.is_some_and(|key| key.token == taken));
        match level {
            Some(level) => Ok(self.possible_key(level)?.is_some()),
            None => Ok(false),
        }
    }

    pub(super) fn error(&self, message: &'static str) -> SyntaxError {
        error_at(self.cursor.mark(), message)
    }

    /// A token from a position to the current one.
    pub(super) const fn token(&self, start: Mark, kind: TokenKind<'t>) -> Token<'t> {
        Token {
            kind,
            span: Span {
                start: start.at,
                end: self.cursor.at(),
            },
            line: start.line,
        }
    }

    pub(super) const fn is_flow(&self) -> bool {
        self.simple_keys.len() > 1
    }

    /// The first column in which content of the current block can be.
    pub(super) fn content_column(&self) -> usize {
        self.indent.map_or(0, |indent| indent + 1)
    }

    pub(super) fn is_left_of_content(&self) -> bool {
        self.cursor.column() < self.content_column()
    }

    /// Blanks, a comment, and the end of the line.
    pub(super) fn end_of_line(&mut self, problem: &'static str) -> Result<(), SyntaxError> {
        self.cursor.skip_blanks();
        if self.cursor.peek(0) == b'#' {
            self.cursor.skip_line_content();
        }
        if !self.cursor.is_end() && !self.cursor.is_break(0) {
            return Err(self.error(problem));
        }
        self.cursor.take_break();
        Ok(())
    }

    fn fetch(&mut self) -> Result<(), SyntaxError> {
        self.skip_to_token();
        self.close_blocks(Some(self.cursor.column()));
        if self.cursor.is_end() {
            return self.fetch_stream_end();
        }
        let is_line_start = self.cursor.column() == 0;
        let is_flow = self.is_flow();
        match self.cursor.peek(0) {
            b'%' if is_line_start => {
                self.leave_document()?;
                let token = self.scan_directive()?;
                self.tokens.push_back(token);
                Ok(())
            }
            b'-' if is_line_start && self.cursor.is_indicator(b'-') => {
                self.fetch_document_indicator(TokenKind::DocumentStart)
            }
            b'.' if is_line_start && self.cursor.is_indicator(b'.') => {
                self.fetch_document_indicator(TokenKind::DocumentEnd)
            }
            b'[' => self.open_flow(TokenKind::FlowSequenceStart),
            b'{' => self.open_flow(TokenKind::FlowMappingStart),
            b']' => self.close_flow(TokenKind::FlowSequenceEnd),
            b'}' => self.close_flow(TokenKind::FlowMappingEnd),
            b',' => {
                self.drop_simple_key()?;
                self.simple_key_allowed = true;
                self.push_indicator(TokenKind::FlowEntry, 1);
                Ok(())
            }
            b'-' if self.cursor.is_gap(1) => self.fetch_block_entry(),
            b'?' if is_flow || self.cursor.is_gap(1) => self.fetch_key(),
            b':' if is_flow || self.cursor.is_gap(1) => self.fetch_value(),
            b'*' => self.fetch_word(|scanner| scanner.scan_anchor(true)),
            b'&' => self.fetch_word(|scanner| scanner.scan_anchor(false)),
            b'!' => self.fetch_word(Self::scan_tag),
            b'|' | b'>' if !is_flow => self.fetch_block_scalar(),
            b'\'' | b'"' => self.fetch_word(Self::scan_quoted),
            b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => {
                Err(self
                    .error("while scanning for the next token, found character that cannot start any token"))
            }
            _ => self.fetch_word(Self::scan_plain),
        }
    }

    /// Moves behind white space and comments. A tab is no indentation.
    fn skip_to_token(&mut self) {
        loop {
            let allows_tabs = self.is_flow() || !self.simple_key_allowed;
            self.cursor
                .skip_while(|byte| byte == b' ' || (allows_tabs && byte == b'\t'));
            if self.cursor.peek(0) == b'#' {
                self.cursor.skip_line_content();
            }
            if !self.cursor.is_break(0) {
                return;
            }
            self.cursor.take_break();
            if !self.is_flow() {
                self.simple_key_allowed = true;
            }
        }
    }

    fn push_indicator(&mut self, kind: TokenKind<'t>, length: usize) {
        let start = self.cursor.mark();
        self.cursor.skip(length);
        let token = self.token(start, kind);
        self.tokens.push_back(token);
    }

    /// The key that is possible at a level. It ends in its line, and soon.
    fn possible_key(&mut self, level: usize) -> Result<Option<SimpleKey>, SyntaxError> {
        let Some(Some(key)) = self.simple_keys.get(level).copied() else {
            return Ok(None);
        };
        let mark = self.cursor.mark();
        let is_over = key.mark.line < mark.line
            || self.cursor.characters_since(key.mark.at, MAX_SIMPLE_KEY) > MAX_SIMPLE_KEY;
        if !is_over {
            return Ok(Some(key));
        }
        self.set_simple_key(level, None);
        if key.is_required {
            return Err(error_at(
                key.mark,
                "while scanning a simple key, could not find expected ':'",
            ));
        }
        Ok(None)
    }

    fn set_simple_key(&mut self, level: usize, key: Option<SimpleKey>) {
        if let Some(place) = self.simple_keys.get_mut(level) {
            *place = key;
        }
    }

    /// What starts here may be a key.
    fn save_simple_key(&mut self) -> Result<(), SyntaxError> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        self.drop_simple_key()?;
        let key = SimpleKey {
            is_required: !self.is_flow() && self.indent == Some(self.cursor.column()),
            token: self.taken + self.tokens.len(),
            mark: self.cursor.mark(),
        };
        self.set_simple_key(self.simple_keys.len() - 1, Some(key));
        Ok(())
    }

    /// What started at this level is no key.
    fn drop_simple_key(&mut self) -> Result<(), SyntaxError> {
        let level = self.simple_keys.len() - 1;
        let key = self.simple_keys.get_mut(level).and_then(Option::take);
        match key {
            Some(key) if key.is_required => Err(error_at(
                key.mark,
                "while scanning a simple key, could not find expected ':'",
            )),
            _ => Ok(()),
        }
    }

    /// Opens a block if the column is to the right of the current one. Its token is before that with the number `before`.
    fn open_block(&mut self, mark: Mark, before: Option<usize>, kind: TokenKind<'t>) {
        if self.is_flow() || self.indent.is_some_and(|indent| indent >= mark.column) {
            return;
        }
        self.outer_indents.push(self.indent);
        self.indent = Some(mark.column);
        let token = Token {
            kind,
            span: Span {
                start: mark.at,
                end: mark.at,
            },
            line: mark.line,
        };
        self.insert(token, before);
    }

    fn insert(&mut self, token: Token<'t>, before: Option<usize>) {
        let index = before.map_or(self.tokens.len(), |number| number.saturating_sub(self.taken));
        self.tokens.insert(index.min(self.tokens.len()), token);
    }

    /// Closes the blocks whose indentation is to the right of a column; all if there is none.
    fn close_blocks(&mut self, column: Option<usize>) {
        if self.is_flow() {
            return;
        }
        while self.indent > column {
            let token = self.token(self.cursor.mark(), TokenKind::BlockEnd);
            self.tokens.push_back(token);
            self.indent = self.outer_indents.pop().flatten();
        }
    }

    fn leave_document(&mut self) -> Result<(), SyntaxError> {
        self.close_blocks(None);
        self.drop_simple_key()?;
        self.simple_key_allowed = false;
        Ok(())
    }

    fn fetch_stream_end(&mut self) -> Result<(), SyntaxError> {
        self.cursor.end_line();
        self.leave_document()?;
        self.push_indicator(TokenKind::StreamEnd, 0);
        Ok(())
    }

    fn fetch_document_indicator(&mut self, kind: TokenKind<'t>) -> Result<(), SyntaxError> {
        self.leave_document()?;
        self.push_indicator(kind, 3);
        Ok(())
    }

    fn open_flow(&mut self, kind: TokenKind<'t>) -> Result<(), SyntaxError> {
        self.save_simple_key()?;
        self.simple_keys.push(None);
        self.simple_key_allowed = true;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn close_flow(&mut self, kind: TokenKind<'t>) -> Result<(), SyntaxError> {
        self.drop_simple_key()?;
        if self.is_flow() {
            self.simple_keys.pop();
        }
        self.simple_key_allowed = false;
        self.push_indicator(kind, 1);
        Ok(())
    }

    /// Opens a block where the next token starts, unless it is in a flow collection.
    fn open_block_here(&mut self, kind: TokenKind<'t>, refused: &'static str) -> Result<(), SyntaxError> {
        if self.is_flow() {
            return Ok(());
        }
        if !self.simple_key_allowed {
            return Err(self.error(refused));
        }
        self.open_block(self.cursor.mark(), None, kind);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), SyntaxError> {
        let refused = "block sequence entries are not allowed in this context";
        self.open_block_here(TokenKind::BlockSequenceStart, refused)?;
        self.drop_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(TokenKind::BlockEntry, 1);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), SyntaxError> {
        let refused = "mapping keys are not allowed in this context";
        self.open_block_here(TokenKind::BlockMappingStart, refused)?;
        self.drop_simple_key()?;
        self.simple_key_allowed = !self.is_flow();
        self.push_indicator(TokenKind::Key, 1);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), SyntaxError> {
        let level = self.simple_keys.len() - 1;
        if let Some(key) = self.possible_key(level)? {
            let span = Span {
                start: key.mark.at,
                end: key.mark.at,
            };
            let token = Token {
                kind: TokenKind::Key,
                span,
                line: key.mark.line,
            };
            self.insert(token, Some(key.token));
            self.open_block(key.mark, Some(key.token), TokenKind::BlockMappingStart);
            self.set_simple_key(level, None);
            self.simple_key_allowed = false;
        } else {
            let refused = "mapping values are not allowed in this context";
            self.open_block_here(TokenKind::BlockMappingStart, refused)?;
            self.simple_key_allowed = !self.is_flow();
        }
        self.push_indicator(TokenKind::Value, 1);
        Ok(())
    }

    /// What may be a key, and ends before the next token.
    fn fetch_word(
        &mut self,
        scan: impl FnOnce(&mut Self) -> Result<Token<'t>, SyntaxError>,
    ) -> Result<(), SyntaxError> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let token = scan(self)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_block_scalar(&mut self) -> Result<(), SyntaxError> {
        self.drop_simple_key()?;
        self.simple_key_allowed = true;
        let token = self.scan_block()?;
        self.tokens.push_back(token);
        Ok(())
    }
}

//! Interprets the lines of Helm's layout, one after the other.

use super::super::collect::{Collection, Collector};
use super::super::scalar::Scalar;
use super::token::{self, Block, Quoted, Text, Token};

/// Maximum depth of collections. The general reader allows 255, Helm's indexes have six levels.
const MAX_DEPTH: usize = 64;

/// How many bytes there may be between the starts of two nodes. The general reader allows four times as many.
const MAX_TOKEN_LEN: usize = super::super::MAX_TOKEN_LEN / 4;

/// Processes the lines. `None` from any of its functions means that the line is unsupported.
pub(super) struct Scanner<'c, 'w> {
    collector: &'c mut Collector<'w>,
    levels: Vec<Level>,
    state: State,
    /// A relevant plain scalar; it is complete if the next line does not continue it.
    held: String,
    since_node: usize,
}

/// An open collection, and the column of its keys or dashes.
#[derive(Clone, Copy)]
struct Level {
    indent: usize,
    collection: Collection,
}

/// What the lines so far have left open.
#[derive(Clone, Copy)]
enum State {
    Start,
    /// Nothing is left open.
    Complete,
    /// A key whose value has not occurred yet.
    Key,
    /// An irrelevant plain scalar that may continue.
    Plain,
    /// A relevant plain scalar that may continue, in `held`.
    Held,
    /// An irrelevant quoted scalar that continues.
    Quoted(u8),
    /// An irrelevant block scalar that continues.
    Block(Block),
}

impl<'c, 'w> Scanner<'c, 'w> {
    pub(super) fn new(collector: &'c mut Collector<'w>) -> Self {
        Self {
            collector,
            levels: Vec::with_capacity(MAX_DEPTH),
            state: State::Start,
            held: String::new(),
            since_node: 0,
        }
    }

    #[inline]
    pub(super) fn line(&mut self, line: &[u8]) -> Option<()> {
        let indent = token::indent(line);
        let text = line.get(indent..)?;
        match self.state {
            State::Block(mut block) => {
                if block.add_line(indent, text, self.indent()?)? {
                    self.state = State::Block(block);
                    return self.skip_line(line);
                }
                self.state = State::Complete;
            }
            State::Quoted(quote) => return self.continue_quoted(quote, indent, line, text),
            State::Start | State::Complete | State::Key | State::Plain | State::Held => {}
        }
        match text.first() {
            None => self.skip_line(line),
            Some(b'#') => {
                self.end_plain();
                self.skip_line(line)
            }
            Some(_) => match self.state {
                State::Plain if indent > self.indent()? => {
                    token::is_plain_text(text).then_some(())?;
                    self.skip_line(line)
                }
                State::Held if indent > self.indent()? => None,
                _ => {
                    self.since_node = 0;
                    self.node(indent, text)
                }
            },
        }
    }

    /// Handles the end of the document.
    pub(super) fn end(&mut self) -> Option<()> {
        match self.state {
            State::Start | State::Quoted(_) => return None,
            State::Key => self.collector.scalar(Scalar::NULL),
            State::Complete | State::Plain | State::Held | State::Block(_) => self.end_plain(),
        }
        for _ in self.levels.drain(..) {
            self.collector.close();
        }
        Some(())
    }

    /// Handles a line without a node: blank, a comment, or part of a scalar.
    fn skip_line(&mut self, line: &[u8]) -> Option<()> {
        self.since_node += line.len() + 1;
        (self.since_node <= MAX_TOKEN_LEN).then_some(())
    }

    fn end_plain(&mut self) {
        match self.state {
            State::Held => self.collector.scalar(Scalar::plain(&self.held)),
            State::Plain => {}
            State::Start | State::Complete | State::Key | State::Quoted(_) | State::Block(_) => return,
        }
        self.state = State::Complete;
    }

    fn indent(&self) -> Option<usize> {
        self.levels.last().map(|level| level.indent)
    }

    fn push(&mut self, indent: usize, collection: Collection) -> Option<()> {
        (self.levels.len() < MAX_DEPTH).then_some(())?;
        self.levels.push(Level { indent, collection });
        self.collector.open(collection);
        Some(())
    }

    /// Handles a line with a key or an item.
    #[inline]
    fn node(&mut self, indent: usize, text: &[u8]) -> Option<()> {
        if indent == 0 && matches!(text, [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..]) {
            let is_start = matches!(self.state, State::Start) && text == b"---";
            self.state = State::Complete;
            return is_start.then_some(());
        }
        let collection = if token::is_item(text) {
            Collection::Sequence
        } else {
            Collection::Mapping
        };
        // Most lines are in the same collection as the line before.
        let is_next = matches!(self.state, State::Complete | State::Plain)
            && self
                .levels
                .last()
                .is_some_and(|top| top.indent == indent && top.collection == collection);
        if !is_next {
            self.adjust_levels(indent, collection)?;
        }
        match collection {
            Collection::Sequence => self.item(indent, text),
            Collection::Mapping => match token::simple_key(text) {
                Some((key, value)) => self.pair(key, value),
                None => self.other_pair(text),
            },
        }
    }

    /// Opens or closes collections until the innermost is the one of this line.
    fn adjust_levels(&mut self, indent: usize, collection: Collection) -> Option<()> {
        let Some(top) = self.levels.last() else {
            (indent == 0 && collection == Collection::Mapping).then_some(())?;
            self.state = State::Complete;
            return self.push(indent, collection);
        };
        if matches!(self.state, State::Key) {
            self.state = State::Complete;
            // The dashes of a key's list may be in the column of the key.
            if indent > top.indent || (indent == top.indent && collection == Collection::Sequence) {
                return self.push(indent, collection);
            }
            self.collector.scalar(Scalar::NULL);
        }
        self.end_plain();
        while let Some(top) = self.levels.last() {
            let is_closed = top.indent > indent
                || (top.indent == indent
                    && (top.collection, collection) == (Collection::Sequence, Collection::Mapping));
            if !is_closed {
                return (top.indent == indent && top.collection == collection).then_some(());
            }
            self.levels.pop();
            self.collector.close();
        }
        None
    }

    fn item(&mut self, indent: usize, text: &[u8]) -> Option<()> {
        let rest = text.get(1..)?;
        let gap = token::indent(rest);
        let text = rest.get(gap..)?;
        let indent = indent + 1 + gap;
        if let Some((key, value)) = token::simple_key(text) {
            self.push(indent, Collection::Mapping)?;
            return self.pair(key, value);
        }
        if token::is_item(text) {
            self.push(indent, Collection::Sequence)?;
            return self.item(indent, text);
        }
        match token::split(text)? {
            Token::Pair(key, value) => {
                self.push(indent, Collection::Mapping)?;
                self.pair(key, value)
            }
            Token::Scalar => self.value(text),
        }
    }

    #[cold]
    fn other_pair(&mut self, text: &[u8]) -> Option<()> {
        match token::split(text)? {
            Token::Pair(key, value) => self.pair(key, value),
            Token::Scalar => None,
        }
    }

    #[inline]
    fn pair(&mut self, key: Text<'_>, value: &[u8]) -> Option<()> {
        if self.collector.is_relevant() {
            self.collector.scalar(Scalar::text(key.verbatim()?));
        }
        let value = value.get(token::indent(value)..)?;
        if value.is_empty() {
            self.state = State::Key;
            return Some(());
        }
        self.value(value)
    }

    #[inline]
    fn value(&mut self, text: &[u8]) -> Option<()> {
        self.state = State::Complete;
        let is_relevant = self.collector.is_relevant();
        match text.first()? {
            quote @ (b'"' | b'\'') => match token::quoted(text.get(1..)?, *quote)? {
                Quoted::Terminated(text, rest) => {
                    token::is_blank(rest).then_some(())?;
                    self.quoted(text)?;
                }
                Quoted::Unterminated if is_relevant => return None,
                Quoted::Unterminated => self.state = State::Quoted(*quote),
            },
            b'[' | b'{' => {
                let collection = match text.trim_ascii_end() {
                    b"[]" => Collection::Sequence,
                    b"{}" => Collection::Mapping,
                    _ => return None,
                };
                self.collector.open(collection);
                self.collector.close();
            }
            b'|' | b'>' => {
                self.state = State::Block(Block::parse(text, self.indent()?)?);
                (!is_relevant).then_some(())?;
                self.collector.skip();
            }
            _ => {
                (token::starts_plain(text) && token::is_plain_text(text)).then_some(())?;
                if is_relevant {
                    let text = std::str::from_utf8(text.trim_ascii_end()).ok()?;
                    text.clone_into(&mut self.held);
                    self.state = State::Held;
                } else {
                    self.collector.skip();
                    self.state = State::Plain;
                }
            }
        }
        Some(())
    }

    fn quoted(&mut self, text: Text<'_>) -> Option<()> {
        if self.collector.is_relevant() {
            self.collector.scalar(Scalar::text(text.verbatim()?));
        } else {
            self.collector.skip();
        }
        Some(())
    }

    fn continue_quoted(&mut self, quote: u8, indent: usize, line: &[u8], text: &[u8]) -> Option<()> {
        (text.is_empty() || indent > self.indent()?).then_some(())?;
        if let Quoted::Terminated(_, rest) = token::quoted(text, quote)? {
            token::is_blank(rest).then_some(())?;
            self.collector.skip();
            self.state = State::Complete;
        }
        self.skip_line(line)
    }
}

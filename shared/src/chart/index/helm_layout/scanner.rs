//! What the lines of Helm's layout are, one after the other.

use super::super::collect::{Collection, Collector};
use super::super::scalar::Scalar;
use super::token::{self, Block, Quoted, Text, Token};

/// How many collections may be nested. The general reader allows 255, Helm's indexes have six.
const MAX_DEPTH: usize = 64;

/// How many bytes may pass without a node that begins. The general reader allows four times as many.
const MAX_QUIET: usize = super::super::MAX_QUIET / 4;

/// Takes the lines. `None` from any of its functions means that it gives up.
pub(super) struct Scanner<'c, 'w> {
    collector: &'c mut Collector<'w>,
    levels: Vec<Level>,
    state: State,
    /// A plain scalar that matters; it is complete when the next line does not continue it.
    held: String,
    quiet: usize,
}

/// A collection that is open, and the column of its keys or dashes.
#[derive(Clone, Copy)]
struct Level {
    indent: usize,
    what: Collection,
}

/// What the lines so far leave open.
#[derive(Clone, Copy)]
enum State {
    Start,
    /// Nothing.
    Settled,
    /// A key is without its value.
    Key,
    /// A plain scalar may go on, and does not matter.
    Plain,
    /// A plain scalar may go on, and is held.
    Held,
    /// A quoted scalar that does not matter goes on.
    Quoted(u8),
    /// A block scalar that does not matter goes on.
    Block(Block),
}

impl<'c, 'w> Scanner<'c, 'w> {
    pub(super) fn new(collector: &'c mut Collector<'w>) -> Self {
        Self {
            collector,
            levels: Vec::with_capacity(MAX_DEPTH),
            state: State::Start,
            held: String::new(),
            quiet: 0,
        }
    }

    #[inline]
    pub(super) fn line(&mut self, line: &[u8]) -> Option<()> {
        let indent = token::indent(line);
        let text = line.get(indent..)?;
        match self.state {
            State::Block(mut block) => {
                if block.take(indent, text, self.indent()?)? {
                    self.state = State::Block(block);
                    return self.pass_line(line);
                }
                self.state = State::Settled;
            }
            State::Quoted(quote) => return self.quoted_goes_on(quote, indent, line, text),
            State::Start | State::Settled | State::Key | State::Plain | State::Held => {}
        }
        match text.first() {
            None => self.pass_line(line),
            Some(b'#') => {
                self.end_plain();
                self.pass_line(line)
            }
            Some(_) => match self.state {
                State::Plain if indent > self.indent()? => {
                    token::is_plain_text(text).then_some(())?;
                    self.pass_line(line)
                }
                State::Held if indent > self.indent()? => None,
                _ => {
                    self.quiet = 0;
                    self.node(indent, text)
                }
            },
        }
    }

    /// The end of the document.
    pub(super) fn end(&mut self) -> Option<()> {
        match self.state {
            State::Start | State::Quoted(_) => return None,
            State::Key => self.collector.scalar(Scalar::NULL),
            State::Settled | State::Plain | State::Held | State::Block(_) => self.end_plain(),
        }
        for _ in self.levels.drain(..) {
            self.collector.close();
        }
        Some(())
    }

    /// A line without a node: blank, a comment, or more of a scalar.
    fn pass_line(&mut self, line: &[u8]) -> Option<()> {
        self.quiet += line.len() + 1;
        (self.quiet <= MAX_QUIET).then_some(())
    }

    fn end_plain(&mut self) {
        match self.state {
            State::Held => self.collector.scalar(Scalar::plain(&self.held)),
            State::Plain => {}
            State::Start | State::Settled | State::Key | State::Quoted(_) | State::Block(_) => return,
        }
        self.state = State::Settled;
    }

    fn indent(&self) -> Option<usize> {
        self.levels.last().map(|level| level.indent)
    }

    fn push(&mut self, indent: usize, what: Collection) -> Option<()> {
        (self.levels.len() < MAX_DEPTH).then_some(())?;
        self.levels.push(Level { indent, what });
        self.collector.open(what);
        Some(())
    }

    /// A line with a key or an item.
    #[inline]
    fn node(&mut self, indent: usize, text: &[u8]) -> Option<()> {
        if indent == 0 && matches!(text, [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..]) {
            let begins = matches!(self.state, State::Start) && text == b"---";
            self.state = State::Settled;
            return begins.then_some(());
        }
        let what = if token::is_item(text) {
            Collection::Sequence
        } else {
            Collection::Mapping
        };
        // Most lines are in the same collection as the line before.
        let is_next = matches!(self.state, State::Settled | State::Plain)
            && self
                .levels
                .last()
                .is_some_and(|top| top.indent == indent && top.what == what);
        if !is_next {
            self.settle(indent, what)?;
        }
        match what {
            Collection::Sequence => self.item(indent, text),
            Collection::Mapping => match token::usual_key(text) {
                Some((key, value)) => self.pair(key, value),
                None => self.unusual_pair(text),
            },
        }
    }

    /// Opens or closes collections, so that the innermost is the one that this line belongs to.
    fn settle(&mut self, indent: usize, what: Collection) -> Option<()> {
        let Some(top) = self.levels.last() else {
            (indent == 0 && what == Collection::Mapping).then_some(())?;
            self.state = State::Settled;
            return self.push(indent, what);
        };
        if matches!(self.state, State::Key) {
            self.state = State::Settled;
            // The dashes of a key's list may stand in the key's own column.
            if indent > top.indent || (indent == top.indent && what == Collection::Sequence) {
                return self.push(indent, what);
            }
            self.collector.scalar(Scalar::NULL);
        }
        self.end_plain();
        while let Some(top) = self.levels.last() {
            let is_done = top.indent > indent
                || (top.indent == indent && (top.what, what) == (Collection::Sequence, Collection::Mapping));
            if !is_done {
                return (top.indent == indent && top.what == what).then_some(());
            }
            self.levels.pop();
            self.collector.close();
        }
        None
    }

    fn item(&mut self, indent: usize, text: &[u8]) -> Option<()> {
        let behind = text.get(1..)?;
        let gap = token::indent(behind);
        let text = behind.get(gap..)?;
        let indent = indent + 1 + gap;
        if let Some((key, value)) = token::usual_key(text) {
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
    fn unusual_pair(&mut self, text: &[u8]) -> Option<()> {
        match token::split(text)? {
            Token::Pair(key, value) => self.pair(key, value),
            Token::Scalar => None,
        }
    }

    #[inline]
    fn pair(&mut self, key: Text<'_>, value: &[u8]) -> Option<()> {
        if self.collector.listens() {
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
        self.state = State::Settled;
        let listens = self.collector.listens();
        match text.first()? {
            quote @ (b'"' | b'\'') => match token::quoted(text.get(1..)?, *quote)? {
                Quoted::Ends(text, rest) => {
                    token::is_blank(rest).then_some(())?;
                    self.quoted(text)?;
                }
                Quoted::GoesOn if listens => return None,
                Quoted::GoesOn => self.state = State::Quoted(*quote),
            },
            b'[' | b'{' => {
                let what = match text.trim_ascii_end() {
                    b"[]" => Collection::Sequence,
                    b"{}" => Collection::Mapping,
                    _ => return None,
                };
                self.collector.open(what);
                self.collector.close();
            }
            b'|' | b'>' => {
                self.state = State::Block(Block::begin(text, self.indent()?)?);
                (!listens).then_some(())?;
                self.collector.pass();
            }
            _ => {
                (token::begins_plain(text) && token::is_plain_text(text)).then_some(())?;
                if listens {
                    let text = std::str::from_utf8(text.trim_ascii_end()).ok()?;
                    text.clone_into(&mut self.held);
                    self.state = State::Held;
                } else {
                    self.collector.pass();
                    self.state = State::Plain;
                }
            }
        }
        Some(())
    }

    fn quoted(&mut self, text: Text<'_>) -> Option<()> {
        if self.collector.listens() {
            self.collector.scalar(Scalar::text(text.verbatim()?));
        } else {
            self.collector.pass();
        }
        Some(())
    }

    fn quoted_goes_on(&mut self, quote: u8, indent: usize, line: &[u8], text: &[u8]) -> Option<()> {
        (text.is_empty() || indent > self.indent()?).then_some(())?;
        if let Quoted::Ends(_, rest) = token::quoted(text, quote)? {
            token::is_blank(rest).then_some(())?;
            self.collector.pass();
            self.state = State::Settled;
        }
        self.pass_line(line)
    }
}

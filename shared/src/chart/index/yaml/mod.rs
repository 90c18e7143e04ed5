//! The general reader: any YAML, event by event.

mod anchors;
mod chars;

use std::io::Read;
use std::rc::Rc;

use granit_parser::{BufferedInput, ErrorKind, Event, Parser, ScalarStyle, ScanError, Tag};

use super::collect::{Collection, Collector};
use super::error::IndexError;
use super::scalar::{Meaning, Scalar, Style};
use super::source::Source;
use anchors::{Anchors, Node};
use chars::{Chars, Feed};

/// How many nodes aliases may stand for: some 5,000 entries. Helm has a limit for it, too.
const MAX_REPEATED: usize = 100_000;

/// Reads the document to its end.
pub(super) fn read<R: Read>(source: Source<R>, collector: &mut Collector<'_>) -> Result<(), IndexError> {
    let feed = Rc::new(Feed::default());
    let chars = Chars::new(source, Rc::clone(&feed));
    let mut options = granit_parser::options! {};
    options.set_emit_comments(false);
    let mut events = Events {
        parser: Parser::new_from_iter_with_options(chars, options),
        feed,
        anchors: Anchors::default(),
        is_first: true,
        repeated: 0,
    };
    while let Some(node) = events.next()? {
        match node {
            Node::Scalar(text, style) => collector.scalar(Scalar { text: &text, style }),
            Node::Open(what) => collector.open(what),
            Node::Close => collector.close(),
            Node::Alias(id) if collector.listens() => events.anchors.repeat(id)?,
            Node::Alias(_) => collector.pass(),
        }
    }
    Ok(())
}

/// The nodes of the first document, with what aliases stand for in between.
struct Events<R: Read> {
    parser: Parser<'static, BufferedInput<Chars<R>>>,
    feed: Rc<Feed>,
    anchors: Anchors,
    /// Whether the first document has not ended.
    is_first: bool,
    repeated: usize,
}

impl<R: Read> Events<R> {
    fn next(&mut self) -> Result<Option<Node>, IndexError> {
        if let Some(node) = self.anchors.repeated() {
            self.repeated += 1;
            if self.repeated > MAX_REPEATED {
                return Err(IndexError::TooManyAliases);
            }
            return Ok(Some(node));
        }
        loop {
            let (node, anchor) = match self.event()? {
                Event::Scalar(text, style, anchor, tag) => {
                    let style = style_of(&text, style, tag.as_deref());
                    (Node::Scalar(text, style), anchor)
                }
                Event::MappingStart(_, anchor, _) => (Node::Open(Collection::Mapping), anchor),
                Event::SequenceStart(_, anchor, _) => (Node::Open(Collection::Sequence), anchor),
                Event::MappingEnd | Event::SequenceEnd => (Node::Close, 0),
                Event::Alias(id) => (Node::Alias(id), 0),
                Event::StreamEnd => return Ok(None),
                Event::DocumentEnd => {
                    self.is_first = false;
                    continue;
                }
                _ => continue,
            };
            if self.is_first {
                self.anchors.record(&node, anchor);
                return Ok(Some(node));
            }
        }
    }

    fn event(&mut self) -> Result<Event<'static>, IndexError> {
        let event = self.parser.next_event();
        // The parser takes a fault of the input for the end of the document.
        if let Some(fault) = self.feed.fault() {
            return Err(fault);
        }
        self.feed.note_event();
        match event {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(self.explain(&error)),
            None => Ok(Event::StreamEnd),
        }
    }

    fn explain(&self, error: &ScanError) -> IndexError {
        let place = error.marker();
        let told = format!(
            "line {}, column {}: {}",
            place.line(),
            place.col() + 1,
            error.info()
        );
        match error.kind() {
            ErrorKind::UnclosedQuotedScalar
            | ErrorKind::UnclosedFlowCollection { .. }
            | ErrorKind::UnexpectedEof
            | ErrorKind::UnexpectedEofFlowSequence
            | ErrorKind::UnexpectedEofFlowMapping
            | ErrorKind::UnexpectedEofImplicitFlowMapping
            | ErrorKind::UnexpectedEofBlockSequence
            | ErrorKind::UnexpectedEofBlockMapping => IndexError::CutOff(told),
            // The last line is the beginning of a key.
            ErrorKind::SimpleKeyExpected if self.feed.has_ended() => IndexError::CutOff(told),
            // So is a line break in a quoted text.
            ErrorKind::InvalidQuotedScalarIndent if self.feed.ends_at(place.index()) => {
                IndexError::CutOff(told)
            }
            _ => IndexError::Malformed(told),
        }
    }
}

/// What tag and quotes say of a scalar.
fn style_of(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Style {
    let plain = match tag {
        None if style == ScalarStyle::Plain => return Style::Plain,
        None => return Style::Is(Meaning::Text),
        // `!` alone: as if there were neither tag nor quotes.
        Some(tag) if tag.handle().is_empty() && tag.suffix() == "!" => return Style::Plain,
        Some(_) => Scalar::plain(text).meaning(),
    };
    match tag
        .and_then(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:"))
        .as_deref()
    {
        Some("null") => Style::Is(Meaning::Null),
        Some("merge") => Style::Plain,
        Some("bool") => Style::Is(match plain {
            Meaning::Bool(value) => Meaning::Bool(value),
            Meaning::Null | Meaning::Text | Meaning::Other => Meaning::Other,
        }),
        Some("int" | "float" | "binary") => Style::Is(Meaning::Other),
        _ => Style::Is(Meaning::Text),
    }
}

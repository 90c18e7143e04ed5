//! The general reader: parses any YAML, event by event.

mod anchors;
mod chars;

use std::io::Read;
use std::rc::Rc;

use granit_parser::{BufferedInput, ErrorKind, Event, Parser, ScalarStyle, ScanError, Tag};

use super::collect::{Collection, Collector};
use super::error::IndexError;
use super::scalar::{Scalar, ScalarType, Style};
use super::source::Source;
use anchors::{Anchors, Node};
use chars::{Chars, InputState};

/// How many nodes aliases may repeat: some 5,000 entries. Helm has a limit, too.
const MAX_REPEATED: usize = 100_000;

/// Reads the document to its end.
pub(super) fn read<R: Read>(source: Source<R>, collector: &mut Collector<'_>) -> Result<(), IndexError> {
    let state = Rc::new(InputState::default());
    let chars = Chars::new(source, Rc::clone(&state));
    let mut options = granit_parser::options! {};
    options.set_emit_comments(false);
    let mut events = Events {
        parser: Parser::new_from_iter_with_options(chars, options),
        state,
        anchors: Anchors::default(),
        is_first: true,
        repeated: 0,
    };
    while let Some(node) = events.next()? {
        match node {
            Node::Scalar(text, style) => collector.scalar(Scalar { text: &text, style }),
            Node::Open(collection) => collector.open(collection),
            Node::Close => collector.close(),
            Node::Alias(id) if collector.is_relevant() => events.anchors.repeat(id)?,
            Node::Alias(_) => collector.skip(),
        }
    }
    Ok(())
}

/// The nodes of the first document, with aliases expanded.
struct Events<R: Read> {
    parser: Parser<'static, BufferedInput<Chars<R>>>,
    state: Rc<InputState>,
    anchors: Anchors,
    /// Whether the current document is the first one.
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
        // To the parser, an error of the input is the end of the document.
        if let Some(error) = self.state.take_error() {
            return Err(error);
        }
        self.state.note_event();
        match event {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(self.index_error(&error)),
            None => Ok(Event::StreamEnd),
        }
    }

    fn index_error(&self, error: &ScanError) -> IndexError {
        let position = error.marker();
        let message = format!(
            "line {}, column {}: {}",
            position.line(),
            position.col() + 1,
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
            | ErrorKind::UnexpectedEofBlockMapping => IndexError::CutOff(message),
            // The last line is an incomplete key.
            ErrorKind::SimpleKeyExpected if self.state.has_ended() => IndexError::CutOff(message),
            // The document ends after a line break in a quoted text.
            ErrorKind::InvalidQuotedScalarIndent if self.state.ends_at(position.index()) => {
                IndexError::CutOff(message)
            }
            _ => IndexError::Malformed(message),
        }
    }
}

/// The style of a scalar, from its tag and quotes.
fn style_of(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Style {
    let plain = match tag {
        None if style == ScalarStyle::Plain => return Style::Plain,
        None => return Style::Is(ScalarType::Text),
        // `!` alone: the same as without tag and quotes.
        Some(tag) if tag.handle().is_empty() && tag.suffix() == "!" => return Style::Plain,
        Some(_) => Scalar::plain(text).scalar_type(),
    };
    match tag
        .and_then(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:"))
        .as_deref()
    {
        Some("null") => Style::Is(ScalarType::Null),
        Some("merge") => Style::Plain,
        Some("bool") => Style::Is(match plain {
            ScalarType::Bool(value) => ScalarType::Bool(value),
            ScalarType::Null | ScalarType::Text | ScalarType::Other => ScalarType::Other,
        }),
        Some("int" | "float" | "binary") => Style::Is(ScalarType::Other),
        _ => Style::Is(ScalarType::Text),
    }
}

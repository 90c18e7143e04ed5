//! From tokens to events.

use std::borrow::Cow;

use super::{
    Event, EventKind, Scalar, SyntaxError,
    scanner::{Scanner, TagText, Token, TokenKind},
};
use crate::yaml::place::Span;

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FirstDocument,
    NextDocument,
    DocumentContent,
    DocumentEnd,
    Block,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingKey,
    BlockMappingValue,
    FirstFlowSequenceEntry,
    FlowSequenceEntry,
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FirstFlowMappingKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

/// What may be a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeContext {
    Flow,
    Block,
    /// Also a list whose items are not indented.
    BlockOrIndentlessSequence,
}

/// Makes events.
#[derive(Debug)]
pub struct Parser<'t> {
    scanner: Scanner<'t>,
    state: State,
    states: Vec<State>,
    /// What the handles of tags stand for in this document.
    prefixes: Vec<(&'t str, Cow<'t, str>)>,
    is_checked: bool,
}

type Result<'t> = std::result::Result<Event<'t>, SyntaxError>;

impl<'t> Parser<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            scanner: Scanner::new(text),
            state: State::FirstDocument,
            states: Vec::new(),
            prefixes: Vec::new(),
            is_checked: false,
        }
    }

    /// The next event. After the end it is always the same.
    pub fn next(&mut self) -> Result<'t> {
        if !self.is_checked {
            self.scanner.check_characters()?;
            self.is_checked = true;
        }
        match self.state {
            State::FirstDocument => self.document_start(true),
            State::NextDocument => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::Block => self.node(NodeContext::Block),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FirstFlowSequenceEntry => self.flow_sequence_entry(true),
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_value(&TokenKind::FlowSequenceEnd, State::FlowPairEnd),
            State::FlowPairEnd => {
                let start = self.scanner.peek()?.span.start;
                self.state = State::FlowSequenceEntry;
                Ok(event(EventKind::MappingEnd, Span { start, end: start }))
            }
            State::FirstFlowMappingKey => self.flow_mapping_key(true),
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_value(&TokenKind::FlowMappingEnd, State::FlowMappingKey),
            State::FlowMappingEmptyValue => {
                let at = self.scanner.peek()?.span.start;
                self.state = State::FlowMappingKey;
                Ok(empty(at))
            }
            State::End => Ok(event(EventKind::StreamEnd, self.scanner.peek()?.span)),
        }
    }

    fn kind(&mut self) -> std::result::Result<&TokenKind<'t>, SyntaxError> {
        Ok(&self.scanner.peek()?.kind)
    }

    /// Returns to the state after the current node or collection.
    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn error<T>(&mut self, message: &'static str) -> std::result::Result<T, SyntaxError> {
        let token = self.scanner.peek()?;
        Err(SyntaxError {
            message,
            at: token.span.start,
            line: token.line,
        })
    }

    /// Takes the next token as an event.
    fn taken(&mut self, kind: EventKind<'t>) -> Result<'t> {
        let span = self.scanner.peek()?.span;
        self.scanner.take();
        Ok(event(kind, span))
    }

    fn document_start(&mut self, is_first: bool) -> Result<'t> {
        while !is_first && matches!(self.kind()?, TokenKind::DocumentEnd) {
            self.scanner.take();
        }
        let span = self.scanner.peek()?.span;
        match self.kind()? {
            TokenKind::StreamEnd => {
                self.state = State::End;
                Ok(event(EventKind::StreamEnd, span))
            }
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart => {
                self.directives()?;
                if !matches!(self.kind()?, TokenKind::DocumentStart) {
                    return self.error("did not find expected <document start>");
                }
                self.states.push(State::DocumentEnd);
                self.state = State::DocumentContent;
                self.taken(EventKind::DocumentStart)
            }
            // Only the first document needs no `---`.
            _ if !is_first => self.error("did not find expected <document start>"),
            _ => {
                self.directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::Block;
                Ok(event(EventKind::DocumentStart, span))
            }
        }
    }

    fn directives(&mut self) -> std::result::Result<(), SyntaxError> {
        let mut has_version = false;
        loop {
            match self.scanner.peek()?.kind.clone() {
                TokenKind::VersionDirective { .. } if has_version => {
                    return self.error("found duplicate %YAML directive");
                }
                TokenKind::VersionDirective { is_1_1: false } => {
                    return self.error("found incompatible YAML document: only version 1.1 is read");
                }
                TokenKind::VersionDirective { .. } => has_version = true,
                TokenKind::TagDirective { handle, prefix } => {
                    if self.prefix(handle).is_some() {
                        return self.error("found duplicate %TAG directive");
                    }
                    self.prefixes.push((handle, prefix));
                }
                _ => break,
            }
            self.scanner.take();
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if self.prefix(handle).is_none() {
                self.prefixes.push((handle, Cow::Borrowed(prefix)));
            }
        }
        Ok(())
    }

    fn prefix(&self, handle: &str) -> Option<&Cow<'t, str>> {
        let found = self.prefixes.iter().find(|(known, _)| *known == handle);
        found.map(|(_, prefix)| prefix)
    }

    fn document_content(&mut self) -> Result<'t> {
        let token = self.scanner.peek()?;
        if matches!(
            token.kind,
            TokenKind::VersionDirective { .. }
                | TokenKind::TagDirective { .. }
                | TokenKind::DocumentStart
                | TokenKind::DocumentEnd
                | TokenKind::StreamEnd
        ) {
            let at = token.span.start;
            self.pop();
            return Ok(empty(at));
        }
        self.node(NodeContext::Block)
    }

    fn document_end(&mut self) -> Result<'t> {
        self.prefixes.clear();
        self.state = State::NextDocument;
        let token = self.scanner.peek()?;
        if matches!(token.kind, TokenKind::DocumentEnd) {
            return self.taken(EventKind::DocumentEnd);
        }
        let start = token.span.start;
        Ok(event(EventKind::DocumentEnd, Span { start, end: start }))
    }

    fn node(&mut self, context: NodeContext) -> Result<'t> {
        if let TokenKind::Alias(name) = *self.kind()? {
            self.pop();
            return self.taken(EventKind::Alias(name));
        }
        let start = self.scanner.peek()?.span.start;
        let properties = self.properties()?;
        let token = self.scanner.peek()?;
        let (has_properties, anchor) = (
            properties.is_some(),
            properties.as_ref().and_then(|all| all.anchor),
        );
        let start = if has_properties { start } else { token.span.start };
        let span = Span {
            start,
            end: token.span.end,
        };
        let is_block = context != NodeContext::Flow;
        let (state, kind) = match token.kind {
            TokenKind::BlockEntry if context == NodeContext::BlockOrIndentlessSequence => {
                self.state = State::IndentlessSequenceEntry;
                return Ok(event(EventKind::SequenceStart(anchor), span));
            }
            TokenKind::Scalar { .. } => return self.scalar(properties.unwrap_or_default(), span),
            TokenKind::FlowSequenceStart => (State::FirstFlowSequenceEntry, EventKind::SequenceStart(anchor)),
            TokenKind::FlowMappingStart => (State::FirstFlowMappingKey, EventKind::MappingStart(anchor)),
            TokenKind::BlockSequenceStart if is_block => {
                (State::BlockSequenceEntry, EventKind::SequenceStart(anchor))
            }
            TokenKind::BlockMappingStart if is_block => {
                (State::BlockMappingKey, EventKind::MappingStart(anchor))
            }
            _ => match properties {
                Some(properties) => {
                    self.pop();
                    let end = properties.end;
                    let scalar = properties.scalar(Cow::Borrowed(""), true);
                    return Ok(event(EventKind::Scalar(scalar), Span { start, end }));
                }
                None => {
                    return self.error(if is_block {
                        "while parsing a block node, did not find expected node content"
                    } else {
                        "while parsing a flow node, did not find expected node content"
                    });
                }
            },
        };
        self.state = state;
        self.scanner.take();
        Ok(event(kind, span))
    }

    fn scalar(&mut self, properties: Properties<'t>, span: Span) -> Result<'t> {
        self.pop();
        match self.scanner.take() {
            Some(Token {
                kind: TokenKind::Scalar { text, is_plain },
                ..
            }) => Ok(event(EventKind::Scalar(properties.scalar(text, is_plain)), span)),
            _ => self.error("did not find expected node content"),
        }
    }

    /// An anchor and a tag, in any order.
    fn properties(&mut self) -> std::result::Result<Option<Properties<'t>>, SyntaxError> {
        let mut found: Option<Properties<'t>> = None;
        loop {
            let token = self.scanner.peek()?;
            let end = token.span.end;
            let properties = found.get_or_insert_default();
            match &token.kind {
                TokenKind::Anchor(name) if properties.anchor.is_none() => properties.anchor = Some(*name),
                TokenKind::Tag(tag) if properties.tag.is_none() => {
                    let tag = tag.clone();
                    properties.tag = Some(self.tag(tag)?);
                }
                _ => break,
            }
            properties.end = end;
            self.scanner.take();
        }
        Ok(found.filter(|properties| properties.anchor.is_some() || properties.tag.is_some()))
    }

    fn tag(&mut self, tag: TagText<'t>) -> std::result::Result<Cow<'t, str>, SyntaxError> {
        if tag.handle.is_empty() {
            return Ok(tag.suffix);
        }
        match self.prefix(tag.handle) {
            Some(prefix) => Ok(Cow::Owned([prefix.as_ref(), tag.suffix.as_ref()].concat())),
            None => self.error("while parsing a node, found undefined tag handle"),
        }
    }

    fn block_sequence_entry(&mut self) -> Result<'t> {
        let token = self.scanner.peek()?;
        let end = token.span.end;
        match token.kind {
            TokenKind::BlockEntry => {
                self.scanner.take();
                if matches!(self.kind()?, TokenKind::BlockEntry | TokenKind::BlockEnd) {
                    self.state = State::BlockSequenceEntry;
                    return Ok(empty(end));
                }
                self.states.push(State::BlockSequenceEntry);
                self.node(NodeContext::Block)
            }
            TokenKind::BlockEnd => {
                self.pop();
                self.taken(EventKind::SequenceEnd)
            }
            _ => self.error("while parsing a block collection, did not find expected '-' indicator"),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Result<'t> {
        let token = self.scanner.peek()?;
        let Span { start, end } = token.span;
        if !matches!(token.kind, TokenKind::BlockEntry) {
            self.pop();
            return Ok(event(EventKind::SequenceEnd, Span { start, end: start }));
        }
        self.scanner.take();
        if matches!(
            self.kind()?,
            TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
        ) {
            self.state = State::IndentlessSequenceEntry;
            return Ok(empty(end));
        }
        self.states.push(State::IndentlessSequenceEntry);
        self.node(NodeContext::Block)
    }

    fn block_mapping_key(&mut self) -> Result<'t> {
        let token = self.scanner.peek()?;
        let end = token.span.end;
        match token.kind {
            TokenKind::Key => {
                self.scanner.take();
                self.block_mapping_node(end, State::BlockMappingValue)
            }
            TokenKind::BlockEnd => {
                self.pop();
                self.taken(EventKind::MappingEnd)
            }
            _ => self.error("while parsing a block mapping, did not find expected key"),
        }
    }

    fn block_mapping_value(&mut self) -> Result<'t> {
        let token = self.scanner.peek()?;
        let Span { start, end } = token.span;
        if matches!(token.kind, TokenKind::Value) {
            self.scanner.take();
            return self.block_mapping_node(end, State::BlockMappingKey);
        }
        self.state = State::BlockMappingKey;
        Ok(empty(start))
    }

    /// A key or a value, which may be left out.
    fn block_mapping_node(&mut self, end: usize, next: State) -> Result<'t> {
        if matches!(
            self.kind()?,
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
        ) {
            self.state = next;
            return Ok(empty(end));
        }
        self.states.push(next);
        self.node(NodeContext::BlockOrIndentlessSequence)
    }

    fn flow_sequence_entry(&mut self, is_first: bool) -> Result<'t> {
        if !is_first {
            let missing = "while parsing a flow sequence, did not find expected ',' or ']'";
            self.flow_separator(&TokenKind::FlowSequenceEnd, missing)?;
        }
        match self.kind()? {
            TokenKind::FlowSequenceEnd => {
                self.pop();
                self.taken(EventKind::SequenceEnd)
            }
            TokenKind::Key => {
                self.state = State::FlowPairKey;
                self.taken(EventKind::MappingStart(None))
            }
            _ => {
                self.states.push(State::FlowSequenceEntry);
                self.node(NodeContext::Flow)
            }
        }
    }

    fn flow_pair_key(&mut self) -> Result<'t> {
        let token = self.scanner.peek()?;
        if matches!(
            token.kind,
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd
        ) {
            let end = token.span.end;
            self.scanner.take();
            self.state = State::FlowPairValue;
            return Ok(empty(end));
        }
        self.states.push(State::FlowPairValue);
        self.node(NodeContext::Flow)
    }

    fn flow_mapping_key(&mut self, is_first: bool) -> Result<'t> {
        if !is_first {
            let missing = "while parsing a flow mapping, did not find expected ',' or '}'";
            self.flow_separator(&TokenKind::FlowMappingEnd, missing)?;
        }
        match self.kind()? {
            TokenKind::FlowMappingEnd => {
                self.pop();
                self.taken(EventKind::MappingEnd)
            }
            TokenKind::Key => {
                self.scanner.take();
                let token = self.scanner.peek()?;
                if matches!(
                    token.kind,
                    TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd
                ) {
                    let at = token.span.start;
                    self.state = State::FlowMappingValue;
                    return Ok(empty(at));
                }
                self.states.push(State::FlowMappingValue);
                self.node(NodeContext::Flow)
            }
            _ => {
                self.states.push(State::FlowMappingEmptyValue);
                self.node(NodeContext::Flow)
            }
        }
    }

    /// A comma, or the end of the collection, which stays.
    fn flow_separator(
        &mut self,
        end: &TokenKind<'t>,
        missing: &'static str,
    ) -> std::result::Result<(), SyntaxError> {
        match self.kind()? {
            TokenKind::FlowEntry => {
                self.scanner.take();
                Ok(())
            }
            kind if kind == end => Ok(()),
            _ => self.error(missing),
        }
    }

    /// A value in a collection with this end, which may be left out.
    fn flow_value(&mut self, end: &TokenKind<'t>, next: State) -> Result<'t> {
        if matches!(self.kind()?, TokenKind::Value) {
            self.scanner.take();
            let kind = self.kind()?;
            if !(matches!(kind, TokenKind::FlowEntry) || kind == end) {
                self.states.push(next);
                return self.node(NodeContext::Flow);
            }
        }
        let at = self.scanner.peek()?.span.start;
        self.state = next;
        Ok(empty(at))
    }
}

/// What precedes a node.
#[derive(Debug, Default)]
struct Properties<'t> {
    anchor: Option<&'t str>,
    tag: Option<Cow<'t, str>>,
    end: usize,
}

impl<'t> Properties<'t> {
    fn scalar(self, text: Cow<'t, str>, is_plain: bool) -> Scalar<'t> {
        Scalar {
            text,
            anchor: self.anchor,
            tag: self.tag,
            is_plain,
        }
    }
}

const fn event(kind: EventKind<'_>, span: Span) -> Event<'_> {
    Event { kind, span }
}

/// A node that is left out.
fn empty<'t>(at: usize) -> Event<'t> {
    let scalar = Scalar {
        is_plain: true,
        ..Scalar::default()
    };
    event(EventKind::Scalar(scalar), Span { start: at, end: at })
}

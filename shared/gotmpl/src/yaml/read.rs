//! The reader.

use std::{collections::BTreeMap, rc::Rc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use granit_parser::{Event, Marker, Parser, ScalarStyle, StrInput, Tag};
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::{
    place::{Place, Span, Track},
    resolve::{Resolved, resolve},
};
use crate::{budget::MAX_TEXT, go_json, number};

/// Maximum number of nodes of all texts together, with aliases expanded; the content of lists and mappings counts again at
/// each level. This is about 20 MB in memory.
const MAX_NODES: usize = 200_000;
/// How deep a document may nest. The parser has its own limit, but aliases nest deeper.
const MAX_DEPTH: usize = 100;
/// How deep a whole object may nest, of which such a document is a part: what `serde_json` decodes.
const MAX_OBJECT_DEPTH: usize = 126;
/// Maximum bytes of all scalars together, with aliases expanded. An anchor keeps a copy, which counts too.
const MAX_BYTES: usize = 2 * MAX_TEXT;

/// What remains for texts whose content is in memory at the same time: 200,000 nodes, and 4 MiB of scalars, with aliases expanded.
/// The default has all of it.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    nodes: usize,
    bytes: usize,
    max_nodes: usize,
    max_bytes: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self::new(MAX_NODES, MAX_BYTES)
    }
}

impl Quota {
    /// What is left of other limits: a number of nodes, and of bytes of scalars.
    pub const fn new(nodes: usize, bytes: usize) -> Self {
        Self {
            nodes,
            bytes,
            max_nodes: nodes,
            max_bytes: bytes,
        }
    }
}

/// Why a text cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// It is not YAML, or has no equivalent in JSON.
    #[error("{message}{}", in_line(*.line))]
    Invalid {
        /// What is wrong. It does not contain the text.
        message: String,
        /// The line of a syntax error, counted from 1.
        line: Option<usize>,
    },
    /// It has more nodes than the quota allows. The content of lists and mappings counts again at each level.
    #[error("more than {limit} nodes, with aliases expanded")]
    TooManyNodes {
        /// What an unused quota allows.
        limit: usize,
    },
    /// It has more scalars than the quota allows.
    #[error("more than {limit} bytes of scalars, with aliases expanded")]
    TooManyBytes {
        /// What an unused quota allows.
        limit: usize,
    },
}

fn in_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", in line {line}"))
}

fn invalid(message: impl Into<String>) -> ReadError {
    ReadError::Invalid {
        message: message.into(),
        line: None,
    }
}

/// Reads the first document of a text, with numbers as `float64`, and takes its size from `quota`. An empty text is `null`.
///
/// # Errors
/// If the text is not valid, nests more than 100 deep, or exceeds the quota.
pub fn read(text: &str, quota: &mut Quota) -> Result<Value, ReadError> {
    read_numbers(text, quota, Numbers::Float64)
}

/// Reads the first document of a text as [`read`] does, but an integer of 64 bits keeps its digits, as in Kubernetes' objects
/// (`Unstructured`).
///
/// # Errors
/// As [`read`].
pub fn read_exact(text: &str, quota: &mut Quota) -> Result<Value, ReadError> {
    read_numbers(text, quota, Numbers::Exact)
}

/// What becomes of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Float64,
    Exact,
}

fn read_numbers(text: &str, quota: &mut Quota, numbers: Numbers) -> Result<Value, ReadError> {
    let node = Reader::<()>::new(text, quota, numbers).document()?;
    Ok(node.map_or(Value::Null, |node| owned(node.value)))
}

/// The first document of a text, and where everything in it is.
#[derive(Clone, Debug)]
pub struct Located {
    /// Its value, as [`read_exact`] returns it.
    pub value: Value,
    /// Where the value and its parts are; `None` if the text is empty.
    pub place: Option<Place>,
    /// Where another document starts, which is ignored.
    pub ignored: Option<usize>,
}

/// Why a text cannot be read, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{error}")]
pub struct LocatedError {
    /// What is wrong.
    pub error: ReadError,
    /// Where: an offset in bytes, at most the length of the text.
    pub at: usize,
}

/// Reads the first document of a text as [`read_exact`] does, with the position of each key and value.
///
/// # Errors
/// As [`read`], with a position; but an object may nest 126 deep.
pub fn read_located(text: &str, quota: &mut Quota) -> Result<Located, LocatedError> {
    let mut reader = Reader::<Place>::new(text, quota, Numbers::Exact);
    reader.max_depth = MAX_OBJECT_DEPTH;
    let result = reader.document().and_then(|node| {
        let ignored = if node.is_some() { reader.following()? } else { None };
        Ok((node, ignored))
    });
    match result {
        Ok((Some(node), ignored)) => Ok(Located {
            value: owned(node.value),
            place: Some(node.place),
            ignored,
        }),
        Ok((None, _)) => Ok(Located {
            value: Value::Null,
            place: None,
            ignored: None,
        }),
        Err(error) => Err(LocatedError {
            error,
            at: reader.span.start.min(text.len()),
        }),
    }
}

/// A value, its size, its use as a key, and where it is.
#[derive(Clone)]
struct Node<P> {
    value: Rc<Value>,
    place: P,
    nodes: usize,
    bytes: usize,
    depth: usize,
    /// The value as a key, or why it cannot be one.
    key: Result<Rc<str>, &'static str>,
    is_merge: bool,
}

/// Positions are recorded as `P`: with `()` none are.
struct Reader<'t, 'r, P> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, Node<P>>,
    quota: &'r mut Quota,
    numbers: Numbers,
    max_depth: usize,
    /// Where the last event or syntax error is.
    span: Span,
}

impl<'t, 'r, P: Track> Reader<'t, 'r, P> {
    fn new(text: &'t str, quota: &'r mut Quota, numbers: Numbers) -> Self {
        let mut options = granit_parser::options! {};
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_str_with_options(text, options),
            anchors: BTreeMap::new(),
            quota,
            numbers,
            max_depth: MAX_DEPTH,
            span: Span::default(),
        }
    }

    /// The first document; `None` if there is none.
    fn document(&mut self) -> Result<Option<Node<P>>, ReadError> {
        loop {
            match self.event()? {
                Event::StreamEnd => return Ok(None),
                Event::StreamStart | Event::DocumentStart(..) => {}
                event => {
                    let node = self.node(event, 0)?;
                    // A syntax error after the node makes the document invalid too.
                    self.event()?;
                    return Ok(Some(node));
                }
            }
        }
    }

    /// Where the next document starts, if there is one.
    fn following(&mut self) -> Result<Option<usize>, ReadError> {
        let is_end = matches!(self.event()?, Event::StreamEnd);
        Ok((!is_end).then_some(self.span.start))
    }

    fn event(&mut self) -> Result<Event<'t>, ReadError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.span = Span {
                    start: offset(span.start),
                    end: offset(span.end),
                };
                Ok(event)
            }
            Some(Err(error)) => {
                let position = error.marker();
                self.span = Span {
                    start: offset(*position),
                    end: offset(*position),
                };
                Err(ReadError::Invalid {
                    message: error.info(),
                    line: Some(position.line()),
                })
            }
            None => Ok(Event::StreamEnd),
        }
    }

    fn node(&mut self, event: Event<'t>, depth: usize) -> Result<Node<P>, ReadError> {
        if depth > self.max_depth {
            return Err(self.too_deep());
        }
        let is_counted = matches!(event, Event::Scalar(..) | Event::Alias(_));
        let span = self.span;
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = scalar(&text, style, tag.as_deref(), self.numbers)?;
                (node.at(P::scalar(span)), anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.sequence(span, depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(span, depth)?, anchor),
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) if node.depth + depth <= self.max_depth => {
                    let node = node.clone();
                    let place = node.place.clone().aliased(span);
                    (node.at(place), 0)
                }
                Some(_) => return Err(self.too_deep()),
                None => return Err(invalid("an alias refers to a node that contains it")),
            },
            _ => return Err(invalid("unexpected end of the document")),
        };
        let nodes = self.quota.nodes.checked_sub(node.nodes);
        self.quota.nodes = nodes.ok_or(ReadError::TooManyNodes {
            limit: self.quota.max_nodes,
        })?;
        let copies = usize::from(is_counted) + usize::from(anchor != 0);
        let bytes = node.bytes.saturating_mul(copies);
        let bytes = self.quota.bytes.checked_sub(bytes);
        self.quota.bytes = bytes.ok_or(ReadError::TooManyBytes {
            limit: self.quota.max_bytes,
        })?;
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn too_deep(&self) -> ReadError {
        invalid(format!("nests more than {} deep", self.max_depth))
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<Node<P>, ReadError> {
        let mut size = CollectionSize::default();
        let (mut items, mut places) = (Vec::new(), Vec::new());
        loop {
            match self.event()? {
                Event::SequenceEnd => {
                    let place = P::list(start.to(self.span), places);
                    return Ok(size.node(Value::Array(items)).at(place));
                }
                event => {
                    let item = self.node(event, depth + 1)?;
                    size.add(&item);
                    items.push(owned(item.value));
                    places.push(item.place);
                }
            }
        }
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<Node<P>, ReadError> {
        let mut size = CollectionSize::default();
        let (mut entries, mut merged) = (Map::new(), Map::new());
        let (mut places, mut merged_places) = (P::Entries::default(), P::Entries::default());
        loop {
            let event = self.event()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let at = self.span;
            let key = self.node(event, depth + 1)?;
            let name = if key.is_merge {
                None
            } else {
                Some(key.key.clone().map_err(|problem| {
                    self.span = at;
                    invalid(problem)
                })?)
            };
            let event = self.event()?;
            let value = self.node(event, depth + 1)?;
            size.add(&key);
            size.add(&value);
            if let Some(name) = name {
                entries.insert(name.to_string(), owned(value.value));
                P::insert(&mut places, &name, &key.place, value.place);
            } else {
                merge(&mut merged, &value.value)?;
                P::merge(&mut merged_places, &value.place);
            }
        }
        for (key, value) in merged {
            entries.entry(key).or_insert(value);
        }
        P::complete(&mut places, merged_places);
        let place = P::mapping(start.to(self.span), places);
        Ok(size.node(Value::Object(entries)).at(place))
    }
}

impl<Q> Node<Q> {
    fn at<P>(self, place: P) -> Node<P> {
        Node {
            value: self.value,
            place,
            nodes: self.nodes,
            bytes: self.bytes,
            depth: self.depth,
            key: self.key,
            is_merge: self.is_merge,
        }
    }
}

/// The parser counts bytes in texts.
fn offset(marker: Marker) -> usize {
    marker.byte_offset().unwrap_or_default()
}

/// The size of a collection.
#[derive(Default)]
struct CollectionSize {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

impl CollectionSize {
    fn add<P>(&mut self, node: &Node<P>) {
        self.depth = self.depth.max(node.depth + 1);
        // Already counted when it was read; aliases of the collection count it again.
        self.nodes = self.nodes.saturating_add(node.nodes);
        self.bytes = self.bytes.saturating_add(node.bytes);
    }

    fn node(self, value: Value) -> Node<()> {
        Node {
            value: Rc::new(value),
            place: (),
            nodes: self.nodes + 1,
            bytes: self.bytes,
            depth: self.depth,
            key: Err("a list or mapping cannot be a key"),
            is_merge: false,
        }
    }
}

fn owned(value: Rc<Value>) -> Value {
    Rc::try_unwrap(value).unwrap_or_else(|shared| (*shared).clone())
}

/// `<<: *other`: the entries of other mappings, of which the first one takes precedence.
fn merge(merged: &mut Map<String, Value>, value: &Value) -> Result<(), ReadError> {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                merged.entry(key.clone()).or_insert_with(|| value.clone());
            }
            Ok(())
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            items.iter().try_for_each(|item| merge(merged, item))
        }
        _ => Err(invalid("<< accepts only mappings")),
    }
}

fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    numbers: Numbers,
) -> Result<Node<()>, ReadError> {
    let suffix = tag.and_then(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:"));
    let is_plain = style == ScalarStyle::Plain;
    let resolved = match (tag, suffix.as_deref()) {
        (None, _) if is_plain => resolve(text),
        (None, _) | (Some(_), None | Some("str" | "timestamp")) => Resolved::Text,
        (Some(_), Some("binary")) => return binary(text),
        (Some(_), Some(name)) => tagged(text, name)?,
    };
    let is_merge = text == "<<" && is_plain && tag.is_none();
    Ok(Node {
        value: Rc::new(value(text, resolved, numbers)?),
        place: (),
        nodes: 1,
        bytes: text.len(),
        depth: 0,
        key: key(text, resolved),
        is_merge,
    })
}

fn tagged(text: &str, name: &str) -> Result<Resolved, ReadError> {
    let resolved = resolve(text);
    #[expect(clippy::cast_precision_loss, reason = "the tag requests a float")]
    match (name, resolved) {
        ("null", Resolved::Null) | ("bool", Resolved::Bool(_)) | ("float", Resolved::Float(_)) => {
            Ok(resolved)
        }
        ("int", Resolved::Int(_) | Resolved::Unsigned(_)) => Ok(resolved),
        ("float", Resolved::Int(number)) => Ok(Resolved::Float(number as f64)),
        ("null" | "bool" | "float" | "int", _) => {
            Err(invalid(format!("a scalar does not match its tag !!{name}")))
        }
        _ => Ok(Resolved::Text),
    }
}

fn binary(text: &str) -> Result<Node<()>, ReadError> {
    let bytes = STANDARD.decode(text.replace(['\n', '\r'], "")).ok();
    let text = bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| invalid("!!binary value is not UTF-8 text in Base64"))?;
    Ok(Node {
        key: Ok(text.as_str().into()),
        bytes: text.len(),
        value: Rc::new(Value::String(text)),
        place: (),
        nodes: 1,
        depth: 0,
        is_merge: false,
    })
}

fn value(text: &str, resolved: Resolved, numbers: Numbers) -> Result<Value, ReadError> {
    if numbers == Numbers::Exact
        && let Some(integer) = integer(resolved)
    {
        return Ok(Value::Number(integer.into()));
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "every number is a float64 to Go's JSON"
    )]
    let number = match resolved {
        Resolved::Null => return Ok(Value::Null),
        Resolved::Bool(value) => return Ok(Value::Bool(value)),
        Resolved::Timestamp | Resolved::Text => return Ok(Value::String(text.to_owned())),
        Resolved::Int(number) => number as f64,
        Resolved::Unsigned(number) => number as f64,
        Resolved::Float(number) => number,
    };
    Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| invalid("a number is not representable in JSON"))
}

/// A number that Go's JSON writes as an integer of 64 bits: also one with a fraction of zero.
fn integer(resolved: Resolved) -> Option<i64> {
    match resolved {
        Resolved::Int(number) => Some(number),
        Resolved::Float(number) => go_json::number(number).parse().ok(),
        _ => None,
    }
}

/// A key as a string.
fn key(text: &str, resolved: Resolved) -> Result<Rc<str>, &'static str> {
    Ok(match resolved {
        Resolved::Null => return Err("null cannot be a key"),
        Resolved::Unsigned(_) => return Err("a number of 2^63 or more cannot be a key"),
        Resolved::Bool(value) => if value { "true" } else { "false" }.into(),
        Resolved::Int(number) => number.to_string().into(),
        Resolved::Float(number) if number.is_nan() => ".nan".into(),
        Resolved::Float(number) => single_precision(number).into(),
        Resolved::Timestamp | Resolved::Text => text.into(),
    })
}

/// Go prints such keys with the precision of a `float32`.
fn single_precision(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the result has this precision")]
    let value = value as f32;
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let shortest = value.to_string();
    shortest.parse().map_or(shortest, number::print_float)
}

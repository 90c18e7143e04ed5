//! The reader.

use std::{collections::BTreeMap, rc::Rc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::{
    emit::MAX_TEXT,
    parse::{EventKind, Parser, Scalar, SyntaxError},
    place::{Place, Span, Track},
    resolve::{Resolved, resolve},
};
use crate::{json, number};

/// Maximum number of nodes of all texts together, with aliases expanded. This is about 20 MB in memory.
pub const MAX_NODES: usize = 200_000;
/// How deep lists and mappings that [`read`] reads may nest.
pub const MAX_DEPTH: usize = 100;
/// How deep a whole object may nest, of which such a document is a part: what `serde_json` decodes.
pub const MAX_OBJECT_DEPTH: usize = 126;
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
    /// It has more nodes than the quota allows.
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
/// As [`read`], but an object may nest 126 deep.
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
    node.map_or(Ok(Value::Null), |node| node.value.map(owned).map_err(invalid))
}

/// The first document of a text, and where everything in it is.
#[derive(Clone, Debug)]
pub struct Located {
    /// Its value, as [`read_exact`] returns it.
    pub value: Value,
    /// Where the value and its parts are; `None` if the text is empty.
    pub place: Option<Place>,
    /// Where something follows the document: it is ignored.
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
/// As [`read_exact`], with a position.
pub fn read_located(text: &str, quota: &mut Quota) -> Result<Located, LocatedError> {
    let mut reader = Reader::<Place>::new(text, quota, Numbers::Exact);
    let result = reader.document().and_then(|node| {
        let Some(node) = node else {
            return Ok(Located {
                value: Value::Null,
                place: None,
                ignored: None,
            });
        };
        Ok(Located {
            value: node.value.map(owned).map_err(invalid)?,
            place: Some(node.place),
            ignored: reader.following(),
        })
    });
    match result {
        Ok(located) => Ok(located),
        Err(error) => Err(LocatedError {
            error,
            at: reader.span.start.min(text.len()),
        }),
    }
}

/// A value, its size, its use as a key, and where it is.
#[derive(Clone)]
struct Node<P> {
    /// The value, or why it cannot be one.
    value: Result<Rc<Value>, &'static str>,
    place: P,
    nodes: usize,
    bytes: usize,
    depth: usize,
    /// The value as a key, or why it cannot be one.
    key: Result<Rc<str>, &'static str>,
    /// Whether it is `<<` as a key: its value is merged into the mapping.
    is_merge: bool,
    merging: Merging,
}

/// What a node is as the value of `<<`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merging {
    /// The node is neither a mapping nor a list of mappings.
    No,
    Mapping,
    /// A list of nothing but mappings. Its alias cannot be merged.
    Mappings,
}

/// Positions are recorded as `P`: with `()` none are.
struct Reader<'t, 'r, P> {
    parser: Parser<'t>,
    /// The nodes with anchors; `None` while one is read.
    anchors: BTreeMap<&'t str, Option<Node<P>>>,
    quota: &'r mut Quota,
    numbers: Numbers,
    max_depth: usize,
    /// Where the last event or syntax error is.
    span: Span,
}

impl<'t, 'r, P: Track> Reader<'t, 'r, P> {
    fn new(text: &'t str, quota: &'r mut Quota, numbers: Numbers) -> Self {
        Self {
            parser: Parser::new(text),
            anchors: BTreeMap::new(),
            quota,
            numbers,
            max_depth: match numbers {
                Numbers::Float64 => MAX_DEPTH,
                Numbers::Exact => MAX_OBJECT_DEPTH,
            },
            span: Span::default(),
        }
    }

    /// The first document; `None` if there is none.
    fn document(&mut self) -> Result<Option<Node<P>>, ReadError> {
        if self.event()? == EventKind::StreamEnd {
            return Ok(None);
        }
        let event = self.event()?;
        let node = self.node(event, 0)?;
        // A syntax error after the node makes the document invalid too.
        self.event()?;
        Ok(Some(node))
    }

    /// Where something follows the document, if that is so: another document, or what is none.
    fn following(&mut self) -> Option<usize> {
        let is_end = matches!(self.event(), Ok(EventKind::StreamEnd));
        (!is_end).then_some(self.span.start)
    }

    fn event(&mut self) -> Result<EventKind<'t>, ReadError> {
        match self.parser.next() {
            Ok(event) => {
                self.span = event.span;
                Ok(event.kind)
            }
            Err(SyntaxError { message, at, line }) => {
                self.span = Span { start: at, end: at };
                Err(ReadError::Invalid {
                    message: message.to_owned(),
                    line: Some(line + 1),
                })
            }
        }
    }

    fn node(&mut self, event: EventKind<'t>, depth: usize) -> Result<Node<P>, ReadError> {
        if depth > self.max_depth {
            return Err(self.too_deep());
        }
        let span = self.span;
        let (node, anchor) = match event {
            EventKind::Scalar(found) => {
                let node = scalar(&found, self.numbers)?.at(P::scalar(span));
                self.charge(1, node.bytes)?;
                (node, found.anchor)
            }
            EventKind::SequenceStart(anchor) => {
                self.charge(1, 0)?;
                self.open(anchor);
                (self.sequence(span, depth)?, anchor)
            }
            EventKind::MappingStart(anchor) => {
                self.charge(1, 0)?;
                self.open(anchor);
                (self.mapping(span, depth)?, anchor)
            }
            EventKind::Alias(name) => return self.alias(name, depth, span),
            _ => return Err(invalid("unexpected end of the document")),
        };
        if let Some(anchor) = anchor {
            // A copy, like each of its aliases.
            self.charge(node.nodes, node.bytes)?;
            self.anchors.insert(anchor, Some(node.clone()));
        }
        Ok(node)
    }

    fn open(&mut self, anchor: Option<&'t str>) {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, None);
        }
    }

    fn alias(&mut self, name: &str, depth: usize, span: Span) -> Result<Node<P>, ReadError> {
        let node = match self.anchors.get(name) {
            None => return Err(invalid("unknown anchor of an alias")),
            Some(None) => return Err(invalid("an alias refers to a node that contains it")),
            Some(Some(node)) => node,
        };
        if node.depth + depth > self.max_depth {
            return Err(self.too_deep());
        }
        let (nodes, bytes) = (node.nodes, node.bytes);
        let node = node.clone();
        self.charge(nodes, bytes)?;
        let place = node.place.clone().aliased(span);
        Ok(node.at(place).of_alias())
    }

    /// Takes the size of a node from the quota.
    fn charge(&mut self, nodes: usize, bytes: usize) -> Result<(), ReadError> {
        let left = self.quota.nodes.checked_sub(nodes);
        self.quota.nodes = left.ok_or(ReadError::TooManyNodes {
            limit: self.quota.max_nodes,
        })?;
        let left = self.quota.bytes.checked_sub(bytes);
        self.quota.bytes = left.ok_or(ReadError::TooManyBytes {
            limit: self.quota.max_bytes,
        })?;
        Ok(())
    }

    fn too_deep(&self) -> ReadError {
        invalid(format!("nests more than {} deep", self.max_depth))
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<Node<P>, ReadError> {
        let mut size = CollectionSize::default();
        let (mut items, mut places) = (Vec::new(), Vec::new());
        let mut merging = Merging::Mappings;
        loop {
            match self.event()? {
                EventKind::SequenceEnd => {
                    let place = P::list(start.to(self.span), places);
                    let node = size.node(Value::Array(items)).at(place);
                    return Ok(Node { merging, ..node });
                }
                event => {
                    let item = self.node(event, depth + 1)?;
                    size.add(&item);
                    if item.merging != Merging::Mapping {
                        merging = Merging::No;
                    }
                    items.push(item.value.map(owned).map_err(invalid)?);
                    places.push(item.place);
                }
            }
        }
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<Node<P>, ReadError> {
        let mut size = CollectionSize::default();
        let (mut entries, mut places) = (Map::new(), P::Entries::default());
        loop {
            let event = self.event()?;
            if event == EventKind::MappingEnd {
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
                let content = value.value.map(owned).map_err(invalid)?;
                entries.insert(name.to_string(), content);
                P::insert(&mut places, &name, &key.place, value.place);
            } else {
                merge(&mut entries, &value)?;
                P::merge(&mut places, &value.place);
            }
        }
        let place = P::mapping(start.to(self.span), places);
        let node = size.node(Value::Object(entries));
        Ok(Node {
            merging: Merging::Mapping,
            ..node.at(place)
        })
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
            merging: self.merging,
        }
    }
}

impl<P> Node<P> {
    /// The same node where an alias is: that is no merge key, and no list of mappings to merge.
    fn of_alias(self) -> Self {
        let is_mapping = self.merging == Merging::Mapping;
        Self {
            is_merge: false,
            merging: if is_mapping { Merging::Mapping } else { Merging::No },
            ..self
        }
    }
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
        // Charged when it was read; aliases of the collection charge it again.
        self.nodes = self.nodes.saturating_add(node.nodes);
        self.bytes = self.bytes.saturating_add(node.bytes);
    }

    fn node(self, value: Value) -> Node<()> {
        Node {
            value: Ok(Rc::new(value)),
            place: (),
            nodes: self.nodes + 1,
            bytes: self.bytes,
            depth: self.depth,
            key: Err("a list or mapping cannot be a key"),
            is_merge: false,
            merging: Merging::No,
        }
    }
}

fn owned(value: Rc<Value>) -> Value {
    Rc::try_unwrap(value).unwrap_or_else(|shared| (*shared).clone())
}

/// `<<: *other`: the entries of another mapping, or of several, of which the first one takes precedence. They replace earlier entries,
/// and later ones replace them.
fn merge<P>(entries: &mut Map<String, Value>, value: &Node<P>) -> Result<(), ReadError> {
    let others = match (value.merging, value.value.as_deref()) {
        (Merging::Mapping, Ok(mapping)) => std::slice::from_ref(mapping),
        (Merging::Mappings, Ok(Value::Array(mappings))) => mappings,
        _ => return Err(invalid("<< accepts only mappings")),
    };
    for other in others.iter().rev().filter_map(Value::as_object) {
        for (key, value) in other {
            entries.insert(key.clone(), value.clone());
        }
    }
    Ok(())
}

fn scalar(scalar: &Scalar<'_>, numbers: Numbers) -> Result<Node<()>, ReadError> {
    let text = &*scalar.text;
    let tag = scalar.tag.as_deref();
    // Without quotes and tag, and with the tag `!`, but that is the tag of a text.
    let is_implicit = tag.map_or(scalar.is_plain, |tag| tag == "!");
    let name = tag.and_then(|tag| tag.strip_prefix("tag:yaml.org,2002:"));
    let resolved = match (tag, name) {
        (None, _) if scalar.is_plain => resolve(text),
        (_, Some("binary")) => return binary(text),
        (_, Some(name)) => tagged(text, name)?,
        (_, None) => Resolved::Text,
    };
    Ok(Node {
        value: value(text, resolved, numbers).map(Rc::new),
        place: (),
        nodes: 1,
        bytes: text.len(),
        depth: 0,
        key: key(text, resolved),
        is_merge: text == "<<" && (is_implicit || name == Some("merge")),
        merging: Merging::No,
    })
}

fn tagged(text: &str, name: &str) -> Result<Resolved, ReadError> {
    let resolved = resolve(text);
    #[expect(clippy::cast_precision_loss, reason = "the tag requests a float")]
    match (name, resolved) {
        ("null", Resolved::Null)
        | ("bool", Resolved::Bool(_))
        | ("float", Resolved::Float(_))
        | ("timestamp", Resolved::Timestamp)
        | ("int", Resolved::Int(_) | Resolved::Unsigned(_)) => Ok(resolved),
        ("float", Resolved::Int(number)) => Ok(Resolved::Float(number as f64)),
        ("null" | "bool" | "float" | "int" | "timestamp", _) => {
            Err(invalid(format!("a scalar does not match its tag !!{name}")))
        }
        _ => Ok(Resolved::Text),
    }
}

fn binary(text: &str) -> Result<Node<()>, ReadError> {
    let bytes = STANDARD.decode(text.replace(['\n', '\r'], ""));
    let bytes = bytes.map_err(|_| invalid("the value of !!binary is not Base64"))?;
    let text = lossy(&bytes);
    Ok(Node {
        key: Ok(text.as_str().into()),
        bytes: text.len(),
        value: Ok(Rc::new(Value::String(text))),
        place: (),
        nodes: 1,
        depth: 0,
        is_merge: false,
        merging: Merging::No,
    })
}

/// A text in which each byte that is no part of a character is replaced, as Go's JSON does.
fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

fn value(text: &str, resolved: Resolved, numbers: Numbers) -> Result<Value, &'static str> {
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
        .ok_or("a number is not representable in JSON")
}

/// A number that Go's JSON writes as an integer of 64 bits: also one with a fraction of zero.
fn integer(resolved: Resolved) -> Option<i64> {
    match resolved {
        Resolved::Int(number) => Some(number),
        Resolved::Float(number) => json::number(number).parse().ok(),
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

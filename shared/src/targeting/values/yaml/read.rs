//! Reading.

use std::{collections::BTreeMap, rc::Rc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use granit_parser::{Event, Parser, ScalarStyle, StrInput, Tag};
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::resolve::{Resolved, resolve};
use crate::targeting::template::{MAX_TEXT, number};

/// How many nodes texts may have together, aliases counted as what they stand for, and what is in lists and mappings once more
/// at each level: some 20 MB in memory.
const MAX_NODES: usize = 200_000;
/// How deep it may nest. The parser has a limit of its own, but aliases nest further.
const MAX_DEPTH: usize = 100;
/// How many bytes scalars may have together, aliases counted as what they stand for. An anchor keeps a copy, which counts too.
const MAX_BYTES: usize = 2 * MAX_TEXT;

/// What is left for the texts that are read for one cluster: all values are in memory at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    nodes: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            nodes: MAX_NODES,
            bytes: MAX_BYTES,
        }
    }
}

/// Why a text is not YAML that values can be read from.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Unreadable {
    message: String,
    /// The line that it is about, counted from 1, where the text itself is wrong.
    line: Option<usize>,
    is_too_large: bool,
}

impl Unreadable {
    /// The line of the text that it is about, counted from 1.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// Whether it is YAML, and more than there is room for.
    pub const fn is_too_large(&self) -> bool {
        self.is_too_large
    }
}

fn unreadable(message: impl Into<String>) -> Unreadable {
    Unreadable {
        message: message.into(),
        line: None,
        is_too_large: false,
    }
}

fn too_large(message: String) -> Unreadable {
    Unreadable {
        is_too_large: true,
        ..unreadable(message)
    }
}

/// Reads the first document of a text, with numbers as `float64`. `room` is what is left for it and for others.
///
/// # Errors
/// Says what is wrong, and where the text itself is wrong also in which line.
pub fn read(text: &str, room: &mut Room) -> Result<Value, Unreadable> {
    let mut options = granit_parser::options! {};
    options.set_emit_comments(false);
    let mut reader = Reader {
        parser: Parser::new_from_str_with_options(text, options),
        anchors: BTreeMap::new(),
        room,
    };
    loop {
        match reader.event()? {
            Event::StreamEnd => return Ok(Value::Null),
            Event::StreamStart | Event::DocumentStart(..) => {}
            event => {
                let node = reader.node(event, 0)?;
                // What is wrong behind the node spoils the document, too.
                reader.event()?;
                return Ok(owned(node.value));
            }
        }
    }
}

/// A value, how many nodes it has, and how it can be a key.
#[derive(Clone)]
struct Node {
    value: Rc<Value>,
    nodes: usize,
    bytes: usize,
    depth: usize,
    /// The key that a scalar is, or why it cannot be one.
    key: Result<Rc<str>, &'static str>,
    is_merge: bool,
}

struct Reader<'t, 'r> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, Node>,
    room: &'r mut Room,
}

impl<'t> Reader<'t, '_> {
    fn event(&mut self) -> Result<Event<'t>, Unreadable> {
        match self.parser.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => {
                let place = error.marker();
                Err(Unreadable {
                    message: error.info(),
                    line: Some(place.line()),
                    is_too_large: false,
                })
            }
            None => Ok(Event::StreamEnd),
        }
    }

    fn node(&mut self, event: Event<'t>, depth: usize) -> Result<Node, Unreadable> {
        if depth > MAX_DEPTH {
            return Err(unreadable(format!("nests more than {MAX_DEPTH} deep")));
        }
        let is_counted = matches!(event, Event::Scalar(..) | Event::Alias(_));
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.as_deref())?, anchor),
            Event::SequenceStart(_, anchor, _) => (self.sequence(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(depth)?, anchor),
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) if node.depth + depth <= MAX_DEPTH => (node.clone(), 0),
                Some(_) => return Err(unreadable(format!("nests more than {MAX_DEPTH} deep"))),
                None => return Err(unreadable("an alias stands for what it is in")),
            },
            _ => return Err(unreadable("the document ends too early")),
        };
        self.room.nodes = self.room.nodes.checked_sub(node.nodes).ok_or_else(|| {
            too_large(format!(
                "the values of the cluster have more than {MAX_NODES} nodes together"
            ))
        })?;
        let copies = usize::from(is_counted) + usize::from(anchor != 0);
        let bytes = node.bytes.saturating_mul(copies);
        self.room.bytes = self.room.bytes.checked_sub(bytes).ok_or_else(|| {
            too_large(format!(
                "scalars of the cluster's values, with aliases written out, have more than {MAX_BYTES} bytes together"
            ))
        })?;
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Result<Node, Unreadable> {
        let mut whole = Collected::default();
        let mut items = Vec::new();
        loop {
            match self.event()? {
                Event::SequenceEnd => return Ok(whole.node(Value::Array(items))),
                event => {
                    let item = self.node(event, depth + 1)?;
                    whole.add(&item);
                    items.push(owned(item.value));
                }
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Node, Unreadable> {
        let mut whole = Collected::default();
        let (mut entries, mut merged) = (Map::new(), Map::new());
        loop {
            let key = match self.event()? {
                Event::MappingEnd => break,
                event => self.node(event, depth + 1)?,
            };
            let event = self.event()?;
            let value = self.node(event, depth + 1)?;
            whole.add(&key);
            whole.add(&value);
            if key.is_merge {
                merge(&mut merged, &value.value)?;
            } else {
                let key = key.key.map_err(unreadable)?;
                entries.insert(key.to_string(), owned(value.value));
            }
        }
        for (key, value) in merged {
            entries.entry(key).or_insert(value);
        }
        Ok(whole.node(Value::Object(entries)))
    }
}

/// The size of a collection.
#[derive(Default)]
struct Collected {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

impl Collected {
    fn add(&mut self, node: &Node) {
        self.depth = self.depth.max(node.depth + 1);
        // Counted when it was read; aliases of the whole count it again.
        self.nodes = self.nodes.saturating_add(node.nodes);
        self.bytes = self.bytes.saturating_add(node.bytes);
    }

    fn node(self, value: Value) -> Node {
        Node {
            value: Rc::new(value),
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

/// `<<: *other`: the entries of other mappings, the first of which counts.
fn merge(merged: &mut Map<String, Value>, value: &Value) -> Result<(), Unreadable> {
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
        _ => Err(unreadable("<< merges mappings, and nothing else")),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Node, Unreadable> {
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
        value: Rc::new(value(text, resolved)?),
        nodes: 1,
        bytes: text.len(),
        depth: 0,
        key: key(text, resolved),
        is_merge,
    })
}

fn tagged(text: &str, name: &str) -> Result<Resolved, Unreadable> {
    let resolved = resolve(text);
    #[expect(clippy::cast_precision_loss, reason = "a float is asked for")]
    match (name, resolved) {
        ("null", Resolved::Null) | ("bool", Resolved::Bool(_)) | ("float", Resolved::Float(_)) => {
            Ok(resolved)
        }
        ("int", Resolved::Int(_) | Resolved::Unsigned(_)) => Ok(resolved),
        ("float", Resolved::Int(number)) => Ok(Resolved::Float(number as f64)),
        ("null" | "bool" | "float" | "int", _) => Err(unreadable(format!(
            "a scalar cannot be decoded as its tag !!{name} says"
        ))),
        _ => Ok(Resolved::Text),
    }
}

fn binary(text: &str) -> Result<Node, Unreadable> {
    let bytes = STANDARD.decode(text.replace(['\n', '\r'], "")).ok();
    let text = bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| unreadable("!!binary value is not text in Base64"))?;
    Ok(Node {
        key: Ok(text.as_str().into()),
        bytes: text.len(),
        value: Rc::new(Value::String(text)),
        nodes: 1,
        depth: 0,
        is_merge: false,
    })
}

fn value(text: &str, resolved: Resolved) -> Result<Value, Unreadable> {
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
        .ok_or_else(|| unreadable("a number is not one that JSON has"))
}

/// The text that a key becomes.
fn key(text: &str, resolved: Resolved) -> Result<Rc<str>, &'static str> {
    Ok(match resolved {
        Resolved::Null => return Err("null cannot be a key"),
        Resolved::Unsigned(_) => return Err("a number from 2^63 on cannot be a key"),
        Resolved::Bool(value) => if value { "true" } else { "false" }.into(),
        Resolved::Int(number) => number.to_string().into(),
        Resolved::Float(number) if number.is_nan() => ".nan".into(),
        Resolved::Float(number) => single_precision(number).into(),
        Resolved::Timestamp | Resolved::Text => text.into(),
    })
}

/// Go prints such keys with the precision of a `float32`.
fn single_precision(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "that precision is wanted")]
    let value = value as f32;
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let shortest = value.to_string();
    shortest.parse().map_or(shortest, number::print_float)
}

//! The fields of an object that is converted. Each is taken once; what is left at the end has no equivalent, so that nothing is lost
//! without a note.

use std::{collections::BTreeMap, mem};

use serde_json::{Map, Value};

use super::documents::Document;
use crate::create::note::{Gap, Loss, Note, Position};

const TEXT: &str = "a text";
const MAPPING: &str = "a mapping";

/// A mapping of a document, and its path.
#[derive(Debug)]
pub struct Fields<'d> {
    document: &'d Document,
    path: String,
    /// Those that were not taken yet.
    left: Map<String, Value>,
    /// What those of another type have to be.
    wrong: BTreeMap<String, &'static str>,
}

impl<'d> Fields<'d> {
    /// All fields of a document.
    pub fn of(document: &'d Document) -> Self {
        Self {
            document,
            path: String::new(),
            left: document.object.as_object().cloned().unwrap_or_default(),
            wrong: BTreeMap::new(),
        }
    }

    /// The object.
    pub const fn document(&self) -> &'d Document {
        self.document
    }

    /// Takes a field; `None` if it is missing or null.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a field that means the same to every HelmOp, or nothing.
    pub fn drop(&mut self, name: &str) {
        self.left.remove(name);
    }

    /// Takes a field of a type. One of another type stays, and is refused at the end.
    fn typed<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.left.get(name).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_some() {
            self.left.remove(name);
        } else {
            self.wrong.insert(name.to_owned(), expected);
        }
        read
    }

    /// Whether a field was read, and has another type: it is refused at the end, so nothing else is said of what it leaves out.
    pub fn is_wrong(&self, name: &str) -> bool {
        self.wrong.contains_key(name)
    }

    /// The names of the fields, in their order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.left.keys().cloned().collect();
        names.sort();
        names
    }

    /// Takes a text; an empty one is missing.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.text_or_empty(name).filter(|text| !text.is_empty())
    }

    /// Takes a text, which may be empty.
    pub fn text_or_empty(&mut self, name: &str) -> Option<String> {
        self.typed(name, TEXT, |value| value.as_str().map(str::to_owned))
    }

    /// Takes an integer, unless the field has another type.
    pub fn whole_number(&mut self, name: &str) -> Option<i64> {
        let number = self.left.get(name)?.as_i64()?;
        self.left.remove(name);
        Some(number)
    }

    /// Takes a boolean.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        self.typed(name, "true or false", Value::as_bool)
    }

    /// Takes an integer.
    pub fn number(&mut self, name: &str) -> Option<i64> {
        self.typed(name, "a whole number", Value::as_i64)
    }

    /// Takes a mapping, with no fields if it is missing.
    pub fn mapping(&mut self, name: &str) -> Self {
        let fields = self.typed(name, MAPPING, |value| value.as_object().cloned());
        Self {
            document: self.document,
            path: self.path_of(name),
            left: fields.unwrap_or_default(),
            wrong: BTreeMap::new(),
        }
    }

    /// Takes a mapping of texts, with no entries if it is missing.
    pub fn entries(&mut self, name: &str) -> BTreeMap<String, String> {
        let read = |value: &Value| {
            let entries = value.as_object()?.iter();
            entries
                .map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect()
        };
        self.typed(name, "a mapping of texts", read).unwrap_or_default()
    }

    /// Takes a list of texts, with no items if it is missing.
    pub fn texts(&mut self, name: &str) -> Vec<String> {
        let read = |value: &Value| {
            let items = value.as_array()?.iter();
            items.map(|item| Some(item.as_str()?.to_owned())).collect()
        };
        self.typed(name, "a list of texts", read).unwrap_or_default()
    }

    /// Takes what is left; `None` if it is no mapping.
    pub fn take_all(&mut self) -> Option<Value> {
        self.wrong
            .is_empty()
            .then(|| Value::Object(mem::take(&mut self.left)))
    }

    /// Takes a list of mappings.
    pub fn list(&mut self, name: &str) -> Vec<Self> {
        let items = self.typed(name, "a list", |value| value.as_array().cloned());
        let path = self.path_of(name);
        let of_item = |(index, item): (usize, Value)| {
            let mut fields = Self {
                document: self.document,
                path: String::new(),
                left: Map::from_iter([(String::new(), item)]),
                wrong: BTreeMap::new(),
            };
            let content = fields.typed("", MAPPING, |value| value.as_object().cloned());
            fields.left = content.unwrap_or(fields.left);
            fields.path = format!("{path}[{index}]");
            fields
        };
        items
            .unwrap_or_default()
            .into_iter()
            .enumerate()
            .map(of_item)
            .collect()
    }

    /// A text that is not taken; an empty one if there is none.
    pub fn peek(&self, name: &str) -> &str {
        self.left.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether a field is an empty text.
    pub fn is_empty_text(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(|value| value == "")
    }

    /// Whether a field is there.
    pub fn has(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.left.values().all(Value::is_null)
    }

    /// The path of a field; of the mapping itself for an empty name.
    pub fn path_of(&self, name: &str) -> String {
        match (&*self.path, name) {
            (path, "") => path.to_owned(),
            ("", name) => name.to_owned(),
            (path, name) => format!("{path}.{name}"),
        }
    }

    /// Where a field is, or the nearest one around it.
    pub fn position(&self, name: &str) -> Option<Position> {
        self.document.position(&self.path_of(name))
    }

    /// A note about a field.
    pub fn note(&self, name: &str, text: impl Into<String>) -> Note {
        Note {
            object: self.document.title(),
            position: self.position(name),
            path: self.path_of(name),
            text: text.into(),
            gap: Gap::None,
        }
    }

    /// Takes a field that has no equivalent, with what to do.
    pub fn lost(&mut self, name: &str, text: &str, notes: &mut Vec<Note>) {
        if self.take(name).is_some() {
            notes.push(self.note(name, text));
        }
    }

    /// Takes a field without which something else would be deployed, with what to do. An empty list is missing.
    pub fn refused(&mut self, name: &str, loss: Loss, text: &str, notes: &mut Vec<Note>) {
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        if self.take(name).is_some_and(|value| !is_empty(&value)) {
            notes.push(self.refusal(name, Gap::Field(loss), text));
        }
    }

    /// A note about a field without which nothing is deployed.
    pub fn refusal(&self, name: &str, gap: Gap, text: impl Into<String>) -> Note {
        Note {
            gap,
            ..self.note(name, text)
        }
    }

    /// Notes that a field is missing without which nothing is deployed, with what it is for and what to do.
    pub fn required(&self, name: &str, gap: Gap, text: &str, notes: &mut Vec<Note>) {
        if !self.is_wrong(name) {
            notes.push(self.refusal(name, gap, format!("Required value: {text}")));
        }
    }

    /// Notes for all fields that were not taken.
    pub fn finish(self, notes: &mut Vec<Note>) {
        for (name, value) in &self.left {
            if value.is_null() {
                continue;
            }
            notes.push(match self.wrong.get(name) {
                Some(expected) => self.refusal(name, Gap::Valid, self.wrong_type(name, value, expected)),
                None => self.note(
                    name,
                    "this field has no equivalent, or is not known; check whether it is needed",
                ),
            });
        }
    }

    fn wrong_type(&self, name: &str, value: &Value, expected: &str) -> String {
        let found = match value {
            Value::Null | Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => MAPPING,
        };
        if value.is_array() || value.is_object() {
            return format!("this is {found}, and has to be {expected}");
        }
        // As it is written: 1.10 is not 1.1.
        let written = self.document.written(&self.path_of(name));
        let remedy = if expected == TEXT {
            "write it in quotes".to_owned()
        } else {
            format!("it has to be {expected}")
        };
        format!("{written} is {found}; {remedy}")
    }
}

/// A setting that a HelmOp has for both actions: set if both have it, with a note if only one has. `places` are the fields that set it.
pub fn of_both(set: [bool; 2], places: [(&Fields<'_>, &str); 2], text: &str, notes: &mut Vec<Note>) -> bool {
    if let Some(((fields, field), _)) = places.into_iter().zip(set).find(|(_, is_set)| *is_set)
        && set.contains(&false)
    {
        notes.push(fields.note(field, text));
    }
    set == [true, true]
}

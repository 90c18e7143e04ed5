//! The fields of an object that is converted. Each is taken once; what is left at the end has no equivalent, so that nothing is lost
//! without a note.

use serde_json::{Map, Value};

use super::documents::Document;
use crate::create::{Gap, Note};

/// A mapping of a document, and its path.
#[derive(Debug)]
pub struct Fields<'d> {
    document: &'d Document,
    path: String,
    /// Those that were not taken yet.
    left: Map<String, Value>,
}

impl<'d> Fields<'d> {
    /// All fields of a document.
    pub fn of(document: &'d Document) -> Self {
        Self {
            document,
            path: String::new(),
            left: document.object.as_object().cloned().unwrap_or_default(),
        }
    }

    /// Takes a field; `None` if it is missing or null.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a field that means the same to every HelmOp, or nothing.
    pub fn drop(&mut self, name: &str) {
        self.left.remove(name);
    }

    /// Takes a text; anything else stays.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let text = self.left.get(name)?.as_str()?.to_owned();
        self.left.remove(name);
        Some(text).filter(|text| !text.is_empty())
    }

    /// Takes a boolean; anything else stays.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        let flag = self.left.get(name)?.as_bool()?;
        self.left.remove(name);
        Some(flag)
    }

    /// Takes an integer; anything else stays.
    pub fn number(&mut self, name: &str) -> Option<i64> {
        let number = self.left.get(name)?.as_i64()?;
        self.left.remove(name);
        Some(number)
    }

    /// Takes a mapping, with no fields if it is missing.
    pub fn mapping(&mut self, name: &str) -> Self {
        let is_mapping = self.left.get(name).is_some_and(Value::is_object);
        let fields = if is_mapping { self.left.remove(name) } else { None };
        Self {
            document: self.document,
            path: self.path_of(name),
            left: match fields {
                Some(Value::Object(fields)) => fields,
                _ => Map::new(),
            },
        }
    }

    /// Takes a list of mappings.
    pub fn list(&mut self, name: &str) -> Vec<Self> {
        let is_list = self.left.get(name).is_some_and(Value::is_array);
        let items = if is_list { self.left.remove(name) } else { None };
        let Some(Value::Array(items)) = items else {
            return Vec::new();
        };
        let path = self.path_of(name);
        let of_item = |(index, item): (usize, Value)| Self {
            document: self.document,
            path: format!("{path}[{index}]"),
            left: match item {
                Value::Object(fields) => fields,
                other => Map::from_iter([(String::new(), other)]),
            },
        };
        items.into_iter().enumerate().map(of_item).collect()
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

    /// A note about a field.
    pub fn note(&self, name: &str, text: impl Into<String>) -> Note {
        let path = self.path_of(name);
        Note {
            object: self.document.title(),
            position: self.document.position(&path),
            path,
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

    /// Notes for all fields that were not taken.
    pub fn finish(self, notes: &mut Vec<Note>) {
        for (name, value) in &self.left {
            if !value.is_null() {
                notes.push(self.note(
                    name,
                    "this field has no equivalent, or is not known; check whether it is needed",
                ));
            }
        }
    }
}

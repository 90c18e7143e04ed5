//! Where the lists and maps of a rendering live, and what it may use up.
//!
//! Go's maps are shared: `set $d "a" 1` changes the map wherever it is named, and a map can even be put into itself. In
//! one place they can be shared without counting who holds them, and are gone with the rendering whatever holds what.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::Value as Json;

use super::{
    budget::{BYTE, Meter, STEP},
    value::{Elements, Value},
};

/// How deep lists and maps nest before they are refused, so that a map within itself ends.
pub const MAX_DEPTH: usize = 100;

/// Bytes of an element of a list, and of a list.
const ELEMENT: usize = size_of::<Value>();
const LIST: usize = size_of::<List>() + 16;
/// Bytes of an entry of a map, without its key and in a node that is half full; and of the first node of a map.
const ENTRY: usize = 112;
const FIRST_ENTRY: usize = 560;
/// Bytes of a text beside its own.
const TEXT: usize = 32;
/// Work for each element that is copied, and each entry.
const COPY: u64 = 10;
const COPY_ENTRY: u64 = 60;

/// A list and what it is made of.
#[derive(Debug)]
pub struct List {
    pub of: Elements,
    pub items: Vec<Value>,
}

/// A map and what it is made of.
#[derive(Debug)]
pub struct Map {
    pub of: Elements,
    pub entries: BTreeMap<String, Value>,
}

/// The lists and maps of a rendering.
#[derive(Debug)]
pub struct Heap {
    lists: Vec<List>,
    maps: Vec<Map>,
    pub meter: Meter,
}

impl Heap {
    pub const fn new(meter: Meter) -> Self {
        Self {
            lists: Vec::new(),
            maps: Vec::new(),
            meter,
        }
    }

    /// Counts steps.
    pub fn spend(&self, steps: usize) -> Result<(), String> {
        self.meter.each(steps, STEP)
    }

    /// Counts a text that is read or compared.
    pub fn read(&self, bytes: usize) -> Result<(), String> {
        self.meter.each(bytes, BYTE)
    }

    /// Counts a text that is written, before it is.
    pub fn write(&self, bytes: usize) -> Result<(), String> {
        self.read(bytes)?;
        self.meter.make(bytes.saturating_add(TEXT))
    }

    /// Makes a text of another one.
    pub fn text(&self, text: &str) -> Result<Value, String> {
        self.write(text.len())?;
        Ok(Value::str(text))
    }

    /// Makes a list.
    pub fn list(&mut self, of: Elements, items: Vec<Value>) -> Result<Value, String> {
        self.spend(1)?;
        self.meter.each(items.len(), COPY)?;
        self.meter.make(LIST + items.len().saturating_mul(ELEMENT))?;
        self.lists.push(List { of, items });
        Ok(Value::List(self.lists.len() - 1))
    }

    /// Makes a list of strings. Each is counted before it is made.
    pub fn strings<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) -> Result<Value, String> {
        let items = items
            .into_iter()
            .map(|item| self.text(item.as_ref()))
            .collect::<Result<_, _>>()?;
        self.list(Elements::Strings, items)
    }

    /// Makes a map.
    pub fn map(&mut self, of: Elements, entries: BTreeMap<String, Value>) -> Result<Value, String> {
        self.spend(1)?;
        let keys: usize = entries.keys().map(String::len).sum();
        self.meter.each(entries.len(), COPY_ENTRY)?;
        self.meter.make(LIST + map_bytes(entries.len(), keys))?;
        self.maps.push(Map { of, entries });
        Ok(Value::Map(self.maps.len() - 1))
    }

    /// A copy of the elements of a list, which lives as long as what goes through them.
    pub fn items_of(&self, list: usize) -> Result<Vec<Value>, String> {
        let items = self.items(list);
        self.meter.each(items.len(), COPY)?;
        self.meter.room(items.len() * ELEMENT)?;
        Ok(items.to_vec())
    }

    /// A copy of the entries of a map, which lives as long as what goes through them: the map may change meanwhile. It
    /// counts as made, since a map can be within itself many times.
    pub fn entries_of(&self, map: usize) -> Result<Vec<(String, Value)>, String> {
        let keys: usize = self.entries(map).map(|(key, _)| key.len()).sum();
        self.meter.each(self.len(map), COPY_ENTRY)?;
        self.read(keys)?;
        self.meter.make(keys + self.len(map) * (ELEMENT + TEXT))?;
        Ok(self
            .entries(map)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    /// Makes an empty map, and tells its place.
    pub fn empty_map(&mut self) -> Result<usize, String> {
        self.map(Elements::Any, BTreeMap::new())?;
        Ok(self.maps.len() - 1)
    }

    /// The elements of a list.
    pub fn items(&self, list: usize) -> &[Value] {
        self.lists.get(list).map_or(&[], |list| &list.items)
    }

    /// What a list is made of.
    pub fn elements(&self, list: usize) -> Elements {
        self.lists.get(list).map_or(Elements::Any, |list| list.of)
    }

    /// What a map is made of.
    pub fn map_elements(&self, map: usize) -> Elements {
        self.maps.get(map).map_or(Elements::Any, |map| map.of)
    }

    /// The entries of a map.
    pub fn entries(&self, map: usize) -> impl Iterator<Item = (&String, &Value)> {
        self.maps.get(map).into_iter().flat_map(|map| &map.entries)
    }

    /// Number of entries of a map.
    pub fn len(&self, map: usize) -> usize {
        self.maps.get(map).map_or(0, |map| map.entries.len())
    }

    /// An entry of a map.
    pub fn get(&self, map: usize, key: &str) -> Option<&Value> {
        self.maps.get(map)?.entries.get(key)
    }

    /// Sets an entry of a map.
    pub fn set(&mut self, map: usize, key: &str, value: Value) -> Result<(), String> {
        self.spend(1)?;
        let is_first = usize::from(self.len(map) == 0);
        self.meter.make(map_bytes(is_first, key.len()) + ENTRY)?;
        if let Some(map) = self.maps.get_mut(map) {
            map.entries.insert(key.to_owned(), value);
        }
        Ok(())
    }

    /// Removes an entry of a map.
    pub fn unset(&mut self, map: usize, key: &str) {
        if let Some(map) = self.maps.get_mut(map) {
            map.entries.remove(key);
        }
    }

    /// Takes JSON in, as Go decodes it.
    pub fn import(&mut self, json: &Json) -> Result<Value, String> {
        Ok(match json {
            Json::Null => Value::Nil,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
            Json::String(text) => self.text(text)?,
            Json::Array(items) => {
                let items = items
                    .iter()
                    .map(|item| self.import(item))
                    .collect::<Result<_, _>>()?;
                self.list(Elements::Any, items)?
            }
            Json::Object(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.import(value)?)))
                    .collect::<Result<_, String>>()?;
                self.map(Elements::Any, entries)?
            }
        })
    }

    /// A copy that shares nothing.
    pub fn deep_copy(&mut self, value: &Value, depth: usize) -> Result<Value, String> {
        check_depth(depth)?;
        match value {
            Value::List(list) => {
                let items = self.items_of(*list)?;
                let items = items
                    .iter()
                    .map(|item| self.deep_copy(item, depth + 1))
                    .collect::<Result<_, _>>()?;
                self.list(self.elements(*list), items)
            }
            Value::Map(map) => {
                let entries = self.entries_of(*map)?;
                let entries = entries
                    .into_iter()
                    .map(|(key, value)| Ok((key, self.deep_copy(&value, depth + 1)?)))
                    .collect::<Result<_, String>>()?;
                self.map(self.map_elements(*map), entries)
            }
            Value::Nil
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Int64(_)
            | Value::Float(_)
            | Value::Str(_)
            | Value::Version(_) => Ok(value.clone()),
        }
    }

    /// `reflect.DeepEqual`: values of different types are never equal.
    pub fn deep_equal(&self, one: &Value, other: &Value, depth: usize) -> Result<bool, String> {
        check_depth(depth)?;
        self.spend(1)?;
        Ok(match (one, other) {
            (Value::Nil, Value::Nil) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Int(one), Value::Int(other)) | (Value::Int64(one), Value::Int64(other)) => one == other,
            (Value::Float(one), Value::Float(other)) => one.partial_cmp(other) == Some(Ordering::Equal),
            (Value::Str(one), Value::Str(other)) => {
                self.read(one.len().min(other.len()) / 8)?;
                one == other
            }
            (Value::Version(one), Value::Version(other)) => one.original() == other.original(),
            (Value::List(one), Value::List(other)) => {
                let (a, b) = (self.items_of(*one)?, self.items_of(*other)?);
                let mut equal = self.elements(*one) == self.elements(*other) && a.len() == b.len();
                for (a, b) in a.iter().zip(&b) {
                    equal = equal && self.deep_equal(a, b, depth + 1)?;
                }
                equal
            }
            (Value::Map(one), Value::Map(other)) => {
                let (a, b) = (self.entries_of(*one)?, self.entries_of(*other)?);
                let mut equal = self.map_elements(*one) == self.map_elements(*other) && a.len() == b.len();
                for ((key, a), (other_key, b)) in a.iter().zip(&b) {
                    equal = equal && key == other_key && self.deep_equal(a, b, depth + 1)?;
                }
                equal
            }
            _ => false,
        })
    }

    /// Go's name for the type of a value.
    pub fn type_of(&self, value: &Value) -> &'static str {
        match value {
            Value::Nil => "<nil>",
            Value::Version(_) => "*semver.Version",
            Value::List(list) => self.elements(*list).list_type(),
            Value::Map(map) => self.map_elements(*map).map_type(),
            Value::Bool(_) | Value::Int(_) | Value::Int64(_) | Value::Float(_) | Value::Str(_) => {
                value.kind()
            }
        }
    }

    /// What `if` takes for true.
    pub fn is_true(&self, value: &Value) -> bool {
        match value {
            Value::Nil => false,
            Value::Bool(value) => *value,
            Value::Int(number) | Value::Int64(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::Version(_) => true,
            Value::List(list) => !self.items(*list).is_empty(),
            Value::Map(map) => self.len(*map) > 0,
        }
    }
}

/// Bytes of a map with that many entries, whose keys have `keys` bytes together.
const fn map_bytes(entries: usize, keys: usize) -> usize {
    let first = if entries > 0 { FIRST_ENTRY } else { 0 };
    keys.saturating_add(entries.saturating_mul(ENTRY))
        .saturating_add(first)
}

/// Refuses what nests too deeply, such as a map within itself.
pub fn check_depth(depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!(
            "lists and maps nest more than {MAX_DEPTH} deep, or one is within itself"
        ));
    }
    Ok(())
}

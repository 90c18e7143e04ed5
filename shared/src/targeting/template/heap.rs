//! Where the lists and maps of a rendering live, and what it may use up.
//!
//! Go's maps are shared: `set $d "a" 1` changes the map wherever it is named, and a map can even be put into itself. In
//! one place they can be shared without counting who holds them, and are gone with the rendering whatever holds what.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::Value as Json;

use super::value::{Elements, Value};

/// How many steps a rendering may take: nodes of the template, elements that functions go through and kilobytes that
/// they write. Some seconds in the worst case; what people write takes a few hundred.
const MAX_STEPS: usize = 1_000_000;

/// How many bytes a text may have: more than the API server takes for a whole object.
pub const MAX_TEXT: usize = 2 << 20;

/// How deep lists and maps nest before they are refused, so that a map within itself ends.
pub const MAX_DEPTH: usize = 100;

const SPENT: &str = "the template takes too many steps, or makes too much; 1,000,000 elements are the most";

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
#[derive(Debug, Default)]
pub struct Heap {
    lists: Vec<List>,
    maps: Vec<Map>,
    steps: usize,
}

impl Heap {
    /// Counts steps.
    pub fn spend(&mut self, steps: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS {
            return Err(SPENT.to_owned());
        }
        Ok(())
    }

    /// Refuses a text of `bytes` bytes before it is made.
    pub fn spend_text(&mut self, bytes: usize) -> Result<(), String> {
        if bytes > MAX_TEXT {
            return Err(format!("the text would be longer than {MAX_TEXT} bytes"));
        }
        self.spend(bytes >> 10)
    }

    /// Makes a list.
    pub fn list(&mut self, of: Elements, items: Vec<Value>) -> Result<Value, String> {
        self.spend(items.len() + 1)?;
        self.lists.push(List { of, items });
        Ok(Value::List(self.lists.len() - 1))
    }

    /// Makes a list of strings.
    pub fn strings<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) -> Result<Value, String> {
        let items = items.into_iter().map(|item| Value::str(item.as_ref())).collect();
        self.list(Elements::Strings, items)
    }

    /// Makes a map.
    pub fn map(&mut self, of: Elements, entries: BTreeMap<String, Value>) -> Result<Value, String> {
        self.spend(entries.len() + 1)?;
        self.maps.push(Map { of, entries });
        Ok(Value::Map(self.maps.len() - 1))
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
            Json::String(text) => Value::str(text),
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
                let items = self.items(*list).to_vec();
                let items = items
                    .iter()
                    .map(|item| self.deep_copy(item, depth + 1))
                    .collect::<Result<_, _>>()?;
                self.list(self.elements(*list), items)
            }
            Value::Map(map) => {
                let entries: Vec<_> = self
                    .entries(*map)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
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
    pub fn deep_equal(&mut self, one: &Value, other: &Value, depth: usize) -> Result<bool, String> {
        check_depth(depth)?;
        self.spend(1)?;
        Ok(match (one, other) {
            (Value::Nil, Value::Nil) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Int(one), Value::Int(other)) | (Value::Int64(one), Value::Int64(other)) => one == other,
            (Value::Float(one), Value::Float(other)) => one.partial_cmp(other) == Some(Ordering::Equal),
            (Value::Str(one), Value::Str(other)) => one == other,
            (Value::Version(one), Value::Version(other)) => one.original() == other.original(),
            (Value::List(one), Value::List(other)) => {
                let (a, b) = (self.items(*one).to_vec(), self.items(*other).to_vec());
                let mut equal = self.elements(*one) == self.elements(*other) && a.len() == b.len();
                for (a, b) in a.iter().zip(&b) {
                    equal = equal && self.deep_equal(a, b, depth + 1)?;
                }
                equal
            }
            (Value::Map(one), Value::Map(other)) => {
                let own = |(key, value): (&String, &Value)| (key.clone(), value.clone());
                let a: Vec<_> = self.entries(*one).map(own).collect();
                let b: Vec<_> = self.entries(*other).map(own).collect();
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

/// Refuses what nests too deeply, such as a map within itself.
pub fn check_depth(depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!(
            "lists and maps nest more than {MAX_DEPTH} deep, or one is within itself"
        ));
    }
    Ok(())
}

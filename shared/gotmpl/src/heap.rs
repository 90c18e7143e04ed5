//! The lists and maps of a rendering.
//!
//! Go's maps are shared: `set $d "a" 1` changes the map for every variable that refers to it, and a map can even contain
//! itself. In one heap they can be shared without reference counts, and cycles are freed with the rendering.

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc};

use go_formats::yaml;
use serde_json::Value as Json;

use super::{
    budget::{BYTE, Budget, Meter, STEP},
    error::TemplateError,
    value::{Elements, Value},
};

/// How deep lists and maps may nest. It also stops the recursion into a map that contains itself.
pub const MAX_DEPTH: usize = yaml::MAX_DEPTH;

/// How deep JSON may nest. What `serde_json` decodes nests at most 128 deep, but a program can create any depth.
const MAX_JSON_DEPTH: usize = 256;

/// Bytes of an element of a list, and of a list.
const ELEMENT: usize = size_of::<Value>();
const LIST: usize = size_of::<List>() + 16;
/// Bytes of an entry of a map, without its key and in a node that is half full; and of the first node of a map.
const ENTRY: usize = 112;
const FIRST_ENTRY: usize = 560;
/// Bytes of a text in addition to its content.
const TEXT: usize = 32;
/// Work for each element that is copied, and each entry.
const COPY: u64 = 10;
const COPY_ENTRY: u64 = 60;

/// A list and the type of its elements. Only `sortAlpha` changes one.
#[derive(Debug, Default)]
pub struct List {
    pub elements: Elements,
    pub items: Vec<Value>,
    /// Whether it is a nil slice: empty, but `null` in JSON.
    pub is_nil: bool,
}

/// A map and the type of its values.
#[derive(Clone, Debug, Default)]
pub struct Map {
    pub elements: Elements,
    pub entries: BTreeMap<String, Value>,
}

/// The lists and maps of a rendering. Iteration shares them: recursive functions would otherwise hold a copy for each level.
#[derive(Debug)]
pub struct Heap {
    lists: Vec<Rc<List>>,
    maps: Vec<Rc<Map>>,
    pub meter: Meter,
}

/// The data of templates, their `.` and `$`. It is converted once, for any number of renderings.
///
/// Without data (`Context::default()`), `.` is `nil`.
#[derive(Debug, Default)]
pub struct Context {
    lists: Vec<Rc<List>>,
    maps: Vec<Rc<Map>>,
    root: Value,
    bytes: usize,
}

impl Context {
    /// Converts JSON as Go's `encoding/json` decodes it without a type: each number is a `float64`, so that `1000000` prints
    /// as `1e+06`, and an object is a `map[string]interface {}`. Mostly it is an object, whose keys are the fields `.key`.
    ///
    /// # Errors
    /// If it has more than about 16 MiB in memory, nests more than 256 deep, or `budget` is exceeded.
    pub fn new(json: &Json, budget: &Budget) -> Result<Self, TemplateError> {
        Self::import(json, Meter::new(budget))
            .map_err(|message| TemplateError::new("", 0..0, message).or_exceeded(budget))
    }

    fn import(json: &Json, meter: Meter) -> Result<Self, String> {
        let mut heap = Heap {
            lists: Vec::new(),
            maps: Vec::new(),
            meter,
        };
        let root = heap.import(json, 0)?;
        Ok(Self {
            root,
            bytes: heap.meter.allocated(),
            lists: heap.lists,
            maps: heap.maps,
        })
    }

    /// The object itself.
    pub(super) const fn root(&self) -> &Value {
        &self.root
    }
}

impl Heap {
    /// A heap that starts with a context, whose memory it charges for.
    pub fn with(context: &Context, meter: Meter) -> Result<Self, String> {
        meter.charge_each(context.lists.len() + context.maps.len(), COPY)?;
        meter.allocate(context.bytes)?;
        Ok(Self {
            lists: context.lists.clone(),
            maps: context.maps.clone(),
            meter,
        })
    }

    /// Charges for steps.
    pub fn charge_steps(&self, steps: usize) -> Result<(), String> {
        self.meter.charge_each(steps, STEP)
    }

    /// Charges for a text that is read or compared.
    pub fn charge_read(&self, bytes: usize) -> Result<(), String> {
        self.meter.charge_each(bytes, BYTE)
    }

    /// Charges for a text before it is written.
    pub fn charge_write(&self, bytes: usize) -> Result<(), String> {
        self.charge_read(bytes)?;
        self.meter.allocate(bytes.saturating_add(TEXT))
    }

    /// Copies a text.
    pub fn text(&self, text: &str) -> Result<Value, String> {
        self.charge_write(text.len())?;
        Ok(Value::str(text))
    }

    /// Creates a list.
    pub fn list(&mut self, elements: Elements, items: Vec<Value>) -> Result<Value, String> {
        self.count_list(items.len())?;
        Ok(self.add_list(elements, items))
    }

    fn count_list(&self, length: usize) -> Result<(), String> {
        self.charge_steps(1)?;
        self.meter.charge_each(length, COPY)?;
        self.meter.allocate(LIST + length.saturating_mul(ELEMENT))
    }

    fn add_list(&mut self, elements: Elements, items: Vec<Value>) -> Value {
        self.lists.push(Rc::new(List {
            elements,
            items,
            is_nil: false,
        }));
        Value::List(self.lists.len() - 1)
    }

    /// A list that is a nil slice if it has no elements.
    pub fn list_or_nil(&mut self, elements: Elements, items: Vec<Value>) -> Result<Value, String> {
        let is_nil = items.is_empty();
        self.count_list(items.len())?;
        self.lists.push(Rc::new(List {
            elements,
            items,
            is_nil,
        }));
        Ok(Value::List(self.lists.len() - 1))
    }

    /// Replaces the elements of a list by as many others, for every variable that refers to it.
    pub fn replace_items(&mut self, list: usize, items: Vec<Value>) -> Result<(), String> {
        let elements = self.elements(list);
        self.count_list(items.len())?;
        if let Some(list) = self.lists.get_mut(list) {
            *list = Rc::new(List {
                elements,
                items,
                is_nil: list.is_nil,
            });
        }
        Ok(())
    }

    /// Creates a list of strings. Each is charged for before it is created.
    pub fn strings<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) -> Result<Value, String> {
        let items = items
            .into_iter()
            .map(|item| self.text(item.as_ref()))
            .collect::<Result<_, _>>()?;
        self.list(Elements::Strings, items)
    }

    /// Creates a map.
    pub fn map(&mut self, elements: Elements, entries: BTreeMap<String, Value>) -> Result<Value, String> {
        self.count_map(&entries)?;
        Ok(self.add_map(elements, entries))
    }

    fn count_map(&self, entries: &BTreeMap<String, Value>) -> Result<(), String> {
        self.charge_steps(1)?;
        self.meter.charge_each(entries.len(), COPY_ENTRY)?;
        self.meter
            .allocate(LIST + map_bytes(entries.len(), key_bytes(entries)))
    }

    fn add_map(&mut self, elements: Elements, entries: BTreeMap<String, Value>) -> Value {
        self.maps.push(Rc::new(Map { elements, entries }));
        Value::Map(self.maps.len() - 1)
    }

    /// A list to iterate over.
    pub fn list_of(&self, list: usize) -> Result<Rc<List>, String> {
        let list = self.lists.get(list).map(Rc::clone).unwrap_or_default();
        self.meter.charge_each(list.items.len(), COPY)?;
        Ok(list)
    }

    /// A copy of the elements of a list, for a function that creates another list from them. Not for recursive functions.
    pub fn items_of(&self, list: usize) -> Result<Vec<Value>, String> {
        let items = self.items(list);
        self.meter.charge_each(items.len(), COPY)?;
        self.meter.check_memory(items.len() * ELEMENT)?;
        Ok(items.to_vec())
    }

    /// A map to iterate over, as it is now. A change during the iteration is made to a copy.
    pub fn map_of(&self, map: usize) -> Result<Rc<Map>, String> {
        let map = self.maps.get(map).map(Rc::clone).unwrap_or_default();
        self.meter.charge_each(map.entries.len(), COPY_ENTRY)?;
        self.charge_read(key_bytes(&map.entries))?;
        Ok(map)
    }

    /// A copy of the entries of a map, sorted by key.
    pub fn entries_of(&self, map: usize) -> Result<Vec<(String, Value)>, String> {
        let map = self.map_of(map)?;
        let each = map.entries.len().saturating_mul(ELEMENT + TEXT);
        self.meter
            .allocate(key_bytes(&map.entries).saturating_add(each))?;
        let entries = map.entries.iter();
        Ok(entries.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Creates an empty map, and returns its index.
    pub fn empty_map(&mut self) -> Result<usize, String> {
        self.map(Elements::Any, BTreeMap::new())?;
        Ok(self.maps.len() - 1)
    }

    /// The elements of a list.
    pub fn items(&self, list: usize) -> &[Value] {
        self.lists.get(list).map_or(&[], |list| &list.items)
    }

    /// The type of a list's elements.
    pub fn elements(&self, list: usize) -> Elements {
        self.lists.get(list).map_or(Elements::Any, |list| list.elements)
    }

    /// The type of a map's values.
    pub fn map_elements(&self, map: usize) -> Elements {
        self.maps.get(map).map_or(Elements::Any, |map| map.elements)
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
        self.charge_steps(1)?;
        let is_first = usize::from(self.len(map) == 0);
        self.meter.allocate(map_bytes(is_first, key.len()) + ENTRY)?;
        if let Some(map) = self.make_mut(map)? {
            map.entries.insert(key.to_owned(), value);
        }
        Ok(())
    }

    /// Removes an entry of a map.
    pub fn unset(&mut self, map: usize, key: &str) -> Result<(), String> {
        if let Some(map) = self.make_mut(map)? {
            map.entries.remove(key);
        }
        Ok(())
    }

    /// A map to change. If an iteration or another rendering shares it, it is copied first.
    fn make_mut(&mut self, map: usize) -> Result<Option<&mut Map>, String> {
        let Some(map) = self.maps.get_mut(map) else {
            return Ok(None);
        };
        if Rc::strong_count(map) > 1 {
            let keys = key_bytes(&map.entries);
            self.meter.charge_each(map.entries.len(), COPY_ENTRY)?;
            self.meter.charge_each(keys, BYTE)?;
            self.meter.allocate(map_bytes(map.entries.len(), keys))?;
        }
        Ok(Some(Rc::make_mut(map)))
    }

    /// Converts JSON, as Go decodes it, at a depth.
    pub fn import(&mut self, json: &Json, depth: usize) -> Result<Value, String> {
        if depth > MAX_JSON_DEPTH {
            return Err(format!("lists and maps nest more than {MAX_JSON_DEPTH} deep"));
        }
        Ok(match json {
            Json::Null => Value::Nil,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
            Json::String(text) => self.text(text)?,
            Json::Array(items) => {
                let items = items
                    .iter()
                    .map(|item| self.import(item, depth + 1))
                    .collect::<Result<_, _>>()?;
                self.list(Elements::Any, items)?
            }
            Json::Object(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.import(value, depth + 1)?)))
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
                let list = self.list_of(*list)?;
                // Charged for before it is created: a list can contain itself through a map.
                self.count_list(list.items.len())?;
                let items = list
                    .items
                    .iter()
                    .map(|item| self.deep_copy(item, depth + 1))
                    .collect::<Result<_, _>>()?;
                Ok(self.add_list(list.elements, items))
            }
            Value::Map(map) => {
                let map = self.map_of(*map)?;
                self.count_map(&map.entries)?;
                let entries = map
                    .entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.deep_copy(value, depth + 1)?)))
                    .collect::<Result<_, String>>()?;
                Ok(self.add_map(map.elements, entries))
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
        self.charge_steps(1)?;
        Ok(match (one, other) {
            (Value::Nil, Value::Nil) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Int(one), Value::Int(other)) | (Value::Int64(one), Value::Int64(other)) => one == other,
            (Value::Float(one), Value::Float(other)) => one.partial_cmp(other) == Some(Ordering::Equal),
            (Value::Str(one), Value::Str(other)) => {
                self.charge_read(one.len().min(other.len()) / 8)?;
                one == other
            }
            (Value::Version(one), Value::Version(other)) => one.original() == other.original(),
            (Value::List(one), Value::List(other)) => {
                let (one, other) = (self.list_of(*one)?, self.list_of(*other)?);
                let mut equal = one.elements == other.elements
                    && one.is_nil == other.is_nil
                    && one.items.len() == other.items.len();
                for (a, b) in one.items.iter().zip(&other.items) {
                    equal = equal && self.deep_equal(a, b, depth + 1)?;
                }
                equal
            }
            (Value::Map(one), Value::Map(other)) => {
                let (one, other) = (self.map_of(*one)?, self.map_of(*other)?);
                let mut equal = one.elements == other.elements && one.entries.len() == other.entries.len();
                for ((key, a), (other_key, b)) in one.entries.iter().zip(&other.entries) {
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

    /// Whether `if` treats a value as true.
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

fn key_bytes(entries: &BTreeMap<String, Value>) -> usize {
    entries.keys().map(String::len).sum()
}

/// Bytes of a map with so many entries, whose keys have `keys` bytes together.
const fn map_bytes(entries: usize, keys: usize) -> usize {
    let first = if entries > 0 { FIRST_ENTRY } else { 0 };
    keys.saturating_add(entries.saturating_mul(ENTRY))
        .saturating_add(first)
}

/// Fails for values that nest too deep, such as a map that contains itself.
pub fn check_depth(depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!(
            "lists and maps nest more than {MAX_DEPTH} deep, or one contains itself"
        ));
    }
    Ok(())
}

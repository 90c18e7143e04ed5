//! Sets a value at a path, as `helm --set` and `helm --set-string` do, and merges values.
//!
//! ```
//! use go_formats::strvals::{Kind, set};
//! use serde_json::json;
//!
//! let mut values = json!({ "image": { "tag": "1" } }).as_object().unwrap().clone();
//! set(&mut values, "image.tag", "2", Kind::Typed).unwrap();
//! set(&mut values, "image.pullSecrets[0].name", "a,b", Kind::Verbatim).unwrap();
//! let expected = json!({ "image": { "tag": 2, "pullSecrets": [{ "name": "a,b" }] } });
//! assert_eq!(json!(values), expected);
//! ```

use std::{iter::Peekable, mem, vec::IntoIter};

use serde_json::{Map, Value};
use thiserror::Error;

/// How deep names may nest in one path.
const MAX_DEPTH: usize = 30;
/// The largest index of a list.
const MAX_INDEX: usize = 65_536;
/// Items that one assignment may add to lists: those before an index are null.
const MAX_NEW_ITEMS: usize = 2 * MAX_INDEX;

/// How a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its type is guessed. It may have other values (`a,b=c`) and lists (`{a,b}`), as with `--set`.
    Typed,
    /// The same, but each value is a text, as with `--set-string`.
    Text,
    /// It is one text as it is. In contrast to `--set-literal`, `\\.` in the path is a dot in a name.
    Verbatim,
}

/// Why a value cannot be set. No message has a text of path or value: a value may be secret, and may have paths itself.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SetError {
    /// A name without a value.
    #[error("a name has no value")]
    NoValue,
    /// A part of the path is another value already.
    #[error("a part of it has a value that is not a map")]
    NoMap,
    /// The same, where the path has an index.
    #[error("a part of it has a value that is not a list")]
    NoList,
    /// An index is no number, or too large.
    #[error("an index is not a number from 0 to {MAX_INDEX}")]
    Index,
    /// Something follows an index.
    #[error("an index is followed by something else than '.', '[' or the end")]
    AfterIndex,
    /// A list without an end.
    #[error("a list in the value has no '}}' at its end")]
    OpenList,
    /// The path is too long.
    #[error("it has more than {MAX_DEPTH} names")]
    TooDeep,
    /// The lists of the path would be too long.
    #[error("its indexes add more than {MAX_NEW_ITEMS} items to lists")]
    TooManyItems,
}

/// Sets the value of a path, as the argument `PATH=VALUE` does.
///
/// # Errors
/// If Helm refuses the path, or would fail with what is there. The values are of no use then.
pub fn set(values: &mut Map<String, Value>, path: &str, value: &str, kind: Kind) -> Result<(), SetError> {
    let text: Vec<char> = path.chars().chain(['=']).chain(value.chars()).collect();
    let mut parser = Parser {
        rest: text.into_iter().peekable(),
        kind,
        new_items: 0,
    };
    while parser.key(values, 0)? == Parsed::Value {}
    Ok(())
}

/// Merges values over others, as Helm merges files of values: mappings are merged, and anything else, `null` included, replaces what is there.
pub fn merge(values: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (values.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(over)) => merge(below, over),
            (_, value) => _ = values.insert(key, value),
        }
    }
}

/// Whether there may be more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parsed {
    Value,
    End,
}

struct Parser {
    rest: Peekable<IntoIter<char>>,
    kind: Kind,
    new_items: usize,
}

impl Parser {
    fn key(&mut self, values: &mut Map<String, Value>, depth: usize) -> Result<Parsed, SetError> {
        let (key, stop) = self.until("=[,.");
        match stop {
            None if key.is_empty() => Ok(Parsed::End),
            None | Some(',') => Err(SetError::NoValue),
            Some('[') => {
                // Helm ignores an index without an end.
                let Some(index) = self.index()? else {
                    return Ok(Parsed::End);
                };
                let mut list = match values.remove(&key) {
                    None => Vec::new(),
                    Some(Value::Array(list)) => list,
                    Some(_) => {
                        return Err(SetError::NoList);
                    }
                };
                let parsed = self.item(&mut list, index, depth)?;
                put(values, key, Value::Array(list));
                Ok(parsed)
            }
            Some('.') => {
                if depth == MAX_DEPTH {
                    return Err(SetError::TooDeep);
                }
                let existing = values.remove(&key);
                let is_new = existing.is_none();
                let mut inner = match existing {
                    None => Map::new(),
                    Some(Value::Object(inner)) => inner,
                    Some(_) => {
                        return Err(SetError::NoMap);
                    }
                };
                let parsed = self.key(&mut inner, depth + 1)?;
                if inner.is_empty() && parsed == Parsed::Value {
                    return Err(SetError::NoValue);
                }
                if !inner.is_empty() || !is_new {
                    put(values, key, Value::Object(inner));
                }
                Ok(parsed)
            }
            Some(_) => {
                let (value, parsed) = self.value()?;
                put(values, key, value);
                Ok(parsed)
            }
        }
    }

    fn item(&mut self, list: &mut Vec<Value>, index: usize, depth: usize) -> Result<Parsed, SetError> {
        let (text, stop) = self.until("[.=");
        if !text.is_empty() {
            return Err(SetError::AfterIndex);
        }
        let mut take = || list.get_mut(index).map(mem::take);
        match stop {
            None => Ok(Parsed::End),
            Some('[') => {
                let Some(next) = self.index()? else {
                    return Ok(Parsed::End);
                };
                let existing = take();
                let is_new = existing.is_none();
                let mut inner = match existing {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(inner)) => inner,
                    Some(_) => return Err(SetError::NoList),
                };
                let parsed = self.item(&mut inner, next, depth)?;
                if parsed == Parsed::Value || !is_new {
                    self.put_item(list, index, Value::Array(inner))?;
                }
                Ok(parsed)
            }
            Some('.') => {
                let existing = take();
                let is_new = existing.is_none();
                let mut inner = match existing {
                    Some(Value::Object(inner)) => inner,
                    // Helm overwrites it.
                    _ => Map::new(),
                };
                let parsed = self.key(&mut inner, depth)?;
                // Helm forgets an empty text in a new item.
                if parsed == Parsed::Value || !is_new {
                    self.put_item(list, index, Value::Object(inner))?;
                }
                Ok(parsed)
            }
            Some(_) => {
                let (value, _) = self.value()?;
                self.put_item(list, index, value)?;
                Ok(Parsed::Value)
            }
        }
    }

    fn put_item(&mut self, list: &mut Vec<Value>, index: usize, value: Value) -> Result<(), SetError> {
        if index >= list.len() {
            self.new_items += index + 1 - list.len();
            if self.new_items > MAX_NEW_ITEMS {
                return Err(SetError::TooManyItems);
            }
            list.resize(index + 1, Value::Null);
        }
        if let Some(item) = list.get_mut(index) {
            *item = value;
        }
        Ok(())
    }

    /// `None` without an end.
    fn index(&mut self) -> Result<Option<usize>, SetError> {
        let (text, stop) = self.until("]");
        if stop.is_none() {
            return Ok(None);
        }
        let digits = text.strip_prefix('+').unwrap_or(&text);
        let index = digits.parse().ok().filter(|index| *index <= MAX_INDEX);
        match index {
            Some(index) if !digits.starts_with('+') => Ok(Some(index)),
            _ => Err(SetError::Index),
        }
    }

    /// What follows `=`.
    fn value(&mut self) -> Result<(Value, Parsed), SetError> {
        match self.rest.peek() {
            Some(_) if self.kind == Kind::Verbatim => {
                Ok((Value::String(self.rest.by_ref().collect()), Parsed::Value))
            }
            None => Ok((Value::String(String::new()), Parsed::End)),
            Some('{') => {
                self.rest.next();
                Ok((self.list()?, Parsed::Value))
            }
            Some(_) => {
                let (text, _) = self.until(",");
                Ok((self.read(text), Parsed::Value))
            }
        }
    }

    /// What follows `{`.
    fn list(&mut self) -> Result<Value, SetError> {
        let mut items = Vec::new();
        loop {
            let (text, stop) = self.until(",}");
            if stop.is_none() {
                return Err(SetError::OpenList);
            }
            items.push(self.read(text));
            if stop == Some('}') {
                self.rest.next_if_eq(&',');
                return Ok(Value::Array(items));
            }
        }
    }

    fn read(&self, text: String) -> Value {
        if self.kind == Kind::Typed {
            typed(text)
        } else {
            Value::String(text)
        }
    }

    /// The text up to one of these characters, which is skipped; `None` at the end.
    fn until(&mut self, stops: &str) -> (String, Option<char>) {
        let mut text = String::new();
        while let Some(c) = self.rest.next() {
            if stops.contains(c) {
                return (text, Some(c));
            }
            if c == '\\' {
                match self.rest.next() {
                    Some(escaped) => text.push(escaped),
                    None => return (text, None),
                }
            } else {
                text.push(c);
            }
        }
        (text, None)
    }
}

/// Without a name, Helm sets nothing.
fn put(values: &mut Map<String, Value>, key: String, value: Value) {
    if !key.is_empty() {
        values.insert(key, value);
    }
}

fn typed(text: String) -> Value {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") || is("false") {
        return Value::Bool(is("true"));
    }
    if is("null") {
        return Value::Null;
    }
    match text.parse::<i64>() {
        Ok(number) if text == "0" || !text.starts_with('0') => number.into(),
        _ => Value::String(text),
    }
}

//! `--set`, in the syntax of Helm.
//!
//! ```text
//! a.b=c,d[0].e=1,f={x,y},g\.h=true,i=null
//! ```

use serde_json::{Map, Value};
use thiserror::Error;

/// As in Helm.
const MAX_INDEX: usize = 65_536;
const MAX_NESTING: usize = 30;

/// A text that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SetError {
    /// There is no `=`.
    #[error("{0:?} has no value; write key=value")]
    NoValue(String),
    /// A part of the key is empty or cannot be read.
    #[error("the key {0:?} is invalid; write a.b, a[0] or a[0].b, and \\. for a dot in a name")]
    Key(String),
    /// The key leads through a value that is no mapping or no list.
    #[error("{key:?} goes through a value that is no {expected}")]
    Type {
        /// The key.
        key: String,
        /// `mapping` or `list`.
        expected: &'static str,
    },
}

/// A step of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
}

/// Sets what a text has, such as `a.b=c,d=1`. Values are texts if `is_text`, otherwise they have the type that they look like.
///
/// # Errors
/// If the text is invalid.
pub fn set(values: &mut Map<String, Value>, text: &str, is_text: bool) -> Result<(), SetError> {
    for part in split(text, ',') {
        let Some((key, value)) = split_once(&part, '=') else {
            return Err(SetError::NoValue(part));
        };
        insert(values, &key, parsed(&value, is_text))?;
    }
    Ok(())
}

/// Sets the value of a key.
///
/// # Errors
/// If the key is invalid.
pub fn insert(values: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), SetError> {
    let steps = steps(key)?;
    let mut root = Value::Object(std::mem::take(values));
    let result = put(&mut root, &steps, value, key);
    if let Value::Object(entries) = root {
        *values = entries;
    }
    result
}

fn put(at: &mut Value, steps: &[Step], value: Value, key: &str) -> Result<(), SetError> {
    let wrong = |expected| SetError::Type {
        key: key.to_owned(),
        expected,
    };
    match steps.split_first() {
        None => *at = value,
        Some((Step::Name(name), rest)) => {
            if at.is_null() {
                *at = Value::Object(Map::new());
            }
            let Value::Object(entries) = at else {
                return Err(wrong("mapping"));
            };
            put(
                entries.entry(name.clone()).or_insert(Value::Null),
                rest,
                value,
                key,
            )?;
        }
        Some((Step::Index(index), rest)) => {
            if at.is_null() {
                *at = Value::Array(Vec::new());
            }
            let Value::Array(items) = at else {
                return Err(wrong("list"));
            };
            if items.len() <= *index {
                items.resize(index + 1, Value::Null);
            }
            if let Some(item) = items.get_mut(*index) {
                put(item, rest, value, key)?;
            }
        }
    }
    Ok(())
}

fn steps(key: &str) -> Result<Vec<Step>, SetError> {
    let invalid = || SetError::Key(key.to_owned());
    let mut steps = Vec::new();
    for part in split(key, '.') {
        let (name, mut rest) = match part.find('[') {
            Some(at) => part.split_at(at),
            None => (&*part, ""),
        };
        let name = unescaped(name);
        if name.is_empty() {
            return Err(invalid());
        }
        steps.push(Step::Name(name));
        while let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']').ok_or_else(invalid)?;
            let index = index.parse().ok().filter(|index| *index <= MAX_INDEX);
            steps.push(Step::Index(index.ok_or_else(invalid)?));
            rest = after;
        }
        if !rest.is_empty() {
            return Err(invalid());
        }
    }
    if steps.len() > MAX_NESTING {
        return Err(invalid());
    }
    Ok(steps)
}

fn parsed(text: &str, is_text: bool) -> Value {
    if let Some(list) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        if list.is_empty() {
            return Value::Array(Vec::new());
        }
        return split(list, ',')
            .iter()
            .map(|item| parsed(item, is_text))
            .collect();
    }
    let plain = unescaped(text);
    if is_text {
        return plain.into();
    }
    match &*plain {
        "true" => true.into(),
        "false" => false.into(),
        "null" => Value::Null,
        "0" => 0.into(),
        // A number with a leading zero is a text, as in Helm.
        text if !text.starts_with('0') => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
        text => text.into(),
    }
}

/// Splits at a character that is neither escaped nor in braces. Escapes stay.
fn split(text: &str, at: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut is_escaped, mut depth) = (false, 0_usize);
    for c in text.chars() {
        let is_separator = c == at && !is_escaped && depth == 0;
        match c {
            '{' if !is_escaped => depth += 1,
            '}' if !is_escaped => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        if is_separator {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

fn split_once(text: &str, at: char) -> Option<(String, String)> {
    let parts = split(text, at);
    let (key, rest) = parts.split_first()?;
    (!rest.is_empty()).then(|| (key.clone(), rest.join(&at.to_string())))
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut is_escaped = false;
    for c in text.chars() {
        if c == '\\' && !is_escaped {
            is_escaped = true;
        } else {
            is_escaped = false;
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(text: &str) -> Value {
        let mut values = Map::new();
        set(&mut values, text, false).unwrap();
        Value::Object(values)
    }

    /// What Helm makes of the same texts.
    #[test]
    fn texts_mean_what_they_mean_to_helm() {
        for (text, expected) in [
            ("a=b", json!({ "a": "b" })),
            ("a.b=c,a.d=1", json!({ "a": { "b": "c", "d": 1 } })),
            ("a[1].b=true", json!({ "a": [null, { "b": true }] })),
            ("a={x,y},b={}", json!({ "a": ["x", "y"], "b": [] })),
            ("a\\.b=c\\,d", json!({ "a.b": "c,d" })),
            ("a=", json!({ "a": "" })),
            (
                "a=null,b=0,c=007,d=-3",
                json!({ "a": null, "b": 0, "c": "007", "d": -3 }),
            ),
            (
                "url=https://example.com?a=b",
                json!({ "url": "https://example.com?a=b" }),
            ),
            (
                "node\\.kubernetes\\.io/role=x",
                json!({ "node.kubernetes.io/role": "x" }),
            ),
        ] {
            assert_eq!(values(text), expected, "{text}");
        }
        let mut texts = Map::new();
        set(&mut texts, "a=1,b=true", true).unwrap();
        assert_eq!(Value::Object(texts), json!({ "a": "1", "b": "true" }));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = |text| set(&mut Map::new(), text, false).unwrap_err().to_string();
        assert_eq!(error("a"), r#""a" has no value; write key=value"#);
        for key in ["=b", "a.=b", "a[x]=b", "a[0=b", "a[0]c=b", "a[70000]=b"] {
            assert!(error(key).contains("is invalid"), "{key}");
        }
        assert_eq!(
            error("a=1,a.b=2"),
            r#""a.b" goes through a value that is no mapping"#
        );
    }

    #[test]
    fn the_depth_of_a_key_is_limited() {
        let nested = |depth| vec!["a"; depth].join(".");
        for (depth, is_valid) in [(MAX_NESTING, true), (MAX_NESTING + 1, false)] {
            let result = insert(&mut Map::new(), &nested(depth), json!(1));
            assert_eq!(result.is_ok(), is_valid, "{depth}");
        }
    }
}

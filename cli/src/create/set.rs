//! `--set`, in the syntax of Helm.
//!
//! ```text
//! a.b=c,d[0].e=1,f={x,y},g\.h=true,i=null
//! ```

use serde_json::{Map, Value};
use thiserror::Error;

/// As in Helm.
const MAX_INDEX: usize = 65_536;
const MAX_STEPS: usize = 30;

/// A text that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SetError {
    /// There is no `=`.
    #[error("{0:?} has no value; write key=value")]
    NoValue(String),
    /// A part of the key is empty or cannot be read.
    #[error("the key {0:?} is invalid; write a.b, a[0] or a[0].b, and \\. for a dot in a name")]
    Key(String),
    /// A list has no end.
    #[error(
        "the list of {0:?} has no end; close it with }}, or write \\{{ for a text that starts with a brace"
    )]
    List(String),
    /// The key leads through a value that is no mapping or no list.
    #[error("{key:?} goes through a value that is no {expected}")]
    Type {
        key: String,
        /// `mapping` or `list`.
        expected: &'static str,
    },
}

/// A step of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The name of an entry.
    Name(String),
    /// The index of an item.
    Index(usize),
}

/// A value, and where it is set.
#[derive(Clone, Debug, PartialEq)]
struct Assignment {
    /// The key, as it was written.
    key: String,
    /// Its steps; at least one, and the first is a name.
    steps: Vec<Step>,
    value: Value,
}

/// Sets what a text has, such as `a.b=c,d=1`. Values are texts if `is_text`, otherwise they have the type that they look like.
///
/// # Errors
/// If the text is invalid.
pub fn set(values: &mut Map<String, Value>, text: &str, is_text: bool) -> Result<(), SetError> {
    let assignments = assignments(text, is_text)?;
    assignments.iter().try_for_each(|one| one.apply(values))
}

/// What a text sets.
///
/// # Errors
/// If the text is invalid.
fn assignments(text: &str, is_text: bool) -> Result<Vec<Assignment>, SetError> {
    let mut scanner = Scanner { text, at: 0 };
    let mut found = Vec::new();
    while !scanner.rest().is_empty() {
        let start = scanner.at;
        let (steps, end) = scanner.steps()?;
        let key = scanner.since(start);
        if end != Some('=') {
            return Err(SetError::NoValue(key.trim_end_matches(',').to_owned()));
        }
        let key = key.trim_end_matches('=');
        found.push(Assignment {
            steps,
            value: scanner.value(key, is_text)?,
            key: key.to_owned(),
        });
    }
    Ok(found)
}

impl Assignment {
    /// Sets the value.
    ///
    /// # Errors
    /// If the key leads through a value that is no mapping or no list.
    fn apply(&self, values: &mut Map<String, Value>) -> Result<(), SetError> {
        let mut root = Value::Object(std::mem::take(values));
        let result = put(&mut root, &self.steps, self.value.clone(), &self.key);
        if let Value::Object(entries) = root {
            *values = entries;
        }
        result
    }
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

/// A text, and how far it was read.
#[derive(Debug)]
struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scanner<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Reads up to one of some characters, which is read too, or to the end. A backslash takes the meaning of the character after it.
    fn until(&mut self, ends: &[char]) -> (String, Option<char>) {
        let (mut found, mut is_escaped) = (String::new(), false);
        for c in self.rest().chars() {
            self.at += c.len_utf8();
            if is_escaped {
                is_escaped = false;
                found.push(c);
            } else if ends.contains(&c) {
                return (found, Some(c));
            } else if c == '\\' {
                is_escaped = true;
            } else {
                found.push(c);
            }
        }
        (found, None)
    }

    /// Reads the steps of a key, and the character after it: `=`, `,` or none.
    fn steps(&mut self) -> Result<(Vec<Step>, Option<char>), SetError> {
        let start = self.at;
        let (mut steps, mut is_after_index) = (Vec::new(), false);
        loop {
            let (name, end) = self.until(&['=', '[', ',', '.']);
            let invalid =
                |scanner: &Self| SetError::Key(scanner.since(start).trim_end_matches('=').to_owned());
            // A name, or nothing after an index.
            if name.is_empty() != is_after_index || steps.len() >= MAX_STEPS {
                return Err(invalid(self));
            }
            if !is_after_index {
                steps.push(Step::Name(name));
            }
            is_after_index = end == Some('[');
            if is_after_index {
                let (index, bracket) = self.until(&[']']);
                let index = index.parse().ok().filter(|index| *index <= MAX_INDEX);
                let index = index.filter(|_| bracket.is_some()).ok_or_else(|| invalid(self))?;
                steps.push(Step::Index(index));
            } else if end != Some('.') {
                return Ok((steps, end));
            }
        }
    }

    /// Reads a value, or a list in braces, and the comma after it. Braces elsewhere mean nothing.
    fn value(&mut self, key: &str, is_text: bool) -> Result<Value, SetError> {
        let Some(_) = self.rest().strip_prefix('{') else {
            let (text, _) = self.until(&[',']);
            return Ok(typed(text, is_text));
        };
        self.at += 1;
        let mut items = Vec::new();
        loop {
            let (item, end) = self.until(&[',', '}']);
            items.push(typed(item, is_text));
            match end {
                Some('}') => break,
                Some(_) => {}
                None => return Err(SetError::List(key.to_owned())),
            }
        }
        if self.rest().starts_with(',') {
            self.at += 1;
        }
        Ok(Value::Array(items))
    }
}

/// A value as it looks like: Helm takes True and NULL too, and a number with a leading zero is a text.
fn typed(text: String, is_text: bool) -> Value {
    if is_text {
        return text.into();
    }
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") || is("false") {
        is("true").into()
    } else if is("null") {
        Value::Null
    } else if text == "0" {
        0.into()
    } else if text.starts_with('0') {
        text.into()
    } else {
        text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
    }
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

    /// What strvals of Helm 4.2.4 makes of the same texts.
    #[test]
    fn texts_mean_what_they_mean_to_helm() {
        for (text, expected) in [
            ("a=b", json!({ "a": "b" })),
            ("a.b=c,a.d=1", json!({ "a": { "b": "c", "d": 1 } })),
            ("a[1].b=true", json!({ "a": [null, { "b": true }] })),
            ("a={x,y},b={}", json!({ "a": ["x", "y"], "b": [""] })),
            ("a\\.b=c\\,d", json!({ "a.b": "c,d" })),
            ("a=", json!({ "a": "" })),
            ("a=,b=1", json!({ "a": "", "b": 1 })),
            ("a=1,", json!({ "a": 1 })),
            ("a=b=c,d\\=e=1", json!({ "a": "b=c", "d=e": 1 })),
            ("a=b\\\\c,d=1,e=\\", json!({ "a": "b\\c", "d": 1, "e": "" })),
            (
                "a=True,b=FALSE,c=Null,d=nuLL",
                json!({ "a": true, "b": false, "c": null, "d": null }),
            ),
            ("a=True false,b= true", json!({ "a": "True false", "b": " true" })),
            (
                "a=1.5,b=9223372036854775808,c=+4,d=0x1",
                json!({ "a": "1.5", "b": "9223372036854775808", "c": 4, "d": "0x1" }),
            ),
            // Braces mean a list only at the start of a value.
            ("a=x{y,b=1", json!({ "a": "x{y", "b": 1 })),
            ("a=x},b= {x}", json!({ "a": "x}", "b": " {x}" })),
            ("a=\\{x,b=1", json!({ "a": "{x", "b": 1 })),
            ("a={{x,y}", json!({ "a": ["{x", "y"] })),
            ("a={x\\,y,z\\}}", json!({ "a": ["x,y", "z}"] })),
            ("a={x=y,z=1},b=2", json!({ "a": ["x=y", "z=1"], "b": 2 })),
            ("a={x,y}b=1", json!({ "a": ["x", "y"], "b": 1 })),
            ("a={1,True,null,,x y}", json!({ "a": [1, true, null, "", "x y"] })),
            ("a[0]={x,y},a[1]=z", json!({ "a": [["x", "y"], "z"] })),
            ("a[0][1]=x", json!({ "a": [[null, "x"]] })),
            ("a{b=1,{c=2", json!({ "a{b": 1, "{c": 2 })),
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
        assert_eq!(error("b=1,a,c=1"), r#""a" has no value; write key=value"#);
        assert_eq!(error("a={x,y}z,b=2"), r#""z" has no value; write key=value"#);
        assert!(error("a={x").starts_with(r#"the list of "a" has no end"#));
        for key in [
            "=b",
            "a.=b",
            "a[x]=b",
            "a[0=b",
            "a[0]c=b",
            "a[70000]=b",
            "a[-1]=b",
            "a[0][=b",
        ] {
            assert!(error(key).contains("is invalid"), "{key}");
        }
        assert_eq!(
            error("a=1,a.b=2"),
            r#""a.b" goes through a value that is no mapping"#
        );
    }

    #[test]
    fn the_depth_of_a_key_is_limited() {
        let nested = |depth| vec!["a"; depth].join(".") + "=1";
        for (depth, is_valid) in [(MAX_STEPS, true), (MAX_STEPS + 1, false)] {
            let result = set(&mut Map::new(), &nested(depth), false);
            assert_eq!(result.is_ok(), is_valid, "{depth}");
        }
    }
}

//! The values of `valuesFrom` and inline ones, as Flux merges them.
//!
//! Entries are merged in their order. Before a value is set at a `targetPath`, and at the end, the inline values are merged in. So they would
//! override it; but mappings that only they have are shared with the result, not copied, and what is set in these is set in both.

use helmops_core::targeting::merge::deep_merge;
use serde_json::{Map, Value};

use crate::create::set::{Assignment, SetError, Step, assignments};

const QUOTES: [char; 2] = ['\'', '"'];

/// Values of a HelmRelease.
#[derive(Debug)]
pub struct Merged {
    /// Without those of Secrets, which stay Secrets.
    result: Map<String, Value>,
    /// With those of Secrets.
    complete: Map<String, Value>,
    inline: Map<String, Value>,
}

impl Merged {
    /// Nothing but inline values.
    pub fn new(inline: Map<String, Value>) -> Self {
        Self {
            result: Map::new(),
            complete: Map::new(),
            inline,
        }
    }

    /// Merges the values of an entry.
    pub fn add(&mut self, values: Map<String, Value>) {
        deep_merge(&mut self.complete, values.clone());
        deep_merge(&mut self.result, values);
    }

    /// Merges the values of an entry that stays a Secret.
    pub fn add_secret(&mut self, values: Map<String, Value>) {
        deep_merge(&mut self.complete, values);
    }

    /// What overrides the values of all entries in the end.
    pub const fn inline(&self) -> &Map<String, Value> {
        &self.inline
    }

    /// Sets a value at a path: it has the syntax of `helm --set`, that of `--set-string` in quotes, or none if it is literal.
    ///
    /// # Errors
    /// If path or value are invalid.
    pub fn set(&mut self, path: &str, text: &str, is_literal: bool) -> Result<(), SetError> {
        let quoted = QUOTES
            .iter()
            .any(|quote| text.starts_with(*quote) && text.ends_with(*quote));
        let assignments = if is_literal {
            vec![Assignment::at(path, text.into())?]
        } else if quoted {
            assignments(&format!("{path}={}", text.trim_matches(QUOTES)), true)?
        } else {
            assignments(&format!("{path}={text}"), false)?
        };
        let before = self.complete.clone();
        for all in [&mut self.result, &mut self.complete] {
            deep_merge(all, self.inline.clone());
        }
        for assignment in assignments {
            assignment.apply(&mut self.complete)?;
            assignment.apply(&mut self.result)?;
            if is_shared(&before, &self.inline, &assignment.steps) {
                assignment.apply(&mut self.inline)?;
            }
        }
        Ok(())
    }

    /// The values.
    pub fn finish(mut self) -> Map<String, Value> {
        deep_merge(&mut self.result, self.inline);
        self.result
    }
}

/// Whether the mapping or list at the end of a path is that of the inline values, after they were merged into `before`.
fn is_shared(before: &Map<String, Value>, inline: &Map<String, Value>, steps: &[Step]) -> bool {
    let [Step::Name(name), rest @ ..] = steps else {
        return false;
    };
    match (before.get(name), inline.get(name), rest) {
        (_, _, []) => false,
        (Some(Value::Object(before)), Some(Value::Object(inline)), rest) => is_shared(before, inline, rest),
        (_, Some(Value::Object(_)), _) => true,
        // A longer list is another one.
        (_, Some(Value::Array(items)), [Step::Index(index), ..]) => *index < items.len(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn at(path: &str, text: &str, is_literal: bool) -> Value {
        let mut merged = Merged::new(Map::new());
        merged.set(path, text, is_literal).unwrap();
        Value::Object(merged.finish())
    }

    #[test]
    fn a_value_has_the_syntax_of_helms_set() {
        for (text, expected) in [
            ("1.10", json!({ "a": "1.10" })),
            ("0123", json!({ "a": "0123" })),
            ("0x10", json!({ "a": "0x10" })),
            ("1e3", json!({ "a": "1e3" })),
            ("", json!({ "a": "" })),
            ("~", json!({ "a": "~" })),
            ("true", json!({ "a": true })),
            ("42", json!({ "a": 42 })),
            ("null", json!({ "a": null })),
            ("x\\,y", json!({ "a": "x,y" })),
            ("{a,b}", json!({ "a": ["a", "b"] })),
            ("x,b=y", json!({ "a": "x", "b": "y" })),
            ("a: b", json!({ "a": "a: b" })),
            ("'true'", json!({ "a": "true" })),
            ("\"42\"", json!({ "a": "42" })),
            ("line\n", json!({ "a": "line\n" })),
        ] {
            assert_eq!(at("a", text, false), expected, "{text:?}");
        }
        assert_eq!(at("a", "x,b={\\,'1'", true), json!({ "a": "x,b={\\,'1'" }));
        assert_eq!(at("a.b[1]", "x", false), json!({ "a": { "b": [null, "x"] } }));
        assert_eq!(at("a\\.b", "x", true), json!({ "a.b": "x" }));
    }

    #[test]
    fn lists_are_changed_in_place() {
        let mut merged = Merged::new(Map::new());
        merged.set("list.example", "{a,b,c}", false).unwrap();
        merged.set("list.example[2]", "d", false).unwrap();
        let expected = json!({ "list": { "example": ["a", "b", "d"] } });
        assert_eq!(Value::Object(merged.finish()), expected);
        let error = Merged::new(values(json!({ "a": "text" }))).set("a.b", "x", false);
        assert!(error.is_err());
    }

    /// What `ChartValuesFromReferences` of fluxcd/pkg makes of the same values.
    #[test]
    fn inline_values_win_where_flux_lets_them() {
        let merged = |inline: &Value, entries: &[(&str, &str)]| {
            let mut merged = Merged::new(values(inline.clone()));
            for (path, text) in entries {
                match *path {
                    "" => merged.add(values(serde_json::from_str(text).unwrap())),
                    path => merged.set(path, text, false).unwrap(),
                }
            }
            Value::Object(merged.finish())
        };
        let inline = json!({ "replicas": 5, "web": { "replicas": 5, "list": [1, 2] } });
        for (entries, expected) in [
            // A value of the first level is that of the result alone.
            (&[("replicas", "3")][..], inline.clone()),
            (
                &[("other", "3")],
                json!({ "replicas": 5, "web": { "replicas": 5, "list": [1, 2] }, "other": 3 }),
            ),
            (
                &[("web.replicas", "3")],
                json!({ "replicas": 5, "web": { "replicas": 3, "list": [1, 2] } }),
            ),
            // Now the mapping was copied.
            (
                &[("web.replicas", "3"), ("web.replicas", "4")],
                json!({ "replicas": 5, "web": { "replicas": 3, "list": [1, 2] } }),
            ),
            (&[("", "{\"web\": {}}"), ("web.replicas", "3")], inline.clone()),
            (
                &[("web.list[1]", "3")],
                json!({ "replicas": 5, "web": { "replicas": 5, "list": [1, 3] } }),
            ),
            (
                &[("web.list[3]", "3")],
                json!({ "replicas": 5, "web": { "replicas": 5, "list": [1, 2, null, 3] } }),
            ),
            (
                &[("", "{\"web\": {\"list\": [7]}}"), ("web.list[1]", "3")],
                json!({ "replicas": 5, "web": { "replicas": 5, "list": [1, 3] } }),
            ),
            (
                &[("", "{\"replicas\": 1, \"web\": {\"list\": null}}")],
                inline.clone(),
            ),
        ] {
            assert_eq!(merged(&inline, entries), expected, "{entries:?}");
        }
    }
}

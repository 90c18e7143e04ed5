//! The documents of a file, and where their fields are.

use std::collections::BTreeMap;

use gotmpl::yaml::{self, Quota};
use granit_parser::{Event, Parser, StrInput};
use serde_json::Value;

use crate::failure::Failure;

/// How deep positions are known. Deeper fields have that of their parent.
const MAX_DEPTH: usize = 40;

/// An object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its fields.
    pub object: Value,
    /// Line and column of each field, by its path such as `spec.values.a` or `spec.valuesFrom[0]`.
    pub positions: BTreeMap<String, (usize, usize)>,
}

impl Document {
    /// A text at a path of names.
    pub fn text(&self, pointer: &str) -> &str {
        self.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Kind, namespace and name, such as `HelmRelease shop/web`.
    pub fn title(&self) -> String {
        let (kind, name) = (self.text("/kind"), self.text("/metadata/name"));
        match self.text("/metadata/namespace") {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }

    /// The group of its API.
    pub fn group(&self) -> &str {
        self.text("/apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// Line and column of a field, or of the nearest one around it.
    pub fn position(&self, path: &str) -> Option<(usize, usize)> {
        let mut path = path;
        loop {
            if let Some(position) = self.positions.get(path) {
                return Some(*position);
            }
            path = path.rfind(['.', '[']).and_then(|end| path.get(..end))?;
        }
    }
}

/// The objects of a text with YAML documents.
///
/// # Errors
/// If one is no YAML, or no object.
pub fn documents(text: &str) -> Result<Vec<Document>, Failure> {
    let mut found = Vec::new();
    for (line, part) in split(text) {
        let read = yaml::read_exact(part, &mut Quota::default());
        let object = read.map_err(|error| {
            Failure::unable(format!(
                "the document from line {} on is invalid: {error}",
                line + 1
            ))
        })?;
        match object {
            Value::Null => {}
            Value::Object(_) => flatten(
                Document {
                    object,
                    positions: positions(part, line),
                },
                &mut found,
            ),
            _ => {
                return Err(Failure::unable(format!(
                    "the document from line {} on is no object",
                    line + 1
                )));
            }
        }
    }
    Ok(found)
}

/// Adds an object, or the items of a list, as `kubectl get -o yaml` prints several objects.
fn flatten(document: Document, into: &mut Vec<Document>) {
    let is_list = document.text("/kind").ends_with("List");
    let items = document.object.get("items").and_then(Value::as_array);
    let (true, Some(items)) = (is_list, items) else {
        into.push(document);
        return;
    };
    for (index, object) in items.iter().enumerate() {
        let prefix = format!("items[{index}].");
        let own = document.positions.iter();
        let own = own.filter_map(|(path, at)| Some((path.strip_prefix(&prefix)?.to_owned(), *at)));
        into.push(Document {
            object: object.clone(),
            positions: own.collect(),
        });
    }
}

/// The documents, each with the number of lines before it.
fn split(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut start, mut first) = (Vec::new(), 0, 0);
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if line.starts_with("---") {
            parts.push((first, text.get(start..offset).unwrap_or_default()));
            start = offset + line.len();
            first = number + 1;
        }
        offset += line.len();
    }
    parts.push((first, text.get(start..).unwrap_or_default()));
    parts
}

/// Where the keys of mappings and the items of lists are.
fn positions(text: &str, lines_before: usize) -> BTreeMap<String, (usize, usize)> {
    let mut walk = Walk {
        parser: Parser::new_from_str(text),
        found: BTreeMap::new(),
        lines_before,
    };
    // The text was read before; what cannot be read again has no positions.
    while let Some((event, at)) = walk.next() {
        match event {
            Event::StreamStart | Event::DocumentStart(..) => {}
            Event::StreamEnd => break,
            event => {
                walk.node(&event, "", at, 0);
                break;
            }
        }
    }
    walk.found
}

struct Walk<'t> {
    parser: Parser<'t, StrInput<'t>>,
    found: BTreeMap<String, (usize, usize)>,
    lines_before: usize,
}

impl<'t> Walk<'t> {
    fn next(&mut self) -> Option<(Event<'t>, (usize, usize))> {
        loop {
            let (event, span) = self.parser.next_event()?.ok()?;
            if !matches!(event, Event::Comment(..)) {
                let at = (span.start.line() + self.lines_before, span.start.col() + 1);
                return Some((event, at));
            }
        }
    }

    fn node(&mut self, event: &Event<'t>, path: &str, at: (usize, usize), depth: usize) -> Option<()> {
        if !path.is_empty() && depth <= MAX_DEPTH {
            self.found.entry(path.to_owned()).or_insert(at);
        }
        match event {
            Event::SequenceStart(..) => {
                let mut index = 0;
                loop {
                    let (event, at) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        return Some(());
                    }
                    self.node(&event, &format!("{path}[{index}]"), at, depth + 1)?;
                    index += 1;
                }
            }
            Event::MappingStart(..) => loop {
                let (key, at) = self.next()?;
                match &key {
                    Event::MappingEnd => return Some(()),
                    Event::Scalar(name, ..) => {
                        let inner = if path.is_empty() {
                            name.to_string()
                        } else {
                            format!("{path}.{name}")
                        };
                        let (value, _) = self.next()?;
                        // The key is where a person looks for a field.
                        self.node(&value, &inner, at, depth + 1)?;
                    }
                    key => {
                        self.node(key, path, at, depth + 1)?;
                        let (value, at) = self.next()?;
                        self.node(&value, path, at, depth + 1)?;
                    }
                }
            },
            _ => Some(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_their_document() {
        let text = "# first\nkind: A\n---\nkind: B\nmetadata:\n  name: b\nspec:\n  list:\n    - x: 1\n    # comment\n    - y: &a {z: 2}\n";
        let found = documents(text).unwrap();
        assert_eq!(found.len(), 2);
        let second = &found[1];
        assert_eq!(second.title(), "B b");
        for (path, expected) in [
            ("kind", (4, 1)),
            ("metadata.name", (6, 3)),
            ("spec.list", (8, 3)),
            ("spec.list[0].x", (9, 7)),
            ("spec.list[1].y.z", (11, 14)),
            ("spec.list[1].y.unknown", (11, 7)),
        ] {
            assert_eq!(second.position(path), Some(expected), "{path}");
        }
        assert_eq!(found[0].position("kind"), Some((2, 1)));
    }

    #[test]
    fn the_items_of_a_list_are_objects() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- kind: A\n  metadata: {name: a}\n- kind: B\n  spec:\n    x: 1\n";
        let found = documents(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].title(), "A a");
        assert_eq!(found[1].position("spec.x"), Some((8, 5)));
    }

    #[test]
    fn a_document_that_is_no_object_is_named_by_its_line() {
        let error = documents("a: 1\n---\n- b\n").unwrap_err();
        assert_eq!(error.message, "the document from line 3 on is no object");
        assert!(
            documents("a: [\n")
                .unwrap_err()
                .message
                .starts_with("the document from line 1 on is invalid")
        );
    }
}

//! The documents of a file, and where their fields are.

use std::sync::Arc;

use gotmpl::yaml::{self, Quota, place::Place};
use serde_json::Value;

use crate::{
    failure::Failure,
    validate::{documents, locate::locate_field, source::Source},
};

/// Whether a label or an annotation is neither of Flux nor of kubectl.
pub fn is_of_user(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    !prefix.ends_with("fluxcd.io") && prefix != "kubectl.kubernetes.io"
}

/// An object of a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its fields.
    pub object: Value,
    /// Where they are.
    place: Place,
    source: Arc<Source>,
}

impl Document {
    /// The object, or the items of a list, as `kubectl get -o yaml` prints several objects.
    fn flatten(mut self) -> Vec<Self> {
        let is_list = self.text("/kind").ends_with("List");
        let items = self
            .object
            .get_mut("items")
            .filter(|items| is_list && items.is_array());
        let (Some(Value::Array(objects)), Some(items)) = (items.map(Value::take), self.place.entry("items"))
        else {
            return vec![self];
        };
        let places = (0..).map_while(|index| items.value.item(index));
        let documents = objects.into_iter().zip(places).map(|(object, place)| Self {
            object,
            place: place.clone(),
            source: Arc::clone(&self.source),
        });
        documents.collect()
    }

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
        let region = self.source.region(locate_field(&self.source, &self.place, path)?);
        Some((region.line, region.column))
    }
}

/// The objects of a text with YAML documents.
///
/// # Errors
/// If one is no YAML, or no object.
pub fn documents(text: &str) -> Result<Vec<Document>, Failure> {
    let source = Arc::new(Source::new(String::new(), text.to_owned()));
    let mut found = Vec::new();
    for span in documents::split(text).spans {
        let from_line = || format!("the document from line {} on", source.region(span).line);
        let read = yaml::read_located(source.slice(span), &mut Quota::default());
        let read = read.map_err(|error| Failure::unable(format!("{} is invalid: {error}", from_line())))?;
        match (read.value, read.place) {
            (Value::Null, _) => {}
            (object @ Value::Object(_), Some(mut place)) => {
                place.shift(span.start);
                let source = Arc::clone(&source);
                found.extend(
                    Document {
                        object,
                        place,
                        source,
                    }
                    .flatten(),
                );
            }
            _ => return Err(Failure::unable(format!("{} is no object", from_line()))),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_their_document() {
        let text = "# first\nkind: A\n---\nkind: B\nmetadata:\n  name: b\nspec:\n  list:\n    - x: 1\n    # comment\n    - b: &a {z: 2}\n";
        let found = documents(text).unwrap();
        assert_eq!(found.len(), 2);
        let second = &found[1];
        assert_eq!(second.title(), "B b");
        for (path, expected) in [
            ("kind", (4, 1)),
            ("metadata.name", (6, 3)),
            ("spec.list", (8, 3)),
            ("spec.list[0].x", (9, 7)),
            ("spec.list[1].b.z", (11, 14)),
            ("spec.list[1].b.unknown", (11, 7)),
        ] {
            assert_eq!(second.position(path), Some(expected), "{path}");
        }
        assert_eq!(found[0].position("kind"), Some((2, 1)));
        assert_eq!(found[0].position("unknown"), None);
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

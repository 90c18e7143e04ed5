//! The content of a Secret or ConfigMap of a file, as texts.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::documents::Document;
use crate::create::note::{Gap, Note};

/// How a text starts that SOPS has encrypted.
const ENCRYPTED: &str = "ENC[";
const BINARY: &str = "this is no text in base64";

/// The texts of an object by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Those that can be read; bytes that are no text are replaced.
    pub readable: BTreeMap<String, String>,
    /// Why others cannot, by their paths.
    unreadable: BTreeMap<String, &'static str>,
    is_encrypted: bool,
}

impl Texts {
    /// Those of a Secret or ConfigMap. Texts of `stringData` take precedence.
    pub fn of(document: &Document) -> Self {
        let is_secret = document.text("/kind") == "Secret";
        let mut texts = Self::default();
        texts.add(document, "data", is_secret);
        texts.add(document, "stringData", false);
        texts
    }

    fn add(&mut self, document: &Document, field: &str, is_encoded: bool) {
        let none = Map::new();
        let entries = document.object.get(field).and_then(Value::as_object);
        for (key, value) in entries.unwrap_or(&none) {
            if value.as_str().is_some_and(|text| text.starts_with(ENCRYPTED)) {
                self.is_encrypted = true;
                continue;
            }
            match read(value, is_encoded) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if text.as_bytes() != bytes {
                        self.unreadable.insert(format!("{field}.{key}"), BINARY);
                    }
                    self.readable.insert(key.clone(), text);
                }
                Err(problem) => {
                    self.unreadable.insert(format!("{field}.{key}"), problem);
                }
            }
        }
    }

    /// Whether a text is encrypted. Then the object is of no use.
    pub const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// What cannot be read: nothing can be converted without it. Bytes that are no text matter only under a key that is used.
    pub fn notes(&self, document: &Document, is_used: impl Fn(&str) -> bool) -> Vec<Note> {
        let matters = |(path, problem): &(&String, &&str)| {
            **problem != BINARY || path.split_once('.').is_some_and(|(_, key)| is_used(key))
        };
        let note = |(path, problem): (&String, &&str)| Note {
            object: document.title(),
            path: path.clone(),
            position: document.position(path),
            text: format!("{problem}; correct it, or remove the object from the file and create it yourself"),
            gap: Gap::Source,
        };
        self.unreadable.iter().filter(matters).map(note).collect()
    }
}

fn read(value: &Value, is_encoded: bool) -> Result<Vec<u8>, &'static str> {
    let text = match value {
        Value::Null => "",
        Value::String(text) => text,
        _ => return Err("this is no text"),
    };
    if !is_encoded {
        return Ok(text.as_bytes().to_vec());
    }
    // The API server ignores line breaks too.
    let text: String = text.split_ascii_whitespace().collect();
    STANDARD.decode(text).map_err(|_| "this is no base64")
}

#[cfg(test)]
mod tests {
    use super::{super::documents::documents, *};

    fn texts(text: &str) -> (Document, Texts) {
        let (mut documents, _) = documents("a.yaml", text.to_owned(), &["HelmRelease"]);
        let document = documents.remove(0);
        let texts = Texts::of(&document);
        (document, texts)
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let text = "kind: Secret\nmetadata: {name: s}\ndata:\n  a: YWJj\n  c: no base64!\n  d: /w==\n  e: 5\n  f:\n  g: |\n    YW\n    \
                    Jj\nstringData:\n  a: d\n";
        let (document, texts) = texts(text);
        let readable: Vec<_> = texts
            .readable
            .iter()
            .map(|(key, text)| (&**key, &**text))
            .collect();
        assert_eq!(readable, [("a", "d"), ("d", "\u{fffd}"), ("f", ""), ("g", "abc")]);
        assert!(!texts.is_encrypted());
        assert_eq!(texts.notes(&document, |_| false).len(), 2);
        let notes = texts.notes(&document, |key| key == "d");
        let notes: Vec<_> = notes
            .iter()
            .map(|note| {
                let line = note.position.as_ref().unwrap().line;
                (&*note.path, line, note.text.split(';').next().unwrap())
            })
            .collect();
        assert_eq!(
            notes,
            [
                ("data.c", 5, "this is no base64"),
                ("data.d", 6, "this is no text in base64"),
                ("data.e", 7, "this is no text"),
            ]
        );
    }

    #[test]
    fn a_secret_of_sops_is_encrypted() {
        for field in ["data", "stringData"] {
            let text = format!("kind: Secret\n{field}: {{a: 'ENC[AES256_GCM,data:x]'}}\n");
            let (document, texts) = texts(&text);
            assert!(texts.is_encrypted(), "{field}");
            assert_eq!(texts.notes(&document, |_| true), []);
        }
    }
}

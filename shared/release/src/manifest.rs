//! The objects of a manifest: YAML documents, as Helm records them.

use go_formats::yaml::{self, Quota, ReadError};
use serde_json::{Map, Value};
use thiserror::Error;

mod edit;

pub use self::edit::{Edit, edit, is_incomplete, recorded};

/// Maximum bytes of a manifest.
pub const MAX_BYTES: usize = 32 << 20;
/// Maximum number of objects in a manifest.
pub const MAX_OBJECTS: usize = 10_000;
/// Maximum number of keys and values in a manifest, with aliases expanded. They take up to 200 MB.
pub const MAX_NODES: usize = 2_000_000;
/// Maximum bytes of keys and values in a manifest, with aliases expanded.
pub const MAX_SCALARS: usize = 2 * MAX_BYTES;
/// Bytes of a document that an error quotes.
const QUOTED: usize = 80;

/// Why the objects of a manifest cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ManifestError {
    /// It is larger than [`MAX_BYTES`].
    #[error("the manifest has {0} bytes, more than the maximum of {MAX_BYTES}")]
    TooLarge(usize),
    /// It has more objects than [`MAX_OBJECTS`].
    #[error("the manifest has more than {MAX_OBJECTS} objects")]
    TooMany,
    /// It has more content than [`MAX_NODES`] or [`MAX_SCALARS`].
    #[error("the manifest is too large: {0}; divide the chart into several")]
    TooMuchContent(ReadError),
    /// A document is not YAML.
    #[error("document {number} of the manifest ({start:?}) is invalid: {error}")]
    Yaml {
        /// Which document, from 1.
        number: usize,
        /// How it starts.
        start: String,
        /// What is wrong.
        error: ReadError,
    },
    /// A document is a scalar or a list.
    #[error("document {number} of the manifest ({start:?}) is not an object")]
    NoObject {
        /// Which document, from 1.
        number: usize,
        /// How it starts.
        start: String,
    },
}

/// The objects of a manifest, in their order; those of a list such as `ConfigMapList` in its place.
///
/// It is read as Kubernetes' clients for Go do: YAML 1.1, and integers of 64 bits. An empty document is no object.
///
/// # Errors
/// If a document is invalid, or if there are too many.
pub fn objects(manifest: &str) -> Result<Vec<Value>, ManifestError> {
    Reader::default().objects(manifest)
}

/// Reads the parts of a manifest within the limits for all of it.
pub(crate) struct Reader {
    bytes: usize,
    objects: usize,
    quota: Quota,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            bytes: 0,
            objects: 0,
            quota: quota(),
        }
    }
}

impl Reader {
    /// As [`objects`].
    pub(crate) fn objects(&mut self, part: &str) -> Result<Vec<Value>, ManifestError> {
        let mut objects = Vec::new();
        for document in self.documents(part)? {
            flatten(document, None, &mut objects)?;
        }
        self.count(objects.len())?;
        Ok(objects.into_iter().map(Value::Object).collect())
    }

    /// The documents that have a content.
    fn documents(&mut self, part: &str) -> Result<Vec<Map<String, Value>>, ManifestError> {
        self.bytes += part.len();
        if self.bytes > MAX_BYTES {
            return Err(ManifestError::TooLarge(self.bytes));
        }
        let mut found = Vec::new();
        for (index, document) in yaml::documents(part).enumerate() {
            found.extend(read(index + 1, document, &mut self.quota)?);
            if found.len() > MAX_OBJECTS {
                return Err(ManifestError::TooMany);
            }
        }
        Ok(found)
    }

    fn count(&mut self, objects: usize) -> Result<(), ManifestError> {
        self.objects += objects;
        if self.objects > MAX_OBJECTS {
            return Err(ManifestError::TooMany);
        }
        Ok(())
    }
}

const fn quota() -> Quota {
    Quota::new(MAX_NODES, MAX_SCALARS)
}

/// A document; `None` if it has no content.
fn read(
    number: usize,
    document: &str,
    quota: &mut Quota,
) -> Result<Option<Map<String, Value>>, ManifestError> {
    match yaml::read_exact(document, quota) {
        Ok(Value::Null) => Ok(None),
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => {
            let start = start(document);
            Err(ManifestError::NoObject { number, start })
        }
        Err(error @ (ReadError::TooManyNodes { .. } | ReadError::TooManyBytes { .. })) => {
            Err(ManifestError::TooMuchContent(error))
        }
        Err(error) => {
            let start = start(document);
            Err(ManifestError::Yaml { number, start, error })
        }
    }
}

/// The first line of a document that is no comment.
fn start(document: &str) -> String {
    let mut lines = document.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    bounded_text::cut(line.unwrap_or_default().to_owned(), QUOTED)
}

/// Adds an object, or the items of a list. An item without a type has that of its list.
pub(crate) fn flatten(
    mut object: Map<String, Value>,
    list_type: Option<(&Value, &str)>,
    into: &mut Vec<Map<String, Value>>,
) -> Result<(), ManifestError> {
    if let Some((api_version, kind)) = list_type
        && !object.contains_key("kind")
    {
        object.insert("apiVersion".to_owned(), api_version.clone());
        object.insert("kind".to_owned(), kind.into());
    }
    let Some(Value::Array(items)) = object.get_mut("items").map(Value::take) else {
        if into.len() >= MAX_OBJECTS {
            return Err(ManifestError::TooMany);
        }
        into.push(object);
        return Ok(());
    };
    let kind = object.get("kind").and_then(Value::as_str);
    let item_kind = kind
        .and_then(|kind| kind.strip_suffix("List"))
        .filter(|kind| !kind.is_empty());
    let api_version = object.get("apiVersion").unwrap_or(&Value::Null);
    let item_type = item_kind.map(|kind| (api_version, kind));
    for item in items {
        if let Value::Object(item) = item {
            flatten(item, item_type, into)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_become_objects_in_their_order() {
        let manifest = "---\n# Source: web/templates/a.yaml\nkind: A\nnumber: 9007199254740993\non: yes\n\n---\n# nothing\n--- # more\nkind: B\ntext: |\n  ---\n  x\n";
        assert_eq!(
            objects(manifest).unwrap(),
            [
                json!({ "kind": "A", "number": 9_007_199_254_740_993_i64, "true": true }),
                json!({ "kind": "B", "text": "---\nx\n" }),
            ]
        );
        assert_eq!(objects("").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn a_list_is_its_items() {
        let manifest = "kind: ConfigMapList\napiVersion: v1\nitems:\n- metadata: {name: a}\n- kind: List\n  items: [{kind: C}]\n---\nkind: D\n";
        assert_eq!(
            objects(manifest).unwrap(),
            [
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }),
                json!({ "kind": "C" }),
                json!({ "kind": "D" }),
            ]
        );
        assert_eq!(objects("kind: List\nitems: []\n").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn an_invalid_document_is_quoted() {
        let error = objects("kind: A\n---\n# Source: b\nkind: [B\n").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("document 2 of the manifest (\"kind: [B\") is invalid:"),
            "{text}"
        );
        let error = objects("just text\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "document 1 of the manifest (\"just text\") is not an object"
        );
    }

    #[test]
    fn size_and_number_are_limited() {
        let many = "---\nkind: A\n".repeat(MAX_OBJECTS + 1);
        assert_eq!(objects(&many), Err(ManifestError::TooMany));
        let list = format!("kind: List\nitems: [{}]", "{a: b},".repeat(MAX_OBJECTS + 1));
        assert_eq!(objects(&list), Err(ManifestError::TooMany));
        let large = " ".repeat(MAX_BYTES + 1);
        assert_eq!(objects(&large), Err(ManifestError::TooLarge(MAX_BYTES + 1)));
    }

    /// A CRD whose schema has many fields below many levels, as those with templates of pods have.
    fn crd(fields: usize) -> String {
        let field = json!({ "type": "object", "properties": { "name": { "type": "string", "description": "A name." } } });
        let fields: Map<_, _> = (0..fields)
            .map(|index| (format!("field{index}"), field.clone()))
            .collect();
        let schema = (0..25).fold(
            Value::Object(fields),
            |properties, _| json!({ "part": { "type": "object", "properties": properties } }),
        );
        format!(
            "{}\n",
            json!({ "kind": "CustomResourceDefinition", "spec": schema })
        )
    }

    #[test]
    fn large_crds_are_read() {
        // 100,000 keys and values below 50 levels.
        assert_eq!(objects(&crd(10_000)).unwrap().len(), 1);
        let list = format!("list: &list [{}]\n", "a, ".repeat(10_000));
        let lists = [list, format!("lists: [{}]\n---\n", "*list, ".repeat(50))].concat();
        let error = objects(&lists.repeat(4)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the manifest is too large: more than 2000000 nodes, with aliases expanded; divide the chart into several"
        );
    }
}

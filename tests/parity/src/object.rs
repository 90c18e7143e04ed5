//! Objects of manifests, and their identity.

use std::fmt;

use go_formats::yaml::{Quota, read_exact};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The identity of an object, without the version of its API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    /// The API group; empty for the core.
    pub group: String,
    pub kind: String,
    /// The namespace; empty without one.
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            kind,
            namespace,
            name,
        } = self;
        let dot = if group.is_empty() { "" } else { "." };
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{kind}{dot}{group} {namespace}{slash}{name}")
    }
}

impl ObjectId {
    /// The identity of an object; one without a namespace has none.
    pub fn of(object: &Value) -> Self {
        let text = |pointer| text(object, pointer);
        let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        Self {
            group: group.to_owned(),
            kind: text("/kind").to_owned(),
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
        }
    }
}

/// The content of documents that are read, far above that of the largest manifests: nodes and bytes, with aliases expanded.
const QUOTA: (usize, usize) = (2_000_000, 64 << 20);

/// A text of an object; empty if it is missing.
pub fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The objects of a manifest, those of lists included. A document that cannot be read is a text.
pub fn documents(manifest: &str) -> Vec<Value> {
    let mut documents = vec![String::new()];
    for line in manifest.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
        }
    }
    let mut objects = Vec::new();
    for document in documents {
        match read_exact(&document, &mut Quota::new(QUOTA.0, QUOTA.1)) {
            Ok(Value::Null) => {}
            Ok(mut list) if list.get("items").is_some_and(Value::is_array) => {
                if let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) {
                    objects.extend(items);
                }
            }
            Ok(object) => objects.push(object),
            Err(_) => objects.push(Value::String(document)),
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_lists_are_objects() {
        let text = "kind: A\nmetadata: {name: x}\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: b/v1, kind: B, metadata: {name: b, namespace: shop}}\n";
        let ids: Vec<_> = documents(text)
            .iter()
            .map(|object| ObjectId::of(object).to_string())
            .collect();
        assert_eq!(ids, ["A x", "B.b shop/b"]);
    }
}

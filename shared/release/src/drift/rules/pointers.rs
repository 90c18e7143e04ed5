//! Fields that are not compared.

use helmops_api::diff::ComparePatch;
use serde_json::Value;

use super::{Report, glob::Glob};
use crate::object::ObjectId;

/// JSON pointers to fields that are not compared.
#[derive(Clone, Debug)]
pub struct PointerRule {
    /// The API group, of any version.
    group: Glob,
    kind: Glob,
    /// Empty for any.
    namespace: String,
    /// Empty for any.
    name: String,
    pointers: Vec<Pointer>,
}

/// The parent of a field, and its key there.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    parent: String,
    key: String,
}

impl PointerRule {
    /// The rule of an entry; `None` if it has none.
    pub(super) fn new(patch: &ComparePatch, report: &mut Report<'_>) -> Option<Self> {
        if patch.json_pointers.is_empty() {
            return None;
        }
        let mut pointers = Vec::new();
        for (index, text) in patch.json_pointers.iter().enumerate() {
            match Pointer::parse(text) {
                Some(pointer) => pointers.push(pointer),
                None => report.add(
                    &format!("jsonPointers[{index}]"),
                    text,
                    "is no JSON pointer to a field; write one as /spec/replicas, with ~1 for a slash in a name",
                ),
            }
        }
        // A version alone is that of the core group.
        let group = patch.api_version.split_once('/').map_or("", |(group, _)| group);
        let mut glob = |field: &str, text: &str| {
            Glob::parse(text)
                .map_err(|error| report.add(field, text, format!("is no glob: {error}")))
                .ok()
        };
        Some(Self {
            group: glob("apiVersion", group)?,
            kind: glob("kind", &patch.kind)?,
            namespace: patch.namespace.clone(),
            name: patch.name.clone(),
            pointers,
        })
    }

    /// Whether the rule is for an object.
    pub fn matches(&self, id: &ObjectId) -> bool {
        let is = |pattern: &str, text: &str| pattern.is_empty() || pattern == text;
        self.kind.matches(&id.kind)
            && self.group.matches(id.group())
            && is(&self.namespace, &id.namespace)
            && is(&self.name, &id.name)
    }

    /// Removes the fields. One that the object does not have is skipped.
    pub fn apply(&self, object: &mut Value) {
        for pointer in &self.pointers {
            pointer.remove(object);
        }
    }
}

impl Pointer {
    /// Parses a pointer; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (parent, key) = text.rsplit_once('/')?;
        if !parent.is_empty() && !parent.starts_with('/') {
            return None;
        }
        Some(Self {
            parent: parent.to_owned(),
            key: key.replace("~1", "/").replace("~0", "~"),
        })
    }

    /// Gives the field the value that it has in another object, or removes it if it has none there. A field in a list is left as it
    /// is, since lists need not have the same order. So is one that `object` does not have.
    pub(super) fn copy(&self, object: &mut Value, from: &Value) {
        if let Some(Value::Object(fields)) = self.parent_of(object)
            && let Some(field) = fields.get_mut(&self.key)
        {
            let live = from
                .pointer(&self.parent)
                .and_then(|parent| parent.get(&self.key));
            match live {
                Some(value) => field.clone_from(value),
                None => {
                    fields.remove(&self.key);
                }
            }
        }
    }

    /// The parent of the field, unless it is in a list.
    fn parent_of<'o>(&self, object: &'o mut Value) -> Option<&'o mut Value> {
        let keys = self.parent.split('/').skip(1);
        keys.into_iter().try_fold(object, |parent, key| {
            let key = key.replace("~1", "/").replace("~0", "~");
            parent.as_object_mut()?.get_mut(&key)
        })
    }

    /// Removes the field. One that the object does not have is skipped.
    pub(super) fn remove(&self, object: &mut Value) {
        match object.pointer_mut(&self.parent) {
            Some(Value::Object(fields)) => {
                fields.remove(&self.key);
            }
            Some(Value::Array(items)) => {
                let index = self.key.parse::<usize>().ok();
                if let Some(index) = index.filter(|index| *index < items.len()) {
                    items.remove(index);
                }
            }
            _ => {}
        }
    }
}

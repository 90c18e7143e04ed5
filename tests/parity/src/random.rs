//! What differs between two renderings of the same chart: generated passwords, certificates, times and what is computed from them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{clean, object::ObjectId};

/// The JSON pointers of values that differ between renderings, by object. An object of which only one rendering has a name is not here.
#[derive(Clone, Debug, Default)]
pub struct Random {
    pointers: BTreeMap<ObjectId, BTreeSet<String>>,
    /// The namespace of the release, in which here all objects are that name none.
    namespace: String,
    /// Names that only one of the renderings has, so that nothing of these objects can be compared.
    names: bool,
}

impl Random {
    /// Compares two renderings.
    pub fn of(one: &[Value], other: &[Value], namespace: &str) -> Self {
        let by_id = |objects: &[Value]| -> BTreeMap<ObjectId, Value> {
            objects
                .iter()
                .map(|object| (in_namespace(object, namespace), object.clone()))
                .collect()
        };
        let (one, other) = (by_id(one), by_id(other));
        let mut random = Self {
            names: !one.keys().eq(other.keys()),
            namespace: namespace.to_owned(),
            ..Self::default()
        };
        for (id, object) in &one {
            let mut pointers = BTreeSet::new();
            if let Some(other) = other.get(id) {
                differing(object, other, "", &mut pointers);
            }
            if !pointers.is_empty() {
                random.pointers.insert(id.clone(), pointers);
            }
        }
        random
    }

    /// Whether anything is random.
    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty() && !self.names
    }

    /// Whether names of objects are random.
    pub fn has_names(&self) -> bool {
        self.names
    }

    pub fn remove(&self, id: &ObjectId, object: &mut Value) {
        let mut id = id.clone();
        if id.namespace.is_empty() {
            id.namespace.clone_from(&self.namespace);
        }
        for pointer in self.pointers.get(&id).into_iter().flatten() {
            clean::remove(object, pointer);
            // The API server moves the texts of a Secret there.
            if let Some(rest) = pointer.strip_prefix("/stringData") {
                clean::remove(object, &format!("/data{rest}"));
            }
        }
    }
}

/// The identity of an object whose namespace is that of the release if it names none.
pub fn in_namespace(object: &Value, namespace: &str) -> ObjectId {
    let mut id = ObjectId::of(object);
    if id.namespace.is_empty() {
        namespace.clone_into(&mut id.namespace);
    }
    id
}

fn differing(one: &Value, other: &Value, pointer: &str, into: &mut BTreeSet<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (one.get(key), other.get(key)) {
                    (Some(one), Some(other)) => differing(one, other, &pointer, into),
                    _ => drop(into.insert(pointer)),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differing(one, other, &format!("{pointer}/{index}"), into);
            }
        }
        _ if one != other => drop(into.insert(pointer.to_owned())),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn random_values_of_secrets_are_removed_where_the_api_server_has_them() {
        let secret = |password: &str| json!({ "kind": "Secret", "metadata": { "name": "a" }, "stringData": { "user": "u", "password": password } });
        let random = Random::of(&[secret("x")], &[secret("y")], "n");
        let mut live = json!({ "data": { "user": "dQ==", "password": "eA==" } });
        let id = in_namespace(&secret("x"), "n");
        random.remove(&id, &mut live);
        assert_eq!(live, json!({ "data": { "user": "dQ==" } }));
        assert!(Random::of(&[secret("x")], &[secret("x")], "n").is_empty());
        // The API server shows one of the whole cluster without a namespace.
        let of_cluster = ObjectId::of(&secret("x"));
        let mut live = json!({ "stringData": { "password": "z" } });
        random.remove(&of_cluster, &mut live);
        assert_eq!(live, json!({ "stringData": {} }));
    }

    #[test]
    fn other_names_are_noticed() {
        let object = |name: &str| json!({ "kind": "Job", "metadata": { "name": name } });
        assert!(Random::of(&[object("a-1")], &[object("a-2")], "n").has_names());
    }
}

//! Which kinds of objects belong to a namespace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether the objects of a kind belong to a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Each is in a namespace.
    Namespaced,
    /// They belong to the whole cluster.
    Cluster,
}

/// The kinds that the API server knows, and those that a chart brings along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(BTreeMap<String, Scope>);

impl Scopes {
    /// Adds a kind; `group` is empty for the core group.
    pub fn insert(&mut self, group: &str, kind: &str, scope: Scope) {
        self.0.insert(key(group, kind), scope);
    }

    /// Adds the kind that an object defines, if it is a CRD.
    pub fn insert_crd(&mut self, object: &Value) {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        if text("/kind") != Some(CRD) {
            return;
        }
        if let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) {
            let is_cluster = text("/spec/scope") == Some("Cluster");
            let scope = if is_cluster {
                Scope::Cluster
            } else {
                Scope::Namespaced
            };
            self.insert(group, kind, scope);
        }
    }

    /// The scope of a kind; `None` if it is not known.
    pub fn get(&self, group: &str, kind: &str) -> Option<Scope> {
        self.0.get(&key(group, kind)).copied()
    }
}

/// The kind of CRDs.
pub(crate) const CRD: &str = "CustomResourceDefinition";

fn key(group: &str, kind: &str) -> String {
    format!("{kind}.{group}")
}

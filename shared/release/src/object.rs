//! The identity of an object of a release.

use std::fmt;

use helmops_api::ObjectName;
use serde_json::Value;

/// The identity of an object: API version, kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// For example `apps/v1`, or `v1` for the core group.
    pub api_version: String,
    /// For example `Deployment`.
    pub kind: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectId {
    /// The identity of an object in JSON; `None` if it lacks a kind or a name.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let id = Self {
            api_version: text("/apiVersion").unwrap_or_default().to_owned(),
            kind: text("/kind").filter(|kind| !kind.is_empty())?.to_owned(),
            namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
            name: text("/metadata/name").filter(|name| !name.is_empty())?.to_owned(),
        };
        Some(id)
    }

    /// The identity of an object of a release. One without a namespace is in that of the release, unless it is an object of the whole
    /// cluster, for which the namespace does not count.
    pub fn in_release(object: &Value, namespace: &str) -> Option<Self> {
        let mut id = Self::of(object)?;
        if id.namespace.is_empty() {
            namespace.clone_into(&mut id.namespace);
        }
        Some(id)
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        group(&self.api_version)
    }

    /// Whether it is the same object: each version of its API has an identity for it.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.group(), &self.kind, &self.namespace, &self.name)
            == (other.group(), &other.kind, &other.namespace, &other.name)
    }
}

/// The group of an API version; empty for the core group.
pub fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// As Fleet shows an object, [`ObjectName`]: `deployment.apps shop/web`.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ObjectName {
            api_version: &self.api_version,
            kind: &self.kind,
            namespace: &self.namespace,
            name: &self.name,
        };
        name.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_shown_as_in_fleet() {
        for (api_version, kind, namespace, expected) in [
            ("v1", "ConfigMap", "shop", "configmap.v1 shop/web"),
            ("apps/v1", "Deployment", "shop", "deployment.apps shop/web"),
            (
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                "",
                "clusterrole.rbac.authorization.k8s.io web",
            ),
            ("", "ConfigMap", "shop", "configmap shop/web"),
        ] {
            let metadata = json!({ "name": "web", "namespace": namespace });
            let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
            assert_eq!(ObjectId::of(&object).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn an_object_has_a_kind_and_a_name() {
        for object in [
            json!({ "kind": "ConfigMap", "metadata": {} }),
            json!({ "metadata": { "name": "web" } }),
            json!("text"),
        ] {
            assert_eq!(ObjectId::of(&object), None);
        }
    }
}

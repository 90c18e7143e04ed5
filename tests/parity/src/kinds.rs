//! Which kinds a cluster has, and the paths of their objects.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use helmops_bed::api::Api;
use serde_json::Value;

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name in paths, such as `deployments`.
    pub plural: String,
    /// Whether its objects have a namespace.
    pub is_namespaced: bool,
}

/// The kinds of a cluster. Those of Kubernetes itself are read once.
#[derive(Debug, Default)]
pub struct Kinds {
    known: Mutex<BTreeMap<(String, String), Kind>>,
}

impl Kinds {
    /// The kind of an API version, or `None` if the cluster does not have it.
    ///
    /// # Errors
    /// If the API server cannot be read.
    pub async fn find(&self, api: &Api, version: &str, kind: &str) -> Result<Option<Kind>> {
        let key = (version.to_owned(), kind.to_owned());
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if known.is_some() {
            return Ok(known);
        }
        let Ok(list) = api.get(&version_path(version)).await else {
            return Ok(None);
        };
        let resources = list
            .get("resources")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let found = resources
            .filter(|resource| resource.get("kind").and_then(Value::as_str) == Some(kind))
            .find_map(|resource| {
                let plural = resource
                    .get("name")?
                    .as_str()
                    .filter(|name| !name.contains('/'))?;
                Some(Kind {
                    plural: plural.to_owned(),
                    is_namespaced: resource.get("namespaced")?.as_bool()?,
                })
            });
        if let Some(found) = &found
            && is_builtin(version)
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(key, found.clone());
        }
        Ok(found)
    }
}

/// Whether an API version is one of Kubernetes itself, which no CRD adds or removes.
pub fn is_builtin(version: &str) -> bool {
    let Some((group, _)) = version.split_once('/') else {
        return true;
    };
    !group.contains('.')
        || matches!(
            group,
            "admissionregistration.k8s.io"
                | "apiextensions.k8s.io"
                | "apiregistration.k8s.io"
                | "coordination.k8s.io"
                | "discovery.k8s.io"
                | "flowcontrol.apiserver.k8s.io"
                | "networking.k8s.io"
                | "node.k8s.io"
                | "rbac.authorization.k8s.io"
                | "scheduling.k8s.io"
                | "storage.k8s.io"
        )
}

/// The path of an API version.
pub fn version_path(version: &str) -> String {
    if version.contains('/') {
        format!("apis/{version}")
    } else {
        format!("api/{version}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kubernetes_are_known() {
        assert!(is_builtin("v1") && is_builtin("apps/v1") && is_builtin("rbac.authorization.k8s.io/v1"));
        assert!(!is_builtin("cert-manager.io/v1") && !is_builtin("gateway.networking.k8s.io/v1"));
        assert_eq!(version_path("v1"), "api/v1");
        assert_eq!(version_path("apps/v1"), "apis/apps/v1");
    }
}

//! Which charts may run at the same time: those that share nothing outside of their namespaces.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{kinds::is_builtin, object::ObjectId};

/// Kinds that change what the whole API server accepts or serves.
const EXCLUSIVE: [&str; 5] = [
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBinding",
];
/// Kinds of Kubernetes without a namespace that charts have.
const CLUSTER_KINDS: [&str; 14] = [
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CSIDriver",
    "CustomResourceDefinition",
    "FlowSchema",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];

/// What a chart uses outside of its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    keys: BTreeSet<String>,
    is_exclusive: bool,
}

impl Claims {
    /// The claims of a rendered chart: the API groups of its CRDs and custom resources, and its objects in no or in other namespaces.
    pub fn of(objects: &[Value], namespace: &str) -> Self {
        let mut claims = Self::default();
        for object in objects {
            let id = ObjectId::of(object);
            let version = object
                .get("apiVersion")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if EXCLUSIVE.contains(&&*id.kind) {
                claims.is_exclusive = true;
            }
            if !is_builtin(version) {
                claims.keys.insert(id.group);
            } else if id.kind == "CustomResourceDefinition" {
                let group = object.pointer("/spec/group").and_then(Value::as_str);
                claims.keys.insert(group.unwrap_or_default().to_owned());
            } else if CLUSTER_KINDS.contains(&&*id.kind)
                || !(id.namespace.is_empty() || id.namespace == namespace)
            {
                claims.keys.insert(id.to_string());
            }
        }
        claims
    }

    fn excludes(&self, other: &Self) -> bool {
        self.is_exclusive || other.is_exclusive || !self.keys.is_disjoint(&other.keys)
    }
}

/// The first of those that wait which may run beside those that run.
pub fn next(waiting: &[&Claims], running: &[Claims]) -> Option<usize> {
    waiting
        .iter()
        .position(|claims| running.iter().all(|other| !claims.excludes(other)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn charts_with_a_common_group_or_object_wait_for_each_other() {
        let crd = Claims::of(
            &[
                json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": { "group": "a.io" } }),
            ],
            "n",
        );
        let resource = Claims::of(
            &[json!({ "apiVersion": "a.io/v1", "kind": "A", "metadata": { "name": "a" } })],
            "n",
        );
        let role = Claims::of(
            &[
                json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "r" } }),
            ],
            "n",
        );
        let plain = Claims::of(
            &[json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } })],
            "n",
        );
        assert_eq!(next(&[&resource, &role], std::slice::from_ref(&crd)), Some(1));
        assert_eq!(next(&[&role], &[role.clone(), crd]), None);
        assert_eq!(next(&[&plain], &[plain.clone(), role]), Some(0));
    }

    #[test]
    fn a_webhook_runs_alone() {
        let webhook = Claims::of(
            &[
                json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration" }),
            ],
            "n",
        );
        assert_eq!(next(&[&Claims::default()], std::slice::from_ref(&webhook)), None);
        assert_eq!(next(&[&webhook], &[]), Some(0));
    }
}

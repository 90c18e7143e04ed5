//! One of the two control planes: its objects, and how what a chart leaves is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, stream};
use helmops_bed::api::Api;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kinds::{Kinds, version_path};
use crate::object::{ObjectId, text};

/// What charts and controllers create in a namespace, as paths below it. Pods, ReplicaSets, endpoints and Events have random names.
const LISTED: [&str; 14] = [
    "api/v1/{}/configmaps",
    "api/v1/{}/persistentvolumeclaims",
    "api/v1/{}/secrets",
    "api/v1/{}/serviceaccounts",
    "api/v1/{}/services",
    "apis/apps/v1/{}/daemonsets",
    "apis/apps/v1/{}/deployments",
    "apis/apps/v1/{}/statefulsets",
    "apis/batch/v1/{}/cronjobs",
    "apis/batch/v1/{}/jobs",
    "apis/networking.k8s.io/v1/{}/ingresses",
    "apis/networking.k8s.io/v1/{}/networkpolicies",
    "apis/rbac.authorization.k8s.io/v1/{}/rolebindings",
    "apis/rbac.authorization.k8s.io/v1/{}/roles",
];
/// Objects that each namespace has.
const OF_NAMESPACES: [&str; 2] = ["ConfigMap kube-root-ca.crt", "ServiceAccount default"];
/// Requests at a time.
const REQUESTS: usize = 8;
/// The API server removes a CRD within seconds.
const GONE: Duration = Duration::from_mins(5);

/// Objects by their identity.
pub type Objects = BTreeMap<ObjectId, Value>;

#[derive(Debug)]
pub struct Side {
    /// Its processes and its credentials.
    pub bed: TestBed,
    kinds: Kinds,
}

impl Side {
    /// The side of a control plane.
    pub fn new(bed: TestBed) -> Self {
        Self {
            bed,
            kinds: Kinds::default(),
        }
    }

    /// The API server.
    ///
    /// # Errors
    /// If its credentials cannot be read.
    pub fn api(&self) -> Result<Api> {
        Api::new(&self.bed)
    }

    /// All objects in a namespace, and those of a rendered chart elsewhere.
    ///
    /// # Errors
    /// If the API server cannot be read.
    pub async fn objects(&self, namespace: &str, rendered: &[Value]) -> Result<Objects> {
        let api = self.api()?;
        let mut objects = Objects::new();
        for pattern in LISTED {
            let path = pattern.replace("{}", &format!("namespaces/{namespace}"));
            let list = api.get(&path).await?;
            let (version, kind) = (text(&list, "/apiVersion"), text(&list, "/kind"));
            let Some(Value::Array(items)) = list.get("items").cloned() else {
                continue;
            };
            for mut item in items {
                if let Some(fields) = item.as_object_mut() {
                    fields.insert("apiVersion".to_owned(), json!(version));
                    fields.insert("kind".to_owned(), json!(kind.trim_end_matches("List")));
                }
                let id = ObjectId::of(&item);
                let of_namespace = OF_NAMESPACES.contains(&&*format!("{} {}", id.kind, id.name));
                if !of_namespace && text(&item, "/type") != "helm.sh/release.v1" {
                    objects.insert(id, item);
                }
            }
        }
        let paths = self.paths(namespace, rendered).await?;
        let found = stream::iter(paths.into_values())
            .map(|path| {
                let api = api.clone();
                async move { api.find(&path).await }
            })
            .buffer_unordered(REQUESTS)
            .collect::<Vec<_>>()
            .await;
        // A kind may be gone meanwhile.
        for object in found.into_iter().flatten().flatten() {
            objects.insert(ObjectId::of(&object), object);
        }
        Ok(objects)
    }

    /// The objects of a rendered chart outside of its namespace that exist.
    ///
    /// # Errors
    /// If the API server cannot be read.
    pub async fn existing(&self, namespace: &str, rendered: &[Value]) -> Result<BTreeSet<String>> {
        let api = self.api()?;
        let mut existing = BTreeSet::new();
        for path in self.paths(namespace, rendered).await?.into_values() {
            if let Ok(Some(_)) = api.find(&path).await {
                existing.insert(path);
            }
        }
        Ok(existing)
    }

    /// Removes everything that a chart has left, but what existed before.
    ///
    /// # Errors
    /// If the API server rejects it, or a CRD stays.
    pub async fn clean(&self, namespace: &str, rendered: &[Value], before: &BTreeSet<String>) -> Result<()> {
        let api = self.api()?;
        let mut paths: Vec<_> = self.paths(namespace, rendered).await?.into_iter().collect();
        // Webhooks first, which reject the deletion of others, and CRDs last.
        paths.sort_by_key(|(id, _)| match &*id.kind {
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" | "APIService" => 0,
            "CustomResourceDefinition" => 2,
            _ => 1,
        });
        paths.retain(|(id, path)| !(before.contains(path) || id.kind == "Namespace" && id.name == namespace));
        for (_, path) in &paths {
            api.status_of(Method::DELETE, path, &Value::Null).await?;
        }
        for (id, path) in &paths {
            if id.kind == "CustomResourceDefinition" {
                let mut tries = 0;
                eventually(&format!("the end of {id}"), GONE, async || {
                    if api.find(path).await?.is_none() {
                        return Ok(());
                    }
                    // A new kind cannot be listed at first ("storage is (re)initializing"). Then the API server tries it again after
                    // minutes, but immediately after a change.
                    tries += 1;
                    let change = json!({ "metadata": { "annotations": { "tries": tries.to_string() } } });
                    let _ = api.status_of(Method::PATCH, path, &change).await;
                    anyhow::bail!("it still exists");
                })
                .await?;
            }
        }
        let path = format!("api/v1/namespaces/{namespace}");
        api.status_of(Method::DELETE, &path, &Value::Null).await?;
        Ok(())
    }

    /// The paths of the objects of a rendered chart that [`LISTED`] has not.
    async fn paths(&self, namespace: &str, rendered: &[Value]) -> Result<BTreeMap<ObjectId, String>> {
        let api = self.api()?;
        let mut paths = BTreeMap::new();
        for object in rendered {
            let mut id = ObjectId::of(object);
            let version = text(object, "/apiVersion");
            if id.name.is_empty() || id.name.contains(char::is_whitespace) {
                continue;
            }
            let Some(kind) = self.kinds.find(&api, version, &id.kind).await? else {
                continue;
            };
            let place = if kind.is_namespaced {
                if id.namespace.is_empty() {
                    namespace.clone_into(&mut id.namespace);
                }
                format!("namespaces/{}/{}", id.namespace, kind.plural)
            } else {
                id.namespace.clear();
                kind.plural
            };
            let path = format!("{}/{place}/{}", version_path(version), id.name);
            paths.insert(id, path);
        }
        Ok(paths)
    }
}

/// The workloads that are not ready, by rules that are simpler than those of helmops.
pub fn unready(objects: &Objects) -> Vec<String> {
    let number = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
    let mut unready = Vec::new();
    for (id, object) in objects {
        let status = |field: &str| number(object, &format!("/status/{field}")).unwrap_or_default();
        let wanted = number(object, "/spec/replicas").unwrap_or(1);
        let is_ready = match &*id.kind {
            "Deployment" => status("availableReplicas") >= wanted && status("updatedReplicas") >= wanted,
            "StatefulSet" => status("readyReplicas") >= wanted,
            "DaemonSet" => status("numberAvailable") >= status("desiredNumberScheduled"),
            _ => true,
        };
        if !is_ready {
            unready.push(id.to_string());
        }
    }
    unready
}

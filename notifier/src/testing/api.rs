//! An API server that keeps objects: what it needs for the reads and writes of the notifier.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use helmops_api::{Decoded, NamespacedName, labels};
use helmops_process::lock;
use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::service_fn;

use super::object;
use crate::watch::Stores;

/// The path of the objects of helmops in the namespace of the tests.
const OWN: &str = "/apis/helmops.fleet.cattle.io/v1alpha1/namespaces/a";

/// The path of HelmOps there.
const HELMOPS: &str = "/apis/fleet.cattle.io/v1alpha1/namespaces/a/helmops";

/// The API server. Clones share its objects.
#[derive(Clone, Default)]
pub struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The objects, by path.
    objects: BTreeMap<String, Value>,
    version: u64,
    stores: Option<Stores>,
    /// The status codes with which writes of a path are rejected.
    refused: BTreeMap<String, StatusCode>,
    /// The bytes of each write of a path.
    writes: BTreeMap<String, Vec<usize>>,
    /// Method and path of each request.
    requests: Vec<(Method, String)>,
}

impl FakeApi {
    pub fn client(&self) -> Client {
        let state = Arc::clone(&self.0);
        let service = service_fn(move |request: Request<Body>| {
            let state = Arc::clone(&state);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let mut state = lock(&state);
                state
                    .requests
                    .push((head.method.clone(), head.uri.path().to_owned()));
                if head.method == Method::PATCH {
                    let path = head.uri.path().trim_end_matches("/status").to_owned();
                    state.writes.entry(path).or_default().push(body.len());
                }
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let result = state.respond(&head.method, head.uri.path(), body);
                drop(state);
                let (code, json) = match result {
                    Ok(object) => (StatusCode::OK, object),
                    Err(code) => (code, status(code)),
                };
                let mut response = Response::new(Body::from(json.to_string().into_bytes()));
                *response.status_mut() = code;
                Ok::<_, Infallible>(response)
            }
        });
        helmops_kube::client_of(service, "a")
    }

    /// From now on, these caches have what is written, as from a watch without delay.
    pub fn feed(&self, stores: Stores) {
        lock(&self.0).stores = Some(stores);
    }

    /// Creates or replaces an object of helmops in the namespace of the tests. Its status stays.
    pub fn apply(&self, resource: &str, name: &str, spec: &Value) {
        let mut state = lock(&self.0);
        let path = format!("{OWN}/{resource}/{name}");
        let before = state.objects.get(&path).cloned().unwrap_or_default();
        let generation = before["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        let metadata = json!({ "name": name, "namespace": "a", "uid": name, "generation": generation });
        let object = json!({ "metadata": metadata, "spec": spec, "status": before["status"] });
        state.store(&path, object);
    }

    /// Creates a HelmOp in the namespace of the tests.
    pub fn helmop(&self, name: &str) {
        let metadata = json!({ "name": name, "namespace": "a" });
        let object = json!({ "metadata": metadata, "spec": {} });
        lock(&self.0).store(&format!("{HELMOPS}/{name}"), object);
    }

    /// The poll that is requested for a HelmOp; empty if there is none.
    pub fn poll_requested(&self, name: &str) -> String {
        let state = lock(&self.0);
        let found = state.objects.get(&format!("{HELMOPS}/{name}"));
        let annotations = found.map(|object| object["metadata"]["annotations"].clone());
        let text = annotations.unwrap_or_default()[labels::POLL_REQUESTED_AT].clone();
        text.as_str().unwrap_or_default().to_owned()
    }

    /// From now on, writes of a HelmOp are rejected with this status code; `None` if they are not.
    pub fn refuse_helmop(&self, name: &str, code: Option<StatusCode>) {
        let mut state = lock(&self.0);
        let path = format!("{HELMOPS}/{name}");
        match code {
            Some(code) => state.refused.insert(path, code),
            None => state.refused.remove(&path),
        };
    }

    /// Sets the status of an object of helmops in the namespace of the tests.
    pub fn set_status(&self, resource: &str, name: &str, status: &Value) {
        let mut state = lock(&self.0);
        let path = format!("{OWN}/{resource}/{name}");
        let mut object = state.objects.get(&path).cloned().unwrap();
        object["status"] = status.clone();
        state.store(&path, object);
    }

    /// Creates or replaces a Secret.
    pub fn secret(&self, namespace: &str, name: &str, data: &Value) {
        let object = json!({ "metadata": { "name": name, "namespace": namespace }, "data": data });
        lock(&self.0).store(&format!("/api/v1/namespaces/{namespace}/secrets/{name}"), object);
    }

    /// A Secret; null if it does not exist.
    pub fn read_secret(&self, namespace: &str, name: &str) -> Value {
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        lock(&self.0).objects.get(&path).cloned().unwrap_or_default()
    }

    pub fn remove_secret(&self, namespace: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        lock(&self.0).objects.remove(&path);
    }

    /// The number of requests with this method whose path ends in this text.
    pub fn count(&self, method: &str, path: &str) -> usize {
        let state = lock(&self.0);
        let requests = state.requests.iter();
        requests
            .filter(|(used, of)| used == method && of.ends_with(path))
            .count()
    }

    /// The status of an object of helmops in the namespace of the tests.
    pub fn status(&self, resource: &str, name: &str) -> Value {
        let state = lock(&self.0);
        let found = state.objects.get(&format!("{OWN}/{resource}/{name}"));
        found.map(|object| object["status"].clone()).unwrap_or_default()
    }

    /// The bytes of each write of an object of helmops in the namespace of the tests.
    pub fn writes(&self, resource: &str, name: &str) -> Vec<usize> {
        let state = lock(&self.0);
        let found = state.writes.get(&format!("{OWN}/{resource}/{name}"));
        found.cloned().unwrap_or_default()
    }

    /// Its condition `Ready`.
    pub fn ready(&self, resource: &str, name: &str) -> Value {
        self.status(resource, name)["conditions"][0].clone()
    }
}

impl State {
    fn respond(&mut self, method: &Method, path: &str, body: Value) -> Result<Value, StatusCode> {
        let path = path.strip_suffix("/status").unwrap_or(path);
        match method.as_str() {
            "GET" => self.objects.get(path).cloned().ok_or(StatusCode::NOT_FOUND),
            "PUT" | "PATCH" => {
                if let Some(code) = self.refused.get(path) {
                    return Err(*code);
                }
                let found = self.objects.get(path).cloned().ok_or(StatusCode::NOT_FOUND)?;
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                if ![Value::Null, version(&found)].contains(&version(&body)) {
                    return Err(StatusCode::CONFLICT);
                }
                let changed = match method.as_str() {
                    "PUT" => body,
                    _ => merged(found, body),
                };
                Ok(self.store(path, changed))
            }
            _ => Err(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        if let Some(stores) = &self.stores {
            let name = object["metadata"]["name"].as_str().unwrap();
            let name = NamespacedName::new("a", name);
            if path.contains("/alerts/") {
                stores.alerts.wrote(name, decoded(&object));
            } else if path.contains("/alertproviders/") {
                stores.providers.wrote(name, decoded(&object));
            } else if path.contains("/receivers/") {
                stores.receivers.wrote(name, decoded(&object));
            }
        }
        object
    }
}

fn decoded<K: DeserializeOwned>(json: &Value) -> Arc<Decoded<K>> {
    Arc::new(object(json))
}

/// A JSON merge patch.
fn merged(target: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch;
    };
    let mut target = match target {
        Value::Object(target) => target,
        _ => serde_json::Map::new(),
    };
    for (key, value) in patch {
        let before = target.remove(&key).unwrap_or_default();
        if !value.is_null() {
            target.insert(key, merged(before, value));
        }
    }
    Value::Object(target)
}

fn status(code: StatusCode) -> Value {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        _ => "InternalError",
    };
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason, "code": code.as_u16() })
}

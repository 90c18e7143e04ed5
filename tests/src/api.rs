//! A plain client of the API server, as fast as one can be.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::credentials;
use crate::probe;

/// Requests at a time: as many as the controller has workers.
pub const STREAMS: usize = 50;
/// An object of a megabyte, or a whole collection, takes the API server some seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
const GROUP: &str = "apis/fleet.cattle.io/v1alpha1";

/// The API server, as its administrator reaches it.
#[derive(Clone)]
pub struct Api {
    client: Client,
    base: String,
    token: String,
}

impl Api {
    /// Connects to a control plane.
    pub fn new(cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            client: probe::client(Some(&cluster.ca()?))?,
            base: cluster.url.trim_end_matches('/').to_owned(),
            token: credentials::admin_token(&cluster.directory)?,
        })
    }

    /// Creates objects of a kind (`bundles`) in a namespace.
    pub async fn create(&self, namespace: &str, resource: &str, objects: Vec<Value>) -> Result<()> {
        let each = objects.into_iter().map(|object| (namespace.to_owned(), object));
        self.create_all(resource, each.collect()).await
    }

    /// Patches the status of objects, by name.
    pub async fn patch_status(
        &self,
        namespace: &str,
        resource: &str,
        patches: Vec<(String, Value)>,
    ) -> Result<()> {
        let each = patches
            .into_iter()
            .map(|(name, patch)| (namespace.to_owned(), name, patch));
        self.patch_statuses(resource, each.collect()).await
    }

    /// Creates objects of a kind, each in its namespace.
    pub async fn create_all(&self, resource: &str, objects: Vec<(String, Value)>) -> Result<()> {
        let requests = objects.into_iter().map(|(namespace, object)| {
            self.send(
                Method::POST,
                format!("{GROUP}/namespaces/{namespace}/{resource}"),
                object,
            )
        });
        stream::iter(requests)
            .buffer_unordered(STREAMS)
            .try_collect()
            .await
    }

    /// Patches the status of objects, by namespace and name.
    pub async fn patch_statuses(&self, resource: &str, patches: Vec<(String, String, Value)>) -> Result<()> {
        let requests = patches.into_iter().map(|(namespace, name, patch)| {
            let path = format!("{GROUP}/namespaces/{namespace}/{resource}/{name}/status");
            self.send(Method::PATCH, path, patch)
        });
        stream::iter(requests)
            .buffer_unordered(STREAMS)
            .try_collect()
            .await
    }

    /// Patches an object (JSON Merge Patch).
    pub async fn patch(&self, namespace: &str, resource: &str, name: &str, change: Value) -> Result<()> {
        let path = format!("{GROUP}/namespaces/{namespace}/{resource}/{name}");
        self.send(Method::PATCH, path, change).await
    }

    /// Deletes an object.
    pub async fn delete(&self, namespace: &str, resource: &str, name: &str) -> Result<()> {
        let path = format!("{GROUP}/namespaces/{namespace}/{resource}/{name}");
        self.send(Method::DELETE, path, json!({})).await
    }

    /// All objects of a kind in a namespace.
    pub async fn list(&self, namespace: &str, resource: &str) -> Result<Vec<Value>> {
        self.items(&format!("namespaces/{namespace}/{resource}")).await
    }

    /// How many objects of a kind there are in a namespace. However large they are, at most one is sent.
    pub async fn count(&self, namespace: &str, resource: &str) -> Result<usize> {
        let list = self
            .get(&format!("{GROUP}/namespaces/{namespace}/{resource}?limit=1"))
            .await?;
        let listed = list
            .pointer("/items")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let more = at(&list, "/metadata/remainingItemCount").as_u64().unwrap_or(0);
        Ok(listed + usize::try_from(more)?)
    }

    /// The objects of a kind in all namespaces that have these labels.
    pub async fn list_all(&self, resource: &str, labels: &str) -> Result<Vec<Value>> {
        self.items(&format!("{resource}?labelSelector={labels}")).await
    }

    /// Reads an object by its path, such as `api/v1/namespaces/default/secrets/web`.
    ///
    /// # Errors
    /// With the status and the text of a response that is no success.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let text = self.call(Method::GET, path, Value::Null).await?;
        serde_json::from_str(&text).with_context(|| format!("no JSON from {path}"))
    }

    async fn items(&self, path: &str) -> Result<Vec<Value>> {
        let url = format!("{}/{GROUP}/{path}", self.base);
        let answer = self.client.get(&url).bearer_auth(&self.token).send().await?;
        let mut list: Value = serde_json::from_slice(&answer.error_for_status()?.bytes().await?)?;
        match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => anyhow::bail!("{url} is no list"),
        }
    }

    async fn send(&self, method: Method, path: String, body: Value) -> Result<()> {
        self.call(method, &path, body).await.map(drop)
    }

    /// Sends a request for any path, such as `api/v1/namespaces/default/secrets`, and gives the text of the response.
    ///
    /// # Errors
    /// With the status and the text of a response that is no success.
    pub async fn call(&self, method: Method, path: &str, body: Value) -> Result<String> {
        let content = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let url = format!("{}/{path}", self.base);
        let mut request = self
            .client
            .request(method, &url)
            .bearer_auth(&self.token)
            .timeout(TIMEOUT);
        if !body.is_null() {
            request = request.header("content-type", content).body(body.to_string());
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("no answer from {url}"))?;
        let status = answer.status();
        // Read to its end also where it is of no interest: a stream that is broken off costs both sides more.
        let text = answer.text().await?;
        ensure!(status.is_success(), "{url}: {status}: {text}");
        Ok(text)
    }
}

/// What stands at a place of an object; null for nothing.
pub fn at(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).cloned().unwrap_or_default()
}

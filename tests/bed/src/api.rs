//! A minimal, fast client of the API server.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::header::WARNING;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::credentials;
use crate::probe;

/// Concurrent requests: as many as the controller has workers.
pub const STREAMS: usize = 50;
/// An object of a megabyte, or a whole collection, takes the API server some seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the API server keeps a watch.
const STREAM: Duration = Duration::from_hours(2);
/// Maximum number of objects in a page of a list.
const PAGE: u32 = 500;
/// The pause before a rejected request is repeated.
const RETRY: Duration = Duration::from_millis(200);
/// The path of Fleet's API version.
pub(crate) const GROUP: &str = "apis/fleet.cattle.io/v1alpha1";

thread_local! {
    /// The clients that this thread has used, by address and folder of the control plane: to connect takes more of the processor than most
    /// requests. Not those of all threads, since a connection ends with the runtime of the test that opened it.
    static CLIENTS: RefCell<HashMap<(String, PathBuf), Api>> = RefCell::default();
}

/// The API server, with the credentials of its administrator.
#[derive(Clone)]
pub struct Api {
    client: Client,
    base: String,
    token: String,
}

impl Api {
    /// The client of this thread for a control plane.
    pub fn new(cluster: &Cluster) -> Result<Self> {
        let key = (cluster.url.clone(), cluster.directory.clone());
        if let Some(known) = CLIENTS.with_borrow(|clients| clients.get(&key).cloned()) {
            return Ok(known);
        }
        let api = Self {
            client: probe::client(Some(&cluster.ca()?))?,
            base: cluster.url.trim_end_matches('/').to_owned(),
            token: credentials::admin_token(&cluster.directory)?,
        };
        CLIENTS.with_borrow_mut(|clients| clients.insert(key, api.clone()));
        Ok(api)
    }

    /// Creates objects of a resource (`bundles`) in a namespace.
    pub async fn create(&self, namespace: &str, resource: &str, objects: Vec<Value>) -> Result<()> {
        let objects = objects.into_iter().map(|object| (namespace.to_owned(), object));
        self.create_all(resource, objects.collect()).await
    }

    /// Patches the status of objects, by name.
    pub async fn patch_status(
        &self,
        namespace: &str,
        resource: &str,
        patches: Vec<(String, Value)>,
    ) -> Result<()> {
        let patches = patches
            .into_iter()
            .map(|(name, patch)| (namespace.to_owned(), name, patch));
        self.patch_statuses(resource, patches.collect()).await
    }

    /// Creates objects of a resource, each in its namespace.
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

    pub async fn delete(&self, namespace: &str, resource: &str, name: &str) -> Result<()> {
        let path = format!("{GROUP}/namespaces/{namespace}/{resource}/{name}");
        self.send(Method::DELETE, path, json!({})).await
    }

    /// All objects of a resource in a namespace.
    pub async fn list(&self, namespace: &str, resource: &str) -> Result<Vec<Value>> {
        self.items(&format!("namespaces/{namespace}/{resource}")).await
    }

    /// The number of objects of a resource in a namespace. At most one object is sent, so their size does not matter.
    pub async fn count(&self, namespace: &str, resource: &str) -> Result<usize> {
        let list = self
            .get(&format!("{GROUP}/namespaces/{namespace}/{resource}?limit=1"))
            .await?;
        let listed = list
            .pointer("/items")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let more = value_at(&list, "/metadata/remainingItemCount")
            .as_u64()
            .unwrap_or(0);
        Ok(listed + usize::try_from(more)?)
    }

    /// The objects of a resource in all namespaces that have these labels.
    pub async fn list_all(&self, resource: &str, labels: &str) -> Result<Vec<Value>> {
        self.items(&format!("{resource}?labelSelector={labels}")).await
    }

    /// Reads an object by its path, such as `api/v1/namespaces/default/secrets/web`.
    ///
    /// # Errors
    /// With the status and the body of a response without a 2xx status.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let text = self.call(Method::GET, path, Value::Null).await?;
        serde_json::from_str(&text).with_context(|| format!("{path}: the response is not JSON"))
    }

    /// Reads an object by its path as kubectl prints it: without `managedFields`, and `None` if it does not exist.
    ///
    /// # Errors
    /// With the status and the body of another response; also if the API server does not have the resource.
    pub async fn find(&self, path: &str) -> Result<Option<Value>> {
        let (status, text) = self.read(path).await?;
        let mut object: Value = serde_json::from_str(&text).unwrap_or_default();
        if status == StatusCode::NOT_FOUND && value_at(&object, "/details/name").is_string() {
            return Ok(None);
        }
        ensure_success(path, status, &text)?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Ok(Some(object))
    }

    /// The status and the body of a GET request. It is repeated while the API server rejects requests for a kind whose CRD was just
    /// created, as kubectl does.
    async fn read(&self, path: &str) -> Result<(StatusCode, String)> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let request = self.client.get(format!("{}/{path}", self.base));
            let response = request.bearer_auth(&self.token).timeout(TIMEOUT).send().await?;
            let status = response.status();
            let text = response.text().await?;
            if status != StatusCode::TOO_MANY_REQUESTS || Instant::now() > end {
                return Ok((status, text));
            }
            sleep(RETRY).await;
        }
    }

    /// Sends a request, and returns the status of the response.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn status_of(&self, method: Method, path: &str, body: &Value) -> Result<StatusCode> {
        Ok(self.respond(method, path, body.to_string()).await?.status)
    }

    /// Opens a stream, such as a watch, that ends when the API server ends it.
    ///
    /// # Errors
    /// If the status is not 2xx.
    pub async fn open(&self, path: &str) -> Result<Response> {
        let response = self.request(Method::GET, path).timeout(STREAM).send().await?;
        Ok(response.error_for_status()?)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let content_type = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = self.client.request(method, format!("{}/{path}", self.base));
        request
            .bearer_auth(&self.token)
            .header("content-type", content_type)
    }

    /// The text at a path, such as `api/v1/events` or `metrics`.
    ///
    /// # Errors
    /// With the status and the body of a response without a 2xx status.
    pub async fn text(&self, path: &str) -> Result<String> {
        let (status, text) = self.read(path).await?;
        ensure_success(path, status, &text)?;
        Ok(text)
    }

    /// Reads a list, a page at a time.
    async fn items(&self, path: &str) -> Result<Vec<Value>> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let url = format!("{}/{GROUP}/{path}{separator}limit={PAGE}", self.base);
        let (mut items, mut next) = (Vec::new(), url.clone());
        loop {
            let request = self.client.get(&next).bearer_auth(&self.token);
            let response = request.timeout(TIMEOUT).send().await?;
            let mut list: Value = serde_json::from_slice(&response.error_for_status()?.bytes().await?)?;
            let Some(Value::Array(page)) = list.get_mut("items").map(Value::take) else {
                anyhow::bail!("{url}: the response is not a list");
            };
            items.extend(page);
            match value_at(&list, "/metadata/continue").as_str() {
                Some(token) if !token.is_empty() => next = format!("{url}&continue={token}"),
                _ => return Ok(items),
            }
        }
    }

    async fn send(&self, method: Method, path: String, body: Value) -> Result<()> {
        self.call(method, &path, body).await.map(drop)
    }

    /// Sends a request for any path, such as `api/v1/namespaces/default/secrets`, and returns the body of the response.
    ///
    /// # Errors
    /// With the status and the body of a response without a 2xx status.
    pub async fn call(&self, method: Method, path: &str, body: Value) -> Result<String> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.call_with_text(method, path, body).await
    }

    /// The same, with a body that is JSON already.
    pub async fn call_with_text(&self, method: Method, path: &str, body: String) -> Result<String> {
        let response = self.respond(method, path, body).await?;
        ensure_success(path, response.status, &response.body)?;
        Ok(response.body)
    }

    /// Sends a write, and returns the texts of the warnings.
    ///
    /// # Errors
    /// With the status and the body of a response without a 2xx status.
    pub async fn write(&self, method: Method, path: &str, object: &Value) -> Result<Vec<String>> {
        let response = self.respond(method, path, object.to_string()).await?;
        ensure_success(path, response.status, &response.body)?;
        Ok(response.warnings)
    }

    /// Sends a write, and returns why it is rejected; empty if it is accepted.
    ///
    /// # Errors
    /// If there is no response, or none of the API server.
    pub async fn rejection(&self, method: Method, path: &str, object: &Value) -> Result<String> {
        let response = self.respond(method, path, object.to_string()).await?;
        if response.status.is_success() {
            return Ok(String::new());
        }
        let status: Value = serde_json::from_str(&response.body)?;
        let message = status.get("message").and_then(Value::as_str);
        Ok(message.context("an error without a message")?.to_owned())
    }

    async fn respond(&self, method: Method, path: &str, body: String) -> Result<Written> {
        let request = self.request(method, path).timeout(TIMEOUT).body(body);
        let response = request
            .send()
            .await
            .with_context(|| format!("{path}: no response from {}", self.base))?;
        let headers = response.headers().get_all(WARNING).into_iter();
        let warnings = headers.filter_map(|header| warning(header.to_str().ok()?));
        Ok(Written {
            status: response.status(),
            warnings: warnings.collect(),
            // It is read to its end even if it is not used: an aborted stream costs both sides more.
            body: response.text().await?,
        })
    }
}

/// The response to a write.
struct Written {
    status: StatusCode,
    /// The texts of its `Warning` headers.
    warnings: Vec<String>,
    body: String,
}

fn ensure_success(path: &str, status: StatusCode, body: &str) -> Result<()> {
    ensure!(status.is_success(), "{path}: {status}: {body}");
    Ok(())
}

/// The text of a `Warning` header of the API server, such as `299 - "it is \"deprecated\""`.
fn warning(header: &str) -> Option<String> {
    let quoted = header.strip_prefix("299 ")?.split_once(' ')?.1;
    // Go quotes the text as JSON does, but for characters that no message has.
    serde_json::from_str(quoted).ok()
}

/// The value at a JSON pointer; null if there is none.
pub fn value_at(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_warning_is_read() {
        assert_eq!(
            warning(r#"299 - "a \"quoted\" text""#).unwrap(),
            "a \"quoted\" text"
        );
        assert_eq!(warning("110 anderson/1.3.37 \"Response is stale\""), None);
    }
}

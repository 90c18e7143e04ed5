//! The audit log of the API server: the fields that the tests use.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// A request and its response.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    pub verb: String,
    #[serde(default, rename = "requestURI")]
    pub request_uri: String,
    pub user: User,
    /// The user that the request is sent for, with the permissions of that user.
    pub impersonated_user: Option<User>,
    #[serde(default)]
    pub user_agent: String,
    pub object_ref: Option<ObjectRef>,
    #[serde(default)]
    pub response_status: ResponseStatus,
    pub request_object: Option<Value>,
    pub request_received_timestamp: String,
    #[serde(default)]
    pub annotations: HashMap<String, String>,
}

#[derive(Deserialize)]
pub(crate) struct User {
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub extra: HashMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ObjectRef {
    pub resource: String,
    pub subresource: String,
    pub api_group: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResponseStatus {
    pub code: u16,
}

/// Calls `each` with all events of a log, in the order of the responses.
///
/// # Errors
/// If the log cannot be read, or `each` fails.
pub(crate) fn read(log: &Path, mut each: impl FnMut(Event) -> Result<()>) -> Result<()> {
    let file = File::open(log).with_context(|| format!("cannot read {}", log.display()))?;
    let mut lines = BufReader::new(file).lines().peekable();
    while let Some(line) = lines.next() {
        let line = line?;
        match serde_json::from_str(&line) {
            Ok(event) => each(event)?,
            // The last line may be incomplete: the API server is writing it, or was killed.
            Err(_) if lines.peek().is_none() => {}
            Err(error) => return Err(error).with_context(|| format!("not an audit event: {line}")),
        }
    }
    Ok(())
}

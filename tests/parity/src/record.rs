//! Helm's records, read from their Secrets.

use std::io::Read;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use helmops_bed::api::Api;
use serde_json::Value;

/// What a record says of a revision.
#[derive(Clone, Debug)]
pub struct Record {
    pub revision: u64,
    /// `deployed`, `failed` and so on.
    pub status: String,
    /// Helm's message.
    pub description: String,
    pub manifest: String,
    pub hooks: Vec<Hook>,
}

/// A hook of a revision.
#[derive(Clone, Debug)]
pub struct Hook {
    pub manifest: String,
    /// When it runs, in which order, what deletes it, and how its last run ended.
    pub settings: Value,
}

/// The newest record of a release.
///
/// # Errors
/// If it cannot be read or decoded.
pub async fn newest(api: &Api, namespace: &str, release: &str) -> Result<Option<Record>> {
    let path = format!("api/v1/namespaces/{namespace}/secrets?labelSelector=owner%3Dhelm%2Cname%3D{release}");
    let list = api.get(&path).await?;
    let secrets = list.get("items").and_then(Value::as_array).into_iter().flatten();
    let records = secrets.map(decode).collect::<Result<Vec<_>>>()?;
    Ok(records.into_iter().max_by_key(|record| record.revision))
}

fn decode(secret: &Value) -> Result<Record> {
    let data = secret.pointer("/data/release").and_then(Value::as_str);
    let decoded = |text: &[u8]| STANDARD.decode(text).ok().context("a record that is not Base64");
    let packed = decoded(&decoded(data.context("a record without data")?.as_bytes())?)?;
    let mut json = Vec::new();
    GzDecoder::new(&*packed).read_to_end(&mut json)?;
    let record: Value = serde_json::from_slice(&json)?;
    let text = |pointer| {
        record
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let hooks = record
        .get("hooks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    Ok(Record {
        revision: record.get("version").and_then(Value::as_u64).unwrap_or_default(),
        status: text("/info/status"),
        description: text("/info/description"),
        manifest: text("/manifest"),
        hooks: hooks.map(hook).collect(),
    })
}

fn hook(hook: &Value) -> Hook {
    let take = |name: &str| hook.get(name).cloned().unwrap_or_default();
    Hook {
        manifest: hook
            .get("manifest")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        settings: serde_json::json!({
            "name": take("name"),
            "kind": take("kind"),
            "path": take("path"),
            "events": take("events"),
            "weight": take("weight"),
            "deletePolicies": take("delete_policies"),
            "phase": hook.pointer("/last_run/phase").cloned().unwrap_or_default(),
        }),
    }
}

//! Files of Bundles in a registry, as Fleet publishes them.

use anyhow::{Context, Result};
use bounded_text::hex;
use helmops_bed::oci_registry::OciRegistry;
use helmops_bed::probe;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Publishes files: the only layer of `fleet/ID:latest`, with their ID.
pub async fn push(registry: &OciRegistry, id: &str, content: &str) -> Result<()> {
    let client = probe::client(None)?;
    let url = |path: &str| format!("http://{}/v2/fleet/{id}/{path}", registry.host);
    let upload = async |media_type: &str, blob: &str| -> Result<Value> {
        let digest = format!("sha256:{}", hex(digest(&SHA256, blob.as_bytes()).as_ref()));
        let started = client
            .post(url("blobs/uploads/"))
            .send()
            .await?
            .error_for_status()?;
        let location = started.headers().get(LOCATION).context("no Location")?.to_str()?;
        let upload = client
            .put(format!("{location}&digest={digest}"))
            .body(blob.to_owned());
        upload.send().await?.error_for_status()?;
        Ok(json!({ "mediaType": media_type, "digest": digest, "size": blob.len() }))
    };
    let config = upload("application/vnd.oci.empty.v1+json", "{}").await?;
    let mut layer = upload("application/fleet.file", content).await?;
    layer["annotations"] = json!({ "id": id });
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/fleet.manifest", "config": config, "layers": [layer],
    });
    let put = client
        .put(url("manifests/latest"))
        .header(CONTENT_TYPE, MANIFEST)
        .body(manifest.to_string());
    put.send().await?.error_for_status()?;
    Ok(())
}

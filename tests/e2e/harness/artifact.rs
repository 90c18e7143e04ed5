//! What is pushed to a registry besides charts.

use anyhow::{Context, Result};
use bounded_text::hex;
use helmops_bed::oci_registry::OciRegistry;
use helmops_bed::probe;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Pushes a manifest with one layer as `REPOSITORY:TAG`. `over` has other fields of the manifest, and `of_layer` of the layer.
pub async fn push(
    registry: &OciRegistry,
    (repository, tag): (&str, &str),
    layer: &[u8],
    (over, of_layer): (&Value, &Value),
) -> Result<()> {
    let client = probe::client(None)?;
    let url = |path: &str| format!("http://{}/v2/{repository}/{path}", registry.host);
    let upload = async |media_type: &str, blob: &[u8]| -> Result<Value> {
        let digest = format!("sha256:{}", hex(digest(&SHA256, blob).as_ref()));
        let started = client
            .post(url("blobs/uploads/"))
            .send()
            .await?
            .error_for_status()?;
        let location = started.headers().get(LOCATION).context("no Location")?.to_str()?;
        let upload = client
            .put(format!("{location}&digest={digest}"))
            .body(blob.to_vec());
        upload.send().await?.error_for_status()?;
        Ok(json!({ "mediaType": media_type, "digest": digest, "size": blob.len() }))
    };
    let config = upload("application/vnd.oci.empty.v1+json", b"{}").await?;
    let mut layer = upload("application/octet-stream", layer).await?;
    json_patch::merge(&mut layer, of_layer);
    let mut manifest =
        json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
    json_patch::merge(&mut manifest, over);
    let put = client
        .put(url(&format!("manifests/{tag}")))
        .header(CONTENT_TYPE, MANIFEST)
        .body(manifest.to_string());
    put.send().await?.error_for_status()?;
    Ok(())
}

/// Pushes the files of a Bundle, as Fleet publishes them: the only layer of `fleet/ID:latest`, with their ID.
pub async fn push_bundle(registry: &OciRegistry, id: &str, content: &str) -> Result<()> {
    let over = json!({ "artifactType": "application/fleet.manifest" });
    let of_layer = json!({ "mediaType": "application/fleet.file", "annotations": { "id": id } });
    let repository = format!("fleet/{id}");
    push(
        registry,
        (&repository, "latest"),
        content.as_bytes(),
        (&over, &of_layer),
    )
    .await
}

/// Pushes an archive of files as Flux does, with the time of the push in its manifest.
pub async fn push_files(
    registry: &OciRegistry,
    name: (&str, &str),
    archive: &[u8],
    created: &str,
) -> Result<()> {
    let over = json!({
        "config": { "mediaType": "application/vnd.cncf.flux.config.v1+json" },
        "annotations": { "org.opencontainers.image.created": created },
    });
    let of_layer = json!({ "mediaType": "application/vnd.cncf.flux.content.v1.tar+gzip" });
    push(registry, name, archive, (&over, &of_layer)).await
}

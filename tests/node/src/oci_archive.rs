//! Images of one layer, without a container engine: programs of this machine with the libraries that they need.

use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tar::{Builder, Header};

/// What an image has.
#[derive(Debug)]
pub struct Image {
    /// The paths of its files on this machine and in the image.
    pub files: Vec<(PathBuf, PathBuf)>,
    pub entrypoint: Vec<String>,
}

struct Blob {
    digest: String,
    content: Vec<u8>,
}

impl Blob {
    fn new(content: Vec<u8>) -> Self {
        let sum = digest(&SHA256, &content);
        let mut hex = String::with_capacity(2 * sum.as_ref().len());
        for byte in sum.as_ref() {
            let _ = write!(hex, "{byte:02x}");
        }
        Self { digest: hex, content }
    }

    fn descriptor(&self, media_type: &str) -> Value {
        let digest = format!("sha256:{}", self.digest);
        json!({ "mediaType": format!("application/vnd.oci.image.{media_type}"), "digest": digest, "size": self.content.len() })
    }
}

/// Writes an archive in the OCI image layout with one image.
///
/// # Errors
/// If a file cannot be read, or the archive cannot be written.
pub fn write(image: &Image, archive: &Path) -> Result<()> {
    let layer = Blob::new(layer(image)?);
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let config = Blob::new(serde_json::to_vec(&json!({
        "architecture": architecture,
        "os": "linux",
        "config": { "Entrypoint": image.entrypoint },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", layer.digest)] },
    }))?);
    let manifest = Blob::new(serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar")],
    }))?);
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest.descriptor("manifest.v1+json")],
    });
    let file = File::create(archive).with_context(|| format!("cannot write {}", archive.display()))?;
    let mut layout = Builder::new(file);
    append(
        &mut layout,
        Path::new("oci-layout"),
        br#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    append(&mut layout, Path::new("index.json"), &serde_json::to_vec(&index)?)?;
    for blob in [layer, config, manifest] {
        let path = Path::new("blobs/sha256").join(&blob.digest);
        append(&mut layout, &path, &blob.content)?;
    }
    layout.finish()?;
    Ok(())
}

fn layer(image: &Image) -> Result<Vec<u8>> {
    let mut layer = Builder::new(Vec::new());
    for (outside, inside) in &image.files {
        let content = std::fs::read(outside).with_context(|| format!("cannot read {}", outside.display()))?;
        append(&mut layer, inside.strip_prefix("/")?, &content)?;
    }
    Ok(layer.into_inner()?)
}

fn append(archive: &mut Builder<impl std::io::Write>, path: &Path, content: &[u8]) -> Result<()> {
    let mut header = Header::new_ustar();
    header.set_size(u64::try_from(content.len())?);
    header.set_mode(0o755);
    archive
        .append_data(&mut header, path, content)
        .with_context(|| format!("cannot add {}", path.display()))
}

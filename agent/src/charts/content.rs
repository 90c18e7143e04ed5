//! The files of a Bundle: read from the management cluster or a registry, and packed as the archive of a chart.
//!
//! ```text
//!     ┌─► Content, with its parts ───────────┐
//! ID ─┴─► Secret ─► registry ─► JSON ────────┴─► verified manifest ─► chart of helmops_release::content ─► archive
//!                                                                       └─ patches of overlays ─► Helm ─┘
//! ```

use std::{
    io::{self, BufWriter, Write},
    sync::Arc,
};

use bounded_text::hex;
use flate2::{Compression, write::GzEncoder};
use helmops_api::{BundleDeployment, Content};
use helmops_content::{ContentError, ContentId, Limits, Manifest, Opened, deployment_content, open};
use helmops_fetch::Resolver;
use helmops_helm::{
    Failure, FailureReason,
    request::{Action, Identity, Request},
    run_scope::RunScope,
};
use helmops_kube::path_segment;
use helmops_release::{
    content::{ChartEntry, ContentFiles, ContentSource, PatchedFile},
    names::{ReleaseKey, name_of},
};
use helmops_runtime::client::{CallError, bounded};
use kube::{Api, Client};
use ring::digest::{Context, SHA256};
use tar::{Builder, Header};
use tempfile::NamedTempFile;
use tokio::sync::Mutex;

use super::{
    Archive, ChartError, access_of_secret, blocking,
    origin::{ChartOrigin, commit},
};
use crate::helm::HelmRuns;

/// What is read of content: Helm reads files of at most 5 MiB, and charts of at most 100 MiB.
const LIMITS: Limits = Limits {
    json: 64 << 20,
    file: 5 << 20,
    ..Limits::CHART
};
/// All files of an archive, in bytes.
const MAX_FILES: u64 = helm_archive::Limits::HELM.total;

/// What applies patches of overlays: Helm's program, which has the types of Kubernetes.
#[derive(Clone, Copy)]
pub struct OverlayPatches<'p> {
    pub helm: &'p HelmRuns,
    /// The release, for metrics and messages.
    pub release: &'p ReleaseKey,
    /// What ends it early.
    pub stop: &'p RunScope,
}

impl OverlayPatches<'_> {
    /// The files with their patches, in their order.
    async fn applied(&self, files: Vec<PatchedFile>) -> Result<Vec<String>, ChartError> {
        let expected = files.len();
        if expected == 0 {
            return Ok(Vec::new());
        }
        let request = Request {
            release: self.release.clone(),
            identity: Identity::Agent,
            action: Action::Patch(files),
            hook_timeout: std::time::Duration::ZERO,
        };
        let run = self.helm.run(request, Vec::new(), self.stop).await;
        let printed = run.map_err(Box::new)?.printed;
        let results: Vec<String> = serde_json::from_str(&printed).unwrap_or_default();
        if results.len() != expected {
            let text = format!("{} of {expected} files were patched", results.len());
            return Err(Box::new(Failure::new(FailureReason::ObjectsRefused, text)).into());
        }
        Ok(results)
    }
}

/// Where the files of Bundles are.
#[derive(Clone, Copy)]
pub struct ContentStore<'s> {
    /// The management cluster.
    pub upstream: &'s Client,
    /// Registries.
    pub resolver: &'s Resolver,
}

impl ContentStore<'_> {
    /// The verified files of a deployment.
    async fn manifest(self, deployment: &BundleDeployment, id: &ContentId) -> Result<Manifest, ChartError> {
        if ChartOrigin::of(deployment) != ChartOrigin::Storage {
            return manifest(self.upstream, id).await;
        }
        let source = access_of_secret(deployment, id.as_str());
        let files = self
            .resolver
            .download_content(self.upstream, source, LIMITS.json, Vec::new());
        let (json, known) = (files.await.map_err(Box::new)?.output, id.clone());
        Ok(blocking(move || Ok(Manifest::read(&json, &known, LIMITS))).await??)
    }
}

/// Reads content. What is unpacked is in memory, so there is one at a time.
#[derive(Clone, Debug, Default)]
pub struct ContentReader(Arc<Mutex<()>>);

impl ContentReader {
    /// Packs the chart of a deployment into a file.
    ///
    /// # Errors
    /// If the content is missing or not that of the deployment, or is no chart, or the file cannot be written.
    pub async fn pack(
        &self,
        store: ContentStore<'_>,
        deployment: &BundleDeployment,
        patches: &OverlayPatches<'_>,
        file: NamedTempFile,
    ) -> Result<Archive, ChartError> {
        let spec = &deployment.spec;
        let id = deployment_content(&spec.deployment_id)
            .ok_or_else(|| ChartError::NoContent(spec.deployment_id.clone()))?;
        let _turn = self.0.lock().await;
        let manifest = store.manifest(deployment, &id).await?;
        let source = ContentSource {
            deployment: name_of(deployment),
            commit: commit(deployment),
            options: &spec.options,
            id: &id,
            limits: LIMITS,
        };
        let files = ContentFiles::new(manifest, source)?;
        let results = patches.applied(files.patched()).await?;
        let entries = files.entries(results);
        blocking(move || Ok(pack(entries, file))).await?
    }
}

/// The verified files of an ID.
async fn manifest(upstream: &Client, id: &ContentId) -> Result<Manifest, ChartError> {
    let content = object(upstream, id.as_str(), id).await?;
    let known = id.clone();
    let opened = blocking(move || Ok(open(&content, &known, LIMITS))).await??;
    let mut assembly = match opened {
        Opened::Whole(manifest) => return Ok(manifest),
        Opened::Split(assembly) => assembly,
    };
    while let Some(part) = assembly.next_part() {
        let content = object(upstream, &part, id).await?;
        let added = blocking(move || Ok(assembly.add(&content).map(|()| assembly))).await?;
        assembly = added?;
    }
    Ok(blocking(move || Ok(assembly.finish())).await??)
}

async fn object(upstream: &Client, name: &str, id: &ContentId) -> Result<Content, ChartError> {
    let api = Api::<Content>::all(upstream.clone());
    let found = bounded(api.get_opt(&path_segment(name))).await;
    let found = found.map_err(CallError::of("read", format_args!("Content {name}")))?;
    found.ok_or_else(|| ChartError::ContentMissing {
        name: name.to_owned(),
        is_part: name != id.as_str(),
    })
}

/// Writes an archive: the same entries give the same bytes.
fn pack(entries: Vec<ChartEntry>, file: NamedTempFile) -> Result<Archive, ChartError> {
    let output = Hashed {
        // A handle of its own: the file is deleted with `file` after an error.
        output: BufWriter::new(file.reopen()?),
        digest: Context::new(&SHA256),
        bytes: 0,
    };
    let mut archive = Builder::new(GzEncoder::new(output, Compression::default()));
    let mut total = 0;
    for ChartEntry { path, content } in entries {
        let bytes = content.bytes(LIMITS)?;
        total += bytes.len() as u64;
        if total > MAX_FILES {
            return Err(ContentError::TooLarge { limit: MAX_FILES }.into());
        }
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, &path, &*bytes)?;
    }
    let mut output = archive.into_inner()?.finish()?;
    output.flush()?;
    Ok(Archive {
        file,
        sha256: hex(output.digest.finish().as_ref()),
        bytes: output.bytes,
    })
}

/// Computes the digest of what is written.
struct Hashed<W> {
    output: W,
    digest: Context,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.output.write(bytes)?;
        if let Some(written) = bytes.get(..count) {
            self.digest.update(written);
            self.bytes += written.len() as u64;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

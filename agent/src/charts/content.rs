//! The files of a Bundle: read from the management cluster or a registry, and packed as the archive of a chart.
//!
//! ```text
//!     ┌─► Content, with its parts ─┐
//! ID ─┴─► Secret ─► registry ──────┴─► file ─► verified manifest ─► chart of helmops_release::content ─► archive
//!                                                                    └─ patches of overlays ─► Helm ─┘
//! ```
//!
//! What is downloaded is in the file of the archive until it is packed: no download and no Helm waits for memory.

mod error;
mod objects;
mod pack;

use std::{
    fs::{self, File},
    io::BufWriter,
    path::Path,
    sync::Arc,
};

use helmops_api::{BundleDeployment, labels};
use helmops_content::{ContentId, Limits, Manifest, deployment_content};
use helmops_fair::{FairSemaphore, deadline::excluded};
use helmops_fetch::Resolver;
use helmops_helm::{
    Failure, FailureReason,
    request::{Action, Identity, Request},
    run_scope::RunScope,
};
use helmops_release::{
    content::{ContentFiles, ContentSource, PatchedFile},
    names::{ReleaseKey, name_of},
};
use kube::Client;
use tempfile::NamedTempFile;

pub use self::error::{FilesOrigin, UnreadableFiles};
use self::{objects::read_objects, pack::pack};
use super::{
    Archive, ChartError, access_of_secret, blocking,
    origin::{ChartOrigin, commit, has_files_of_bundle},
};
use crate::helm::HelmRuns;

/// The controller stores no more of a chart.
const LIMITS: Limits = Limits::CHART;
/// Objects of the management cluster that are read at a time: each is in memory several times, and has 1.5 MB at most.
const OBJECTS: usize = 4;
/// Those of them for one namespace of Bundles.
const OBJECTS_OF_ONE: usize = 2;

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

/// Reads content. The namespaces of Bundles share its memory.
#[derive(Clone, Debug)]
pub struct ContentReader {
    objects: FairSemaphore<Arc<str>>,
    /// All files of a Bundle are in memory, so there is one at a time.
    unpacked: FairSemaphore<Arc<str>>,
}

impl Default for ContentReader {
    fn default() -> Self {
        Self {
            objects: FairSemaphore::new(OBJECTS, OBJECTS_OF_ONE),
            unpacked: FairSemaphore::new(1, 1),
        }
    }
}

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
        let tenant = labels::of(&deployment.metadata, labels::BUNDLE_NAMESPACE).unwrap_or_default();
        let tenant = &Arc::from(tenant);
        let downloaded = Arc::new(self.download(store, deployment, tenant, &file).await?);
        let overlays = deployment
            .spec
            .options
            .yaml
            .iter()
            .flat_map(|yaml| &yaml.overlays);
        let mut results = Vec::new();
        if overlays.count() > 0 {
            let (files, path) = (Arc::clone(&downloaded), file.path().to_owned());
            let unpacked = self.unpack(tenant, move || Ok(files.read(&path)?.patched()));
            results = patches.applied(unpacked.await?).await?;
        }
        let pack = move || {
            let files = downloaded.read(file.path())?;
            file.as_file().set_len(0)?;
            pack(files.entries(results), file)
        };
        self.unpack(tenant, pack).await
    }

    /// Runs what has the files of a Bundle in memory on a thread.
    async fn unpack<T: Send + 'static>(
        &self,
        tenant: &Arc<str>,
        work: impl FnOnce() -> Result<T, ChartError> + Send + 'static,
    ) -> Result<T, ChartError> {
        let permit = excluded(self.unpacked.acquire(Arc::clone(tenant))).await;
        // The thread holds it, so that a task that ends releases none while the work continues.
        blocking(move || {
            let _permit = permit;
            Ok(work())
        })
        .await?
    }

    /// Downloads the files of a deployment into a file.
    async fn download(
        &self,
        store: ContentStore<'_>,
        deployment: &BundleDeployment,
        tenant: &Arc<str>,
        file: &NamedTempFile,
    ) -> Result<DownloadedFiles, ChartError> {
        let deployment_id = &deployment.spec.deployment_id;
        let id =
            deployment_content(deployment_id).ok_or_else(|| ChartError::NoContent(deployment_id.clone()))?;
        let output = BufWriter::new(file.reopen()?);
        let origin = if ChartOrigin::of(deployment) == ChartOrigin::Storage {
            let source = access_of_secret(deployment, id.as_str());
            let files = store
                .resolver
                .download_content(store.upstream, source, LIMITS.json, output);
            files.await.map_err(Box::new)?;
            FilesOrigin::Registry
        } else {
            read_objects(store.upstream, &self.objects, tenant, &id, output).await?;
            FilesOrigin::Content
        };
        let mut deployment = deployment.clone();
        if !has_files_of_bundle(&deployment) {
            // The kustomization of a chart reads the files of the chart.
            Arc::make_mut(&mut deployment.spec.options).kustomize = None;
        }
        Ok(DownloadedFiles {
            deployment,
            id,
            origin,
        })
    }
}

/// The files of a deployment, in a file.
struct DownloadedFiles {
    deployment: BundleDeployment,
    id: ContentId,
    origin: FilesOrigin,
}

impl DownloadedFiles {
    /// Verifies and reads the file, and finds the chart.
    fn read(&self, path: &Path) -> Result<ContentFiles<'_>, ChartError> {
        let manifest = match self.origin {
            FilesOrigin::Content => Manifest::decompress(File::open(path)?, &self.id, LIMITS),
            FilesOrigin::Registry => Manifest::read(&fs::read(path)?, &self.id, LIMITS),
        };
        let manifest = manifest.map_err(|error| self.origin.unreadable(error))?;
        let source = ContentSource {
            deployment: name_of(&self.deployment),
            commit: commit(&self.deployment),
            options: &self.deployment.spec.options,
            id: &self.id,
            limits: LIMITS,
        };
        Ok(ContentFiles::new(manifest, source)?)
    }
}

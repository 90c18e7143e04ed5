//! The archives of charts: from the cache, or downloaded and checked.
//!
//! ```text
//! BundleDeployment ─► key ─► flights ─► cache ──────────────────────────────► file
//!                            (one at      │ none                               ▲
//!                            a time)      └─► download ─► digest ─► archive ───┘
//! ```
//!
//! Whether the folders `crds` have Secrets is checked for each deployment: it matters only if these are left to Helm, and the
//! file may be from an earlier process.
//!
//! The chart of a Bundle with files is made of these, as in Fleet (`content.rs`), and is in the cache like others.
//!
//! A download goes to a file in the folder of the cache. If that fails, such as on a full disk, it goes to a temporary file in the
//! work folder: what can be deployed is deployed, and the cache stays as it is.

mod cache;
mod content;
mod error;
mod flights;
mod key;
mod metrics;
mod origin;

use std::{
    fs::File,
    io::{self, BufReader, BufWriter},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use helm_archive::{ArchiveError, Chart, Limits, check, check_crds};
use helm_index::ChartFilter;
use helmops_api::{BundleDeployment, bundle::BundleHelmOptions, labels};
use helmops_core::targeting::chart_record::resolved_chart;
use helmops_fetch::{
    AccessSource, CaCertificate, ChartDownload, MAX_ARCHIVE, Resolver, normalized_index_url,
};
use helmops_model::chart::source::{ChartSource, SourceError};
use helmops_release::lifecycle::Policy;
use kube::Client;
use tempfile::NamedTempFile;

use self::{
    cache::temporary_in,
    content::{ContentReader, ContentStore},
    flights::Flights,
    key::ChartKey,
};
pub use self::{
    cache::{ChartCache, ChartFile},
    content::OverlayPatches,
    error::ChartError,
    metrics::{ChartMetrics, chart_failures},
    origin::{ChartOrigin, commit, has_files_of_bundle, kustomize_folder},
};
use crate::deployments::Deployments;

/// The source of CA certificates, for messages.
const CA_BUNDLE: &str = "helmOpCABundle of the BundleDeployment";

/// The archives of charts.
#[derive(Debug)]
pub struct Charts {
    resolver: Resolver,
    cache: Option<ChartCache>,
    work_folder: PathBuf,
    flights: Flights,
    content: ContentReader,
    metrics: ChartMetrics,
    /// All deployments: their charts of one repository are found with one request for its index.
    deployments: Deployments,
}

impl Charts {
    /// Archives of `resolver`, kept in `cache` if there is one. Where they cannot be kept, they are in `work_folder` while they are
    /// used.
    pub fn new(
        resolver: Resolver,
        cache: Option<ChartCache>,
        work_folder: PathBuf,
        deployments: Deployments,
        metrics: ChartMetrics,
    ) -> Self {
        metrics.cache_size(cache.as_ref().map_or(0, ChartCache::bytes));
        Self {
            resolver,
            cache,
            work_folder,
            flights: Flights::default(),
            content: ContentReader::default(),
            metrics,
            deployments,
        }
    }

    /// The archive of the chart of a deployment. Its Secret is in the namespace of the deployment, in the management cluster.
    ///
    /// # Errors
    /// If it cannot be fetched, has another digest than recorded, is not the chart, or contains what no chart needs. Also if Helm would
    /// create Secrets from its folders `crds`.
    pub async fn get(
        &self,
        upstream: &Client,
        deployment: &BundleDeployment,
        patches: &OverlayPatches<'_>,
    ) -> Result<ChartFile, ChartError> {
        let needed = Needed {
            upstream,
            deployment,
            patches,
        };
        let file = self.fetch(needed).await?;
        if leaves_crds_to_helm(deployment) {
            let path = file.path().to_owned();
            let checked = blocking(move || Ok(check_crds_of(&path))).await?;
            checked.map_err(|error| ChartError::Crds(Box::new(error)))?;
        }
        Ok(file)
    }

    /// The chart in an archive: name and version are those in its `Chart.yaml`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn chart_in(file: &ChartFile) -> Result<Chart, ChartError> {
        let path = file.path().to_owned();
        let read = blocking(move || Ok(chart_in(&path))).await?;
        read.map_err(|error| io::Error::other(error).into())
    }

    /// The archive from the cache, or downloaded and checked.
    async fn fetch(&self, needed: Needed<'_>) -> Result<ChartFile, ChartError> {
        let deployment = needed.deployment;
        let key = ChartKey::of(deployment);
        let _flight = self.flights.enter(&key).await;
        let Some(cache) = &self.cache else {
            self.metrics.needed(false);
            return self.download_temporarily(needed).await;
        };
        let tenant = labels::of(&deployment.metadata, labels::BUNDLE_NAMESPACE);
        let tenant: Arc<str> = Arc::from(tenant.unwrap_or_default());
        let (known, cached, user) = (key.clone(), cache.clone(), Arc::clone(&tenant));
        let cached = blocking(move || Ok(cached.get(&known, &user))).await?;
        self.metrics.needed(cached.is_some());
        if let Some(file) = cached {
            return Ok(file);
        }
        let downloaded = match cache.create() {
            Ok(file) => self.download(needed, file).await,
            Err(error) => Err(error.into()),
        };
        match downloaded {
            Ok(Archive { file, sha256, bytes }) => {
                let cached = cache.clone();
                let file = blocking(move || Ok(cached.put(&key, file, &sha256, bytes, &tenant))).await;
                self.metrics.cache_size(cache.bytes());
                file
            }
            Err(error) if error.is_of_storage() => {
                tracing::warn!(%error, "a chart cannot be kept in the cache");
                self.download_temporarily(needed).await
            }
            Err(error) => Err(error),
        }
    }

    async fn download_temporarily(&self, needed: Needed<'_>) -> Result<ChartFile, ChartError> {
        let file = temporary_in(&self.work_folder)?;
        let archive = self.download(needed, file).await?;
        Ok(ChartFile::temporary(archive.file))
    }

    /// Downloads the archive of a deployment, or makes it of files, and checks it.
    async fn download(&self, needed: Needed<'_>, file: NamedTempFile) -> Result<Archive, ChartError> {
        let Needed {
            upstream, deployment, ..
        } = needed;
        let downloaded = match ChartOrigin::of(deployment) {
            ChartOrigin::Repository => self.checked_download(upstream, deployment, file).await,
            ChartOrigin::Content | ChartOrigin::Storage => self.packed(needed, file).await,
        };
        self.metrics.downloaded(downloaded.as_ref().err());
        downloaded
    }

    /// The chart that is made of the files of a Bundle.
    async fn packed(&self, needed: Needed<'_>, file: NamedTempFile) -> Result<Archive, ChartError> {
        let Needed {
            upstream,
            deployment,
            patches,
        } = needed;
        let source = ContentStore {
            upstream,
            resolver: &self.resolver,
        };
        let packed = Box::pin(self.content.pack(source, deployment, patches, file)).await;
        checked(packed?, ChartError::Files).await
    }

    async fn checked_download(
        &self,
        upstream: &Client,
        deployment: &BundleDeployment,
        file: NamedTempFile,
    ) -> Result<Archive, ChartError> {
        let spec = &deployment.spec;
        let helm = spec.options.helm.as_ref().ok_or(ChartError::NoChart)?;
        let is_missing = |error: &SourceError| matches!(error, SourceError::NoChart | SourceError::NoRepo);
        if ChartSource::errors(&helm.repo, &helm.chart, &helm.version)
            .iter()
            .any(is_missing)
        {
            return Err(ChartError::NoChart);
        }
        let source = ChartSource::of(&helm.repo, &helm.chart);
        let resolved = resolved_chart(deployment);
        let is_resolved = resolved.is_some();
        let digest = resolved.map(|resolved| resolved.digest).unwrap_or_default();
        let chart = ChartDownload {
            source,
            version: &helm.version,
            is_resolved,
            expected_digest: &digest,
            limit: MAX_ARCHIVE,
        };
        let options = spec.helm_chart_options.clone().unwrap_or_default();
        let ca_certificates = ca_certificates(&options)?;
        let access = access(deployment, &options, &ca_certificates);
        let interest = |index: &str, _: Option<&str>| self.charts_in(index);
        // A handle of its own: the file is deleted with `file` if the download fails.
        let output = BufWriter::new(file.reopen()?);
        let downloaded = self
            .resolver
            .download(upstream, access, &interest, chart, output)
            .await?;
        let archive = Archive {
            file,
            sha256: downloaded.sha256,
            bytes: downloaded.bytes,
        };
        let url = downloaded.url;
        checked(archive, |source| ChartError::Archive { url, source }).await
    }

    /// The charts of a repository that deployments use.
    fn charts_in(&self, index: &str) -> ChartFilter {
        let deployments = self.deployments.state();
        let deployments = deployments.iter().filter_map(|deployment| deployment.valid());
        let charts = deployments.filter_map(|deployment| {
            let helm = deployment.spec.options.helm.as_ref()?;
            let is_here = normalized_index_url(&helm.repo).as_deref() == Some(index);
            is_here.then(|| helm.chart.clone())
        });
        charts.collect()
    }
}

/// A chart that a deployment needs.
#[derive(Clone, Copy)]
struct Needed<'n> {
    /// The management cluster.
    upstream: &'n Client,
    deployment: &'n BundleDeployment,
    /// For the files of a Bundle.
    patches: &'n OverlayPatches<'n>,
}

/// A downloaded archive.
struct Archive {
    file: NamedTempFile,
    sha256: String,
    bytes: u64,
}

/// Checks an archive.
async fn checked(
    archive: Archive,
    refused: impl FnOnce(Box<ArchiveError>) -> ChartError,
) -> Result<Archive, ChartError> {
    let path = archive.file.path().to_owned();
    let checked = blocking(move || Ok(chart_in(&path))).await?;
    checked.map_err(|source| refused(Box::new(source)))?;
    Ok(archive)
}

/// Checks an archive, and reads which chart it has. Name and version may differ from those of its tag or of its entry in the index, as
/// after a promotion by another tag: the digest proves that it is the one that was resolved.
///
/// # Errors
/// If it cannot be read, or has something that no chart needs.
fn chart_in(path: &Path) -> Result<Chart, ArchiveError> {
    let file = File::open(path).map_err(ArchiveError::Input)?;
    check(BufReader::new(file), Limits::default())
}

/// Whether an installation creates whatever is in the folders `crds`. With a policy for installations Helm does not read them, and the
/// agent applies only the CRDs ([`crate::crds`]). An upgrade never reads them, but which charts are refused does not depend on what is
/// deployed.
fn leaves_crds_to_helm(deployment: &BundleDeployment) -> bool {
    let spec = &deployment.spec;
    let policy = Policy::of(&spec.options, spec.lifecycle.as_deref());
    policy.install.crds.is_none()
}

fn check_crds_of(path: &Path) -> Result<(), ArchiveError> {
    let file = File::open(path).map_err(ArchiveError::Input)?;
    check_crds(BufReader::new(file), Limits::default())
}

fn access<'a>(
    deployment: &'a BundleDeployment,
    options: &'a BundleHelmOptions,
    ca_certificates: &'a [CaCertificate],
) -> AccessSource<'a> {
    AccessSource {
        insecure_skip_tls_verify: options.insecure_skip_tls_verify,
        ca_certificates,
        ..access_of_secret(deployment, &options.secret_name)
    }
}

/// The access by a Secret beside a deployment.
fn access_of_secret<'a>(deployment: &'a BundleDeployment, secret: &'a str) -> AccessSource<'a> {
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    AccessSource {
        namespace,
        // Tenants share the connections by the namespace of their Bundles.
        charged_to: labels::of(&deployment.metadata, labels::BUNDLE_NAMESPACE).unwrap_or(namespace),
        secret,
        insecure_skip_tls_verify: false,
        ca_certificates: &[],
    }
}

fn ca_certificates(options: &BundleHelmOptions) -> Result<Vec<CaCertificate>, ChartError> {
    if options.ca_bundle.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![(STANDARD.decode(&options.ca_bundle)?, CA_BUNDLE)])
}

/// Runs what waits for the disk on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ChartError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(io::Error::other)??)
}

#[cfg(test)]
mod tests;

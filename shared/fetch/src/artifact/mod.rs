//! Charts in artifacts of registries.
//!
//! ```text
//! reference ─► digest of the manifest ─► known? ─► layer ─► files ─► archive
//! ```
//!
//! A poll that finds the same manifest is one request. The content of a manifest never changes, so what the chart of one consists of is
//! cached.

mod chart;
pub mod error;
mod version;

use std::{sync::Arc, time::Instant};

use helm_index::VersionRequest;
use helmops_chart::ListedContent;
use helmops_fair::ByteBudget;
use helmops_model::chart::artifact::{ArtifactChart, ArtifactReference};
use helmops_runtime::compute::Compute;

pub use self::error::ArtifactError;
use super::{
    access::Access,
    cache::{Cache, CacheSettings, Sizes},
    download::{DownloadError, Pull, Sources},
    metrics::FetchMetrics,
    oci::{RegistryChart, RegistryError, RegistryKey},
};

/// Artifacts, and what is cached of them.
#[derive(Debug)]
pub struct Artifacts {
    contents: Cache<ContentKey, KnownContent, ArtifactError>,
    budget: ByteBudget,
    /// The permits for unpacking artifacts and packing charts.
    pub compute: Compute,
}

/// A repository with the access to it, and the digest of a manifest with what is packed of it.
type ContentKey = (RegistryKey, String);

/// What the chart in an artifact consists of.
#[derive(Clone, Debug)]
struct KnownContent {
    version: String,
    content: ListedContent,
}

impl KnownContent {
    fn bytes(&self) -> usize {
        self.version.len() + self.content.to_string().len()
    }
}

/// An artifact with the access of one HelmOp.
struct Source<'a> {
    artifacts: &'a Artifacts,
    sources: Sources<'a>,
    access: &'a Access,
    registry: RegistryChart<'a>,
    chart: &'a ArtifactChart,
}

impl Artifacts {
    /// Creates an empty cache.
    pub fn new(settings: CacheSettings, budget: ByteBudget, compute: Compute, fetches: FetchMetrics) -> Self {
        let sizes = Sizes {
            key: |(key, chart): &ContentKey| key.bytes() + chart.len(),
            value: KnownContent::bytes,
        };
        Self {
            contents: Cache::new(settings, sizes, fetches),
            budget,
            compute,
        }
    }

    fn source<'a>(
        &'a self,
        sources: Sources<'a>,
        access: &'a Access,
        chart: &'a ArtifactChart,
    ) -> Result<Source<'a>, RegistryError> {
        let registry = sources.registries.chart(sources.http, access, &chart.repo)?;
        Ok(Source {
            artifacts: self,
            sources,
            access,
            registry,
            chart,
        })
    }
}

impl Source<'_> {
    /// The digest of the manifest that the reference names, at `since` or later.
    async fn digest(&self, since: Instant) -> Result<String, RegistryError> {
        let registries = self.sources.registries;
        match &self.chart.reference {
            ArtifactReference::Digest(digest) => Ok(digest.clone()),
            ArtifactReference::Tag(tag) => registries.digest_of_tag(&self.registry, tag, since).await,
            ArtifactReference::Range(range) => {
                // It was read before, so it is a range.
                let request =
                    VersionRequest::parse(range).unwrap_or_else(|_| VersionRequest::resolved(range));
                let version = registries.version_of_chart(&self.registry, &request, since).await;
                version.map(|version| version.digest)
            }
        }
    }

    /// The URL of a manifest.
    fn url(&self, digest: &str) -> String {
        self.registry.location(&format!("@{digest}"))
    }

    /// What the chart in the artifact with this manifest consists of.
    async fn content(&self, digest: &str) -> Result<Arc<KnownContent>, ArtifactError> {
        let ArtifactChart { path, strategy, .. } = self.chart;
        let chart = format!("{digest} {} {}", strategy.as_str(), path.as_str());
        let key = (self.registry.key().clone(), chart);
        let fetch = async |(), known: Option<Arc<KnownContent>>| {
            if let Some(known) = known {
                return Ok(known);
            }
            let packed = self.packed(digest, crate::MAX_ARCHIVE).await?;
            Ok(Arc::new(KnownContent {
                version: packed.version,
                content: packed.content,
            }))
        };
        // The request for the artifact has its own permit.
        let (requester, acquire) = (self.registry.requester(Instant::now()), async || ());
        let contents = &self.artifacts.contents;
        contents.get(&key, requester, |_| true, acquire, fetch).await
    }

    fn pull(&self, limit: u64) -> Pull<'_> {
        Pull {
            sources: self.sources,
            access: self.access,
            limit,
            since: Instant::now(),
        }
    }
}

impl From<RegistryError> for ArtifactError {
    fn from(error: RegistryError) -> Self {
        Self::Download(Arc::new(DownloadError::Registry(error)))
    }
}

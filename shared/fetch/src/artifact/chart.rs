//! The chart in an artifact: its files, and its archive.

use std::sync::Arc;

use helm_archive::{Layout, Limits};
use helm_index::Meter;
use helmops_chart::{EntryId, ListedFilesError, PackRequest, PackedListedChart};

use super::{ArtifactError, Source};
use crate::{bounds::ReadMemory, files};

/// Bytes that are in use while a chart is packed, besides its files and its archive.
const WORKING: usize = 2 << 20;

impl Source<'_> {
    /// The chart in the artifact with this manifest, in an archive of at most `limit` bytes.
    pub(super) async fn packed(&self, digest: &str, limit: u64) -> Result<PackedListedChart, ArtifactError> {
        let (url, limit) = (self.url(digest), usize::try_from(limit).unwrap_or(usize::MAX));
        let mut memory = ReadMemory::new(&self.artifacts.budget, &self.access.namespace);
        // An archive of files that are no part of the chart may be larger than that of the chart.
        let most = usize::try_from(crate::MAX_ARCHIVE).unwrap_or(usize::MAX);
        memory.reserve(most).map_err(|_| ArtifactError::Memory)?;
        let pull = self.pull(crate::MAX_ARCHIVE);
        let pulled = pull.files(&self.registry, digest, &url, Vec::new()).await;
        let archive = pulled
            .map_err(|error| ArtifactError::Download(Arc::new(error)))?
            .output;
        let request = PackRequest {
            path: self.chart.path.clone(),
            strategy: self.chart.strategy,
            known: None,
            limit,
        };
        let work = move || pack(&url, &archive, request, memory);
        let compute = &self.artifacts.compute;
        compute.on_thread(&self.access.namespace, work).await
    }
}

/// Packs the chart in an archive of files.
fn pack(
    url: &str,
    archive: &[u8],
    request: PackRequest<EntryId>,
    mut memory: ReadMemory,
) -> Result<PackedListedChart, ArtifactError> {
    let refused = |source| ArtifactError::Archive {
        url: url.to_owned(),
        source: Arc::new(source),
    };
    let unpacked = helm_archive::size(archive, Limits::HELM, Layout::Top).map_err(refused)?;
    let base = archive.len() + usize::try_from(unpacked).unwrap_or(usize::MAX);
    let mut charge = |bytes: usize| memory.reserve(bytes).map_err(|_| ListedFilesError::Memory);
    charge(base).map_err(|_| ArtifactError::Memory)?;
    let all = helm_archive::files(archive, Limits::HELM, Layout::Top).map_err(refused)?;
    let packed = files::pack(all, request, |archive| charge(base + WORKING + archive));
    packed.map_err(|source| ArtifactError::Chart {
        url: url.to_owned(),
        source: Arc::new(source),
    })
}

//! The chart in an artifact: its files, and its archive.

use std::sync::Arc;

use helm_archive::{ArchiveError, Layout, Limits};
use helm_index::Meter;
use helmops_chart::{
    ChartError, ListedFile, ListedFiles, ListedFilesError, ListedFolders, PackRequest, PackedListedChart,
    Step,
};
use helmops_model::chart::digest::sha256_hex;

use super::{ArtifactError, Source};
use crate::bounds::ReadMemory;

/// Folders that files of an artifact are in.
const MAX_FOLDERS: usize = 20_000;
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
    request: PackRequest<helmops_chart::EntryId>,
    mut memory: ReadMemory,
) -> Result<PackedListedChart, ArtifactError> {
    let refused = |source| ArtifactError::Archive {
        url: url.to_owned(),
        source: Arc::new(source),
    };
    let unpacked = helm_archive::size(archive, Limits::HELM, Layout::Top).map_err(refused)?;
    let unpacked = usize::try_from(unpacked).unwrap_or(usize::MAX);
    let mut charge = |bytes: usize| memory.reserve(bytes).map_err(|_| ListedFilesError::Memory);
    let base = archive.len() + unpacked;
    charge(base).map_err(|_| ArtifactError::Memory)?;
    let all = helm_archive::files(archive, Limits::HELM, Layout::Top).map_err(refused)?;
    let listed: Vec<_> = all.iter().map(|(path, content)| listed(path, content)).collect();
    let failed = |source| ArtifactError::Chart {
        url: url.to_owned(),
        source: Arc::new(source),
    };
    let folders = ListedFolders::new(&listed, MAX_FOLDERS).map_err(|_| too_many(url))?;
    let (root, folders) = (folders.root(), Arc::new(folders));
    let mut files = ListedFiles::new(folders, usize::MAX);
    for (file, (_, content)) in listed.iter().zip(all) {
        files.add(file.id(), content.into());
    }
    match request.step(&mut files, root, |archive| charge(base + WORKING + archive)) {
        Ok(Step::Packed(packed)) => Ok(*packed),
        // Nothing is known, and all files are there.
        Ok(Step::Same | Step::Missing(_)) => Err(failed(ChartError::Tree(ListedFilesError::Missing))),
        Err(source) => Err(failed(source)),
    }
}

fn listed(path: &str, content: &[u8]) -> ListedFile {
    ListedFile {
        path: path.to_owned(),
        tag: sha256_hex(content),
        size: content.len() as u64,
    }
}

fn too_many(url: &str) -> ArtifactError {
    ArtifactError::Archive {
        url: url.to_owned(),
        source: Arc::new(ArchiveError::TooManyFiles { limit: MAX_FOLDERS }),
    }
}

//! The chart in a bucket: whether it has changed, and its archive.

use std::collections::BTreeMap;

use helm_archive::Limits as ArchiveLimits;
use helm_index::Meter;
use helmops_chart::{
    ChartPath, EntryId, ListedChartError, ListedContent, ListedFiles, ListedFilesError, ListedFolders,
    MAX_STEPS, PackRequest, Step, Strategy, as_is,
};

use super::{Arc, BucketError, BucketPoll, BucketQuery, Operation, Source};

/// Bytes that are in use while a chart is packed, besides its objects and its archive.
const WORKING: usize = 2 << 20;

impl Source<'_> {
    /// The chart in a folder, unless it is the same as before.
    pub async fn folder(
        &self,
        path: &ChartPath,
        strategy: Strategy,
        query: BucketQuery<'_>,
    ) -> Result<BucketPoll, BucketError> {
        let folders = self.folders(None, query.since).await?;
        let limit = self.buckets.limits.object;
        let mut files = ListedFiles::new(Arc::clone(&folders), limit);
        let request = PackRequest {
            path: path.clone(),
            strategy,
            known: query.known.cloned(),
            limit: query.archive,
        };
        // Charged until the chart is packed.
        let mut memory = self.memory();
        let mut total = 0;
        for _ in 0..MAX_STEPS {
            let outcome = self
                .compute(request.clone(), folders.root(), files.clone())
                .await
                .map_err(|source| self.chart_error(source))?;
            let missing = match outcome {
                Step::Same => return Ok(BucketPoll::SameContent),
                Step::Packed(packed) => return Ok(BucketPoll::Changed(packed)),
                Step::Missing(missing) => missing,
            };
            total += size(&folders, &missing);
            if total > ArchiveLimits::HELM.total {
                return Err(BucketError::ChartTooLarge {
                    bucket: self.location.shown(),
                    limit: ArchiveLimits::HELM.total,
                });
            }
            let bytes = usize::try_from(total).unwrap_or(usize::MAX);
            memory.reserve(bytes).map_err(|_| BucketError::Memory)?;
            self.fetch(&folders, missing, &mut files).await?;
        }
        Err(BucketError::MissingObjects {
            bucket: self.location.shown(),
        })
    }

    /// The archive at a path, unless it is the same as before.
    pub async fn archive(&self, path: &ChartPath, query: BucketQuery<'_>) -> Result<BucketPoll, BucketError> {
        let folders = self.folders(Some(path), query.since).await?;
        let (bucket, object) = (self.location.shown(), self.location.object(path));
        let Some((id, listed)) = folders.find(path.as_str()) else {
            return Err(BucketError::NoArchive { bucket, object });
        };
        let content = ListedContent {
            tree: id,
            local: BTreeMap::new(),
        };
        if query.known == Some(&content) {
            return Ok(BucketPoll::SameContent);
        }
        let limit = query.archive;
        if listed.size > limit as u64 {
            return Err(BucketError::ArchiveTooLarge {
                bucket,
                object,
                limit,
            });
        }
        let session = self.session(self.acquire_permit().await, Operation::Get, limit)?;
        let archive = session.object(&object, listed).await?;
        let checked = move || as_is(archive.to_vec(), content);
        let checked = self
            .buckets
            .compute
            .on_thread(&self.access.namespace, checked)
            .await;
        match checked {
            Ok(packed) => Ok(BucketPoll::Changed(Box::new(packed))),
            Err(source) => Err(BucketError::Archive {
                bucket,
                object,
                source: Arc::new(source),
            }),
        }
    }

    async fn fetch(
        &self,
        folders: &ListedFolders,
        wanted: Vec<EntryId>,
        files: &mut ListedFiles,
    ) -> Result<(), BucketError> {
        let limit = self.buckets.limits.object;
        let session = self.session(self.acquire_permit().await, Operation::Get, limit)?;
        let base = self.location.listed_prefix();
        for id in wanted {
            if let Some(listed) = folders.object(id) {
                let name = format!("{base}{}", listed.path);
                files.add(id, session.object(&name, listed).await?);
            }
        }
        Ok(())
    }

    async fn compute(
        &self,
        request: PackRequest<EntryId>,
        root: EntryId,
        mut files: ListedFiles,
    ) -> Result<Step<EntryId>, ListedChartError> {
        let mut memory = self.memory();
        let run = move || {
            request.step(&mut files, root, |archive| {
                let reserved = memory.reserve(WORKING + archive);
                reserved.map_err(|_| ListedFilesError::Memory)
            })
        };
        self.buckets.compute.on_thread(&self.access.namespace, run).await
    }

    fn chart_error(&self, source: ListedChartError) -> BucketError {
        BucketError::Chart {
            bucket: self.location.shown(),
            source: Arc::new(source),
        }
    }
}

fn size(folders: &ListedFolders, wanted: &[EntryId]) -> u64 {
    let objects = wanted.iter().filter_map(|id| folders.object(*id));
    objects.map(|object| object.size).sum()
}

//! The chart in a bucket: whether it has changed, and its archive.

use std::collections::BTreeMap;

use helm_archive::Limits as ArchiveLimits;
use helm_index::Meter;
use helmops_bucket::{BucketFiles, BucketFilesError, ChartError, ContentId};
use helmops_chart::{Assembly, ChartPath, Strategy, as_is, assemble, pack};

use super::{
    Arc, BucketError, BucketFolders, BucketPoll, BucketQuery, Content, Operation, PackedChart, Source,
};

/// Steps for one chart: the objects of it, and of those that it includes and that include others, each after its `.helmignore`, and the last
/// one when all are there.
const MAX_STEPS: usize = 11;
/// Bytes that are in use while a chart is packed, besides its objects and its archive.
const WORKING: usize = 2 << 20;

/// What is done with the objects of a chart.
#[derive(Clone)]
struct Work {
    files: BucketFiles,
    root: ContentId,
    path: ChartPath,
    strategy: Strategy,
    known: Option<Content>,
    limit: usize,
}

/// What the objects of a chart are.
enum Outcome {
    Same,
    Packed(Box<PackedChart>),
    Missing(Vec<ContentId>),
}

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
        let mut work = Work {
            files: BucketFiles::new(Arc::clone(&folders), limit),
            root: folders.root(),
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
                .compute(work.clone())
                .await
                .map_err(|source| self.chart_error(source))?;
            let missing = match outcome {
                Outcome::Same => return Ok(BucketPoll::SameContent),
                Outcome::Packed(packed) => return Ok(BucketPoll::Changed(packed)),
                Outcome::Missing(missing) => missing,
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
            self.fetch(&folders, missing, &mut work.files).await?;
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
        let content = Content {
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
        folders: &BucketFolders,
        wanted: Vec<ContentId>,
        files: &mut BucketFiles,
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

    async fn compute(&self, work: Work) -> Result<Outcome, ChartError> {
        let mut memory = self.memory();
        let run = move || {
            let reserved = memory.reserve(WORKING + work.limit);
            reserved.map_err(|_| ChartError::Tree(BucketFilesError::Memory))?;
            work.run()
        };
        self.buckets.compute.on_thread(&self.access.namespace, run).await
    }

    fn chart_error(&self, source: ChartError) -> BucketError {
        BucketError::Chart {
            bucket: self.location.shown(),
            source: Arc::new(source),
        }
    }
}

fn size(folders: &BucketFolders, wanted: &[ContentId]) -> u64 {
    let objects = wanted.iter().filter_map(|id| folders.object(*id));
    objects.map(|object| object.size).sum()
}

impl Work {
    fn run(mut self) -> Result<Outcome, ChartError> {
        if let Some(known) = &self.known
            && known.is_same_in(&mut self.files, self.root, &self.path)?
        {
            return Ok(Outcome::Same);
        }
        match assemble(&mut self.files, self.root, &self.path)? {
            Assembly::Missing(missing) => Ok(Outcome::Missing(missing)),
            Assembly::Complete(chart) => {
                let packed = pack(&mut self.files, *chart, self.strategy, self.limit)?;
                Ok(Outcome::Packed(Box::new(packed)))
            }
        }
    }
}

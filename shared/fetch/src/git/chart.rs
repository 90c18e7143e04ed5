//! The chart in a commit: whether it has changed, and its archive.

use helm_index::Meter;
use helmops_chart::{MAX_STEPS, PackRequest, Step};
use helmops_git::{CACHE, Objects, PackError, chart::ChartError};

use super::{
    Arc, FetchRequest, GitChart, GitError, GitPoll, GitQuery, ObjectId, Pack, ReadMemory, Selected, Source,
    trees::TreePack,
};

/// Bytes that are in use while a chart is packed, besides its packs and its archive: decompressed objects, and a folder and a file.
const WORKING: usize = CACHE + (8 << 20);

impl Source<'_> {
    /// The chart in a commit, unless it is the same as before.
    pub async fn chart(
        &self,
        chart: &GitChart,
        selected: Selected,
        trees: Arc<TreePack>,
        query: GitQuery<'_>,
    ) -> Result<GitPoll, GitError> {
        let request = PackRequest {
            path: chart.path.clone(),
            strategy: chart.strategy,
            known: query.known.map(|known| known.content.clone()),
            limit: query.archive,
        };
        let failed = |source| GitError::Chart {
            url: self.shown(),
            commit: selected.commit,
            source: Arc::new(source),
        };
        let mut packs = vec![Arc::clone(&trees.pack)];
        // Charged until the chart is packed.
        let mut memory = Vec::new();
        let mut is_without_files = trees.is_without_files;
        for _ in 0..MAX_STEPS {
            let outcome = self
                .compute(request.clone(), selected.commit, packs.clone())
                .await
                .map_err(failed)?;
            let missing = match outcome {
                Step::Same => return Ok(GitPoll::SameContent(selected)),
                Step::Packed(packed) => return Ok(GitPoll::Changed(selected, packed)),
                Step::Missing(missing) => missing,
            };
            if !is_without_files {
                break;
            }
            let files = self.fetched(FetchRequest::Files(missing)).await;
            let (pack, charge) = match files {
                // Some servers leave out files, and then send no single ones.
                Err(error) if error.may_be_of_another_server() => {
                    is_without_files = false;
                    self.fetched(FetchRequest::Whole(selected.commit)).await?
                }
                other => other?,
            };
            packs.push(Arc::new(pack));
            memory.push(charge);
        }
        Err(GitError::MissingFiles { url: self.shown() })
    }

    async fn fetched(&self, wanted: FetchRequest) -> Result<(Pack, ReadMemory), GitError> {
        let permit = self.acquire_permit().await;
        let fetched = self.pack(&permit, wanted).await;
        let (pack, memory, _) = fetched.map_err(|error| self.own_error(error))?;
        Ok((pack, memory))
    }

    async fn compute(
        &self,
        request: PackRequest<ObjectId>,
        commit: ObjectId,
        packs: Vec<Arc<Pack>>,
    ) -> Result<Step<ObjectId>, ChartError> {
        let (compute, mut memory) = (&self.repositories.compute, self.memory());
        let run = move || {
            let mut reserve = |bytes| memory.reserve(bytes).map_err(PackError::Memory);
            reserve(CACHE).map_err(ChartError::Tree)?;
            let mut objects = Objects::default();
            for pack in packs {
                objects.add(pack);
            }
            let root = objects.root(commit).map_err(ChartError::Tree)?;
            request.step(&mut objects, root, |archive| reserve(WORKING + archive))
        };
        compute.on_thread(&self.access.namespace, run).await
    }
}

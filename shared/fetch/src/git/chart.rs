//! The chart in a commit: whether it has changed, and its archive.

use helm_index::Meter;
use helmops_git::{
    CACHE, Objects, PackError,
    chart::{Assembly, ChartError, assemble, pack},
};

use super::{
    Arc, ChartPath, Content, FetchRequest, GitChart, GitError, GitPoll, GitQuery, ObjectId, Pack,
    PackedChart, ReadMemory, Selected, Source, Strategy, trees::TreePack,
};

/// Steps for one chart: the files of it, and of those that it includes and that include others, each after its `.helmignore`, and the last
/// one when all are there.
const MAX_STEPS: usize = 11;

/// Bytes that are in use while a chart is packed, besides its packs and its archive: decompressed objects, and a folder and a file.
const WORKING: usize = CACHE + (8 << 20);

/// What is done with the packs of a chart.
#[derive(Clone)]
struct Work {
    path: ChartPath,
    commit: ObjectId,
    strategy: Strategy,
    known: Option<Content>,
    limit: usize,
}

/// What the packs of a chart contain.
enum Outcome {
    Same,
    Packed(Box<PackedChart>),
    Missing(Vec<ObjectId>),
}

impl Source<'_> {
    /// The chart in a commit, unless it is the same as before.
    pub async fn chart(
        &self,
        chart: &GitChart,
        selected: Selected,
        trees: Arc<TreePack>,
        query: GitQuery<'_>,
    ) -> Result<GitPoll, GitError> {
        let work = Work {
            path: chart.path.clone(),
            commit: selected.commit,
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
            let outcome = self.compute(work.clone(), packs.clone()).await.map_err(failed)?;
            let missing = match outcome {
                Outcome::Same => return Ok(GitPoll::SameContent(selected)),
                Outcome::Packed(packed) => return Ok(GitPoll::Changed(selected, packed)),
                Outcome::Missing(missing) => missing,
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

    async fn compute(&self, work: Work, packs: Vec<Arc<Pack>>) -> Result<Outcome, ChartError> {
        let (compute, mut memory) = (&self.repositories.compute, self.memory());
        let run = move || work.run(packs, &mut memory);
        compute.on_thread(&self.access.namespace, run).await
    }
}

impl Work {
    /// Most checks find the same chart, and take the memory for its folders only.
    fn run(self, packs: Vec<Arc<Pack>>, memory: &mut impl Meter) -> Result<Outcome, ChartError> {
        let mut reserve = |bytes| {
            let reserved = memory.reserve(bytes);
            reserved.map_err(|error| ChartError::Tree(PackError::Memory(error)))
        };
        reserve(CACHE)?;
        let mut objects = Objects::default();
        for pack in packs {
            objects.add(pack);
        }
        let root = objects.root(self.commit).map_err(ChartError::Tree)?;
        if let Some(known) = &self.known
            && known.is_same_in(&mut objects, root, &self.path)?
        {
            return Ok(Outcome::Same);
        }
        reserve(WORKING)?;
        match assemble(&mut objects, root, &self.path)? {
            Assembly::Missing(missing) => Ok(Outcome::Missing(missing)),
            Assembly::Complete(files) => {
                reserve(WORKING + self.limit)?;
                let packed = pack(&mut objects, *files, self.strategy, self.limit)?;
                Ok(Outcome::Packed(Box::new(packed)))
            }
        }
    }
}

//! The folders of a commit, without its files if the server can leave them out. They are the same for all charts of the repository.

use super::{Arc, FetchRequest, GitError, Instant, ObjectId, Pack, RepositoryKey, Source};
use crate::cache::Requester;

/// The key of cached folders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TreesKey {
    pub repository: RepositoryKey,
    pub commit: ObjectId,
}

impl TreesKey {
    pub fn bytes(&self) -> usize {
        self.repository.bytes()
    }
}

/// The folders of a commit.
#[derive(Debug)]
pub(super) struct TreePack {
    pub pack: Arc<Pack>,
    /// Whether files have to be fetched besides.
    pub is_without_files: bool,
}

impl TreePack {
    pub fn bytes(&self) -> usize {
        self.pack.bytes()
    }
}

impl Source<'_> {
    /// The folders of a commit. They never change, so those of an earlier request are as good as new ones.
    pub async fn trees(&self, commit: ObjectId, since: Instant) -> Result<Arc<TreePack>, GitError> {
        let key = TreesKey {
            repository: self.key(),
            commit,
        };
        let requester = Requester {
            namespace: &self.access.namespace,
            since,
        };
        let acquire = || self.acquire_permit();
        let trees = self.repositories.trees.get(
            &key,
            requester,
            |_| true,
            acquire,
            async |permit, known| {
                if let Some(known) = known {
                    return Ok(known);
                }
                let (pack, _memory, capabilities) = self.pack(&permit, FetchRequest::Commit(commit)).await?;
                Ok(Arc::new(TreePack {
                    pack: Arc::new(pack),
                    is_without_files: capabilities.has_filter,
                }))
            },
        );
        trees.await.map_err(|error| self.own_error(error))
    }
}

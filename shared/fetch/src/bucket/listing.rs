//! The list of objects, and the folders that it makes. It is the same for all charts below the prefix.

use helmops_chart::{ChartPath, ListedFile, ListedFolders};

use super::{Arc, BucketError, BucketLocation, Instant, Operation, RequestPermit, Source, session::tag};
use crate::cache::Requester;

/// Objects in a response. Servers do not return more.
const PAGE: usize = 1000;
/// The same if a single object is meant: few others begin like it, and those that continue its name come after it.
const FEW: usize = 10;

/// The key of cached folders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ListingKey {
    pub location: BucketLocation,
    /// The only object that is meant.
    pub archive: Option<ChartPath>,
    pub identity: [u8; 32],
}

/// What is listed.
#[derive(Clone, Copy)]
enum Listed<'l> {
    /// All objects whose names have this start.
    Below(&'l str),
    /// One object. A server may send it with any page: those of Azure and of Google may have no objects, and more after them.
    Only(&'l str),
}

impl<'l> Listed<'l> {
    /// The start of the names. Of a single object, it is all of its name but its end: of Azure, the store leaves out an object whose name is
    /// the prefix.
    fn prefix(self) -> &'l str {
        match self {
            Self::Below(prefix) => prefix,
            Self::Only(name) => {
                let end = name.char_indices().next_back().map_or(0, |(at, _)| at);
                name.get(..end).unwrap_or_default()
            }
        }
    }

    const fn page_size(self) -> usize {
        match self {
            Self::Below(_) => PAGE,
            Self::Only(_) => FEW,
        }
    }

    /// Whether nothing that is needed is listed after this object: names are in their order.
    fn is_last(self, name: &str) -> bool {
        matches!(self, Self::Only(wanted) if name >= wanted)
    }
}

impl ListingKey {
    pub fn bytes(&self) -> usize {
        let BucketLocation {
            endpoint,
            name,
            region,
            prefix,
            ..
        } = &self.location;
        let archive = self.archive.as_ref().map_or(0, |path| path.as_str().len());
        endpoint.as_str().len() + name.len() + region.len() + prefix.as_str().len() + archive
    }
}

impl Source<'_> {
    /// The folders below the prefix, or those of a single object, by a list at `since` or later.
    pub async fn folders(
        &self,
        archive: Option<&ChartPath>,
        since: Instant,
    ) -> Result<Arc<ListedFolders>, BucketError> {
        let key = ListingKey {
            location: self.location.clone(),
            archive: archive.cloned(),
            identity: self.access.identity(None),
        };
        let requester = Requester {
            namespace: &self.access.namespace,
            since,
        };
        let acquire = || self.acquire_permit();
        let folders = self.buckets.listings.get(
            &key,
            requester,
            |_| true,
            acquire,
            async |permit, _| self.read_folders(permit, archive).await.map(Arc::new),
        );
        folders.await
    }

    async fn read_folders(
        &self,
        permit: RequestPermit,
        archive: Option<&ChartPath>,
    ) -> Result<ListedFolders, BucketError> {
        let objects = match archive {
            Some(path) => {
                // All of a name but its end: of Azure, the store leaves out an object whose name is the prefix.
                let object = self.location.object(path);
                self.list(permit, Listed::Only(&object)).await?
            }
            None => {
                self.list(permit, Listed::Below(&self.location.listed_prefix()))
                    .await?
            }
        };
        let limit = self.buckets.limits.folders;
        let named = move || ListedFolders::new(&objects, limit);
        let folders = self
            .buckets
            .compute
            .on_thread(&self.access.namespace, named)
            .await;
        folders.map_err(|error| self.too_large(error.to_string()))
    }

    async fn list(&self, permit: RequestPermit, listed: Listed<'_>) -> Result<Vec<ListedFile>, BucketError> {
        let limits = self.buckets.limits;
        let session = self.session(permit, Operation::List, limits.page)?;
        let base = self.location.listed_prefix();
        let (mut objects, mut next) = (Vec::new(), None);
        for _ in 0..limits.pages {
            let page = session.page(listed.prefix(), next, listed.page_size()).await?;
            let is_enough = page
                .result
                .objects
                .iter()
                .any(|object| listed.is_last(object.location.as_ref()));
            for object in &page.result.objects {
                let path = object.location.as_ref().strip_prefix(&*base);
                let listed = path.map(|path| ListedFile {
                    path: path.to_owned(),
                    tag: tag(object),
                    size: object.size,
                });
                // Twice: as they are listed, and in their folders.
                session.keep(listed.as_ref().map_or(0, |listed| 2 * listed.bytes()));
                objects.extend(listed);
            }
            if objects.len() > limits.objects {
                return Err(self.too_large(format!("there are more than {} objects", limits.objects)));
            }
            next = page.page_token.filter(|token| !token.is_empty());
            if next.is_none() || is_enough {
                return Ok(objects);
            }
        }
        Err(self.too_large(format!("their list has more than {} parts", limits.pages)))
    }

    fn too_large(&self, what: String) -> BucketError {
        BucketError::TooManyObjects {
            bucket: self.location.shown(),
            prefix: self.location.listed_prefix(),
            what,
        }
    }
}

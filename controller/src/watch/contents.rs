//! The cache of the Contents that this controller has written: their metadata, and never their content.

use std::sync::Arc;

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{Bundle, Content, Decoded, MetadataOnly, NamespacedName, labels};
use helmops_content::ContentId;
use helmops_core::content::{StoredContent, references};
use helmops_kube::{Cache, Change, Fold, Index, ObjectCache, empty_if_absent, watch_results, without_errors};
use kube::{Api, Client, Resource, runtime::watcher};

use super::named;
use crate::work::Work;

/// The Contents, as last observed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    cache: Cache<Arc<StoredContent>, ById>,
}

impl Contents {
    /// Of a list without objects.
    #[cfg(test)]
    pub fn listed() -> Self {
        let contents = Self::default();
        contents.cache.apply(0, watcher::Event::Init);
        contents.cache.apply(0, watcher::Event::InitDone);
        contents
    }

    /// Waits until they are listed, or are known not to exist.
    pub async fn wait_until_synced(&self) {
        self.cache.wait_until_synced().await;
    }

    /// All of them.
    pub fn all(&self) -> Vec<StoredContent> {
        let all = self.cache.state();
        all.iter().map(|object| StoredContent::clone(object)).collect()
    }

    /// The number of objects, and of the bytes that are stored in them.
    pub fn size(&self) -> (usize, u64) {
        self.cache.read(|objects, _| {
            let sizes = objects.iter().map(|(_, object)| object.bytes);
            sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
        })
    }

    /// Whether some content is there with all its parts.
    pub fn has(&self, id: &ContentId) -> bool {
        let head = self.cache.value(&NamespacedName::new("", id.as_str()));
        head.is_some_and(|head| head.parts.iter().all(|part| self.has_object(part)))
    }

    /// Whether there is an object of this name.
    pub fn has_object(&self, name: &str) -> bool {
        self.cache.value(&NamespacedName::new("", name)).is_some()
    }

    /// The objects of some content.
    pub fn of(&self, id: &ContentId) -> Vec<StoredContent> {
        self.cache.read(|objects, by_id| {
            let found = by_id.0.get(id).filter_map(|name| objects.get(name));
            found.map(|object| StoredContent::clone(object)).collect()
        })
    }

    /// Records an object that was just written.
    pub fn wrote(&self, object: StoredContent) {
        let name = NamespacedName::new("", &*object.name);
        self.cache.wrote(name, Arc::new(object));
    }

    /// Records that an object was deleted.
    #[cfg(test)]
    pub fn deleted(&self, name: &str) {
        self.cache.deleted(NamespacedName::new("", name));
    }

    /// Watches them. The collection of what is not used any more starts with the watch, and repeats itself; one that is gone is a change of
    /// the HelmOps that need it.
    pub fn watch(&self, client: &Client, bundles: &ObjectCache<Decoded<Bundle>>) -> BoxStream<'static, Work> {
        let api = Api::<MetadataOnly<Content>>::all(client.clone());
        let config = watcher::Config::default().labels(labels::CONTENT);
        let kind = Content::kind(&());
        let consequence = "no chart can travel through the management cluster";
        let events = empty_if_absent(&kind, consequence, watch_results(api, config));
        let events = without_errors(&kind, events);
        let stored = |object: MetadataOnly<Content>| StoredContent::of(&object.metadata).map(Arc::new);
        let bundles = bundles.clone();
        let changes = self
            .cache
            .follow(vec![(None, events)], stored)
            .flat_map(stream::iter)
            .flat_map(move |change| stream::iter(affected(&change, &bundles)));
        with_collection(changes).boxed()
    }
}

/// The changes, and the first collection. It does not depend on a change: the cache may have what this process has written before the watch
/// reports it.
fn with_collection(changes: impl Stream<Item = Work>) -> impl Stream<Item = Work> {
    stream::select(stream::iter([Work::Contents]), changes)
}

/// The HelmOps that need what is gone.
fn affected(change: &Change<Arc<StoredContent>>, bundles: &ObjectCache<Decoded<Bundle>>) -> Vec<Work> {
    let gone = change.before.as_ref().filter(|_| change.after.is_none());
    let gone = gone.and_then(|object| object.id());
    let needs = |bundle: &Decoded<Bundle>, id: &ContentId| {
        bundle
            .valid()
            .is_some_and(|bundle| references(bundle).contains(id))
    };
    let helmops = gone.into_iter().flat_map(|id| {
        let needing = bundles
            .state()
            .into_iter()
            .filter(move |bundle| needs(bundle, &id));
        needing.map(|bundle| Work::HelmOp(named(&NamespacedName::of(bundle.meta()))))
    });
    helmops.collect()
}

/// The names of the objects of each content.
#[derive(Debug, Default)]
struct ById(Index<ContentId>);

impl Fold<Arc<StoredContent>> for ById {
    fn apply(&mut self, change: &Change<Arc<StoredContent>>) {
        let id = |object: &Option<Arc<StoredContent>>| object.as_ref()?.id();
        self.0.change(&change.name, id(&change.before), id(&change.after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ContentId {
        format!("s-{}", "0".repeat(61)).parse().unwrap()
    }

    #[tokio::test]
    async fn the_collection_starts_without_a_change() {
        let works: Vec<_> = with_collection(stream::empty()).collect().await;
        assert!(matches!(*works, [Work::Contents]), "{works:?}");
    }

    #[test]
    fn content_is_there_only_with_all_its_parts() {
        let contents = Contents::listed();
        let part = |digit: &str| StoredContent {
            name: id().part(&digit.repeat(64)),
            bytes: 100,
            ..StoredContent::default()
        };
        let head = StoredContent {
            name: id().to_string(),
            parts: ["1", "2"].map(|digit| part(digit).name).into(),
            bytes: 10,
            ..StoredContent::default()
        };
        contents.wrote(head);
        contents.wrote(part("1"));
        // Of another version of the compression.
        contents.wrote(part("3"));
        assert!(!contents.has(&id()));
        contents.wrote(part("2"));
        assert!(contents.has(&id()));
        assert_eq!((contents.size(), contents.of(&id()).len()), ((4, 310), 4));
        contents.deleted(id().as_str());
        assert!(!contents.has(&id()));
        assert_eq!(contents.all().len(), 3);
    }
}

//! A cache of objects that watches fill.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt, stream};
use helmops_api::NamespacedName;
use helmops_process::lock;
use kube::{
    Resource,
    runtime::{
        reflector::{Lookup, ObjectRef},
        watcher::Event,
    },
};
use tokio::sync::watch;

use super::{
    changes::{Change, WatchedObjects},
    keys::key_of,
};

/// What is computed from the objects of a cache. It is updated with each change, before anyone can read the change.
pub trait Fold<V> {
    /// Applies a change.
    fn apply(&mut self, change: &Change<V>);
}

/// A fold that computes nothing.
impl<V> Fold<V> for () {
    fn apply(&mut self, _: &Change<V>) {}
}

/// The objects of a kind as last observed, and what is computed from them. Clones share it.
///
/// It is empty until the first list of every watch is complete. From then on it keeps the last state while a watch fails.
pub struct Cache<V, F = ()> {
    state: Arc<Mutex<State<V, F>>>,
    presence: watch::Sender<Presence>,
}

/// A cache of complete objects.
pub type ObjectCache<K, F = ()> = Cache<Arc<K>, F>;

struct State<V, F> {
    objects: WatchedObjects<V>,
    fold: F,
}

/// Whether the objects of a kind are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The first list is not complete.
    Unknown,
    /// They cannot be watched: their CRD is not installed, or they are out of scope.
    Absent,
    /// The objects are known.
    Synced,
}

impl<V: Clone, F: Fold<V> + Default> Cache<V, F> {
    /// A cache that no watch fills yet.
    pub fn new() -> Self {
        Self::of(WatchedObjects::new([None]))
    }

    /// A cache that ignores events that are behind what is known: those for which `is_older(value, known)`.
    pub fn ignoring_older(is_older: fn(&V, &V) -> bool) -> Self {
        Self::of(WatchedObjects::new([None]).ignoring_older(is_older))
    }

    fn of(objects: WatchedObjects<V>) -> Self {
        let fold = F::default();
        Self {
            state: Arc::new(Mutex::new(State { objects, fold })),
            presence: watch::Sender::new(Presence::Unknown),
        }
    }
}

impl<V: Clone, F: Fold<V>> Cache<V, F> {
    /// Follows watches, each given with its namespace, or one watch of all namespaces. The stream has the changes of each
    /// event, after the cache has them. `value` is what the cache keeps of an object; `None` to ignore it.
    pub fn follow<K, S, P>(
        &self,
        watches: Vec<(Option<String>, S)>,
        value: P,
    ) -> impl Stream<Item = Vec<Change<V>>> + Send + use<K, S, P, V, F>
    where
        K: Resource + Send + 'static,
        S: Stream<Item = Event<K>> + Send + 'static,
        P: Fn(K) -> Option<V> + Send + 'static,
        V: Send + 'static,
        F: Send + 'static,
    {
        let namespaces = watches.iter().map(|(namespace, _)| namespace.clone());
        lock(&self.state).objects.set_watches(namespaces);
        let events = watches
            .into_iter()
            .enumerate()
            .map(|(index, (_, events))| events.map(move |event| (index, event)).boxed());
        let cache = self.clone();
        stream::select_all(events).map(move |(watch, event)| cache.apply(watch, named(event, &value)))
    }

    /// Applies an event of a watch, given by its index, and returns the changes.
    pub fn apply(&self, watch: usize, event: Event<(NamespacedName, Option<V>)>) -> Vec<Change<V>> {
        let is_end_of_list = matches!(event, Event::InitDone);
        let mut state = lock(&self.state);
        let changes = state.objects.apply(watch, event);
        for change in &changes {
            state.fold.apply(change);
        }
        let is_synced = is_end_of_list && state.objects.is_synced();
        drop(state);
        if is_synced {
            self.presence.send_replace(Presence::Synced);
        }
        changes
    }

    /// Records an object that this process has just written, so that the next reconciliation does not miss it.
    pub fn wrote(&self, name: NamespacedName, value: V) {
        let mut state = lock(&self.state);
        if let Some(change) = state.objects.insert(name, value) {
            state.fold.apply(&change);
        }
    }

    /// Records that this process has just deleted an object.
    pub fn deleted(&self, name: NamespacedName) {
        let mut state = lock(&self.state);
        if let Some(change) = state.objects.remove(name) {
            state.fold.apply(&change);
        }
    }

    /// Records that the objects cannot be watched. Returns whether that is new.
    pub fn mark_absent(&self) -> bool {
        self.presence.send_replace(Presence::Absent) != Presence::Absent
    }
}

impl<V: Clone, F> Cache<V, F> {
    /// The value that is kept of an object.
    pub fn value(&self, name: &NamespacedName) -> Option<V> {
        lock(&self.state).objects.get(name).cloned()
    }

    /// The values that are kept of all objects.
    pub fn state(&self) -> Vec<V> {
        self.read(|objects, _| objects.iter().map(|(_, value)| value.clone()).collect())
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        lock(&self.state).objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the objects and what is computed from them, in one consistent state. `read` must be short: it holds the lock.
    pub fn read<T>(&self, read: impl FnOnce(&WatchedObjects<V>, &F) -> T) -> T {
        let state = lock(&self.state);
        read(&state.objects, &state.fold)
    }

    /// Whether the objects are known.
    pub fn presence(&self) -> Presence {
        *self.presence.borrow()
    }

    /// Waits until the first list is complete, or the objects are known to be absent.
    pub async fn wait_until_synced(&self) {
        let mut presence = self.presence.subscribe();
        // It fails only if every sender is dropped, and `self` has one.
        let _ = presence.wait_for(|presence| *presence != Presence::Unknown).await;
    }
}

impl<K, F> Cache<Arc<K>, F>
where
    K: Lookup,
{
    /// An object.
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        self.value(&NamespacedName::new(namespace, &*key.name))
    }
}

impl<K, F> Cache<Arc<K>, F>
where
    K: Lookup<DynamicType = ()>,
{
    /// The keys of the objects that match a predicate.
    pub fn matching(&self, predicate: impl Fn(&K) -> bool) -> Vec<ObjectRef<K>> {
        let objects = self.state();
        let matches = objects.iter().filter(|object| predicate(object));
        matches.map(|object| key_of(&**object)).collect()
    }
}

/// A synced cache.
impl<K: Resource, F: Fold<Arc<K>> + Default> FromIterator<K> for Cache<Arc<K>, F> {
    fn from_iter<I: IntoIterator<Item = K>>(objects: I) -> Self {
        let cache = Self::new();
        for object in objects {
            let event = named(Event::InitApply(object), &|object| Some(Arc::new(object)));
            cache.apply(0, event);
        }
        cache.apply(0, Event::InitDone);
        cache
    }
}

impl<V: Clone, F: Fold<V> + Default> Default for Cache<V, F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V, F> Clone for Cache<V, F> {
    fn clone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            presence: self.presence.clone(),
        }
    }
}

impl<V, F> fmt::Debug for Cache<V, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("presence", &*self.presence.borrow())
            .finish_non_exhaustive()
    }
}

/// An event with the name of its object, and the value that is kept of it.
fn named<K: Resource, V>(
    event: Event<K>,
    value: &impl Fn(K) -> Option<V>,
) -> Event<(NamespacedName, Option<V>)> {
    let item = |object: K| (NamespacedName::of(object.meta()), value(object));
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(item(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(item(object)),
        Event::Delete(object) => Event::Delete((NamespacedName::of(object.meta()), None)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::{FutureExt, channel::mpsc, stream::BoxStream};
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// The number of objects of each version.
    #[derive(Debug, Default)]
    struct Versions(BTreeMap<u32, usize>);

    impl Fold<u32> for Versions {
        fn apply(&mut self, change: &Change<u32>) {
            if let Some(before) = change.before {
                *self.0.entry(before).or_default() -= 1;
            }
            if let Some(after) = change.after {
                *self.0.entry(after).or_default() += 1;
            }
            self.0.retain(|_, number| *number > 0);
        }
    }

    /// A cache of the versions of objects, and the watches that fill it.
    struct Followed {
        cache: Cache<u32, Versions>,
        watches: Vec<mpsc::UnboundedSender<Event<ConfigMap>>>,
        changes: BoxStream<'static, Vec<Change<u32>>>,
    }

    impl Followed {
        fn new(namespaces: &[&str]) -> Self {
            let cache = Cache::new();
            let watch = |namespace: &&str| {
                let (sender, receiver) = mpsc::unbounded();
                (sender, (Some((*namespace).to_owned()), receiver))
            };
            let (watches, streams) = namespaces.iter().map(watch).unzip();
            let version = |object: ConfigMap| object.metadata.resource_version?.parse().ok();
            let changes = cache.follow(streams, version).boxed();
            Self {
                cache,
                watches,
                changes,
            }
        }

        /// The number of changes that the event causes.
        fn observe(&mut self, watch: usize, event: Event<ConfigMap>) -> usize {
            self.watches[watch].unbounded_send(event).unwrap();
            let changes = std::iter::from_fn(|| self.changes.next().now_or_never().flatten());
            changes.map(|changes| changes.len()).sum()
        }

        fn versions(&self) -> Vec<(u32, usize)> {
            self.cache
                .read(|_, versions| versions.0.clone().into_iter().collect())
        }
    }

    fn object(namespace: &str, name: &str, version: u32) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some(namespace.to_owned());
        object.metadata.name = Some(name.to_owned());
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    #[test]
    fn a_fold_follows_the_watch_and_own_writes() {
        let mut followed = Followed::new(&["a"]);
        assert_eq!(followed.observe(0, Event::InitApply(object("a", "x", 1))), 0);
        assert_eq!(followed.versions(), []);
        assert_eq!(followed.observe(0, Event::InitDone), 1);
        assert_eq!(followed.versions(), [(1, 1)]);
        let name = |name| NamespacedName::new("a", name);
        followed.cache.wrote(name("y"), 1);
        assert_eq!(followed.versions(), [(1, 2)]);
        assert_eq!(followed.observe(0, Event::Apply(object("a", "y", 2))), 1);
        assert_eq!(followed.versions(), [(1, 1), (2, 1)]);
        followed.cache.deleted(name("x"));
        assert_eq!(followed.observe(0, Event::Delete(object("a", "x", 3))), 0);
        assert_eq!(followed.versions(), [(2, 1)]);
        assert_eq!(followed.observe(0, Event::Init), 0);
        assert_eq!(followed.observe(0, Event::InitDone), 1);
        assert_eq!(followed.versions(), []);
    }

    #[test]
    fn the_cache_is_synced_when_every_watch_is_listed() {
        let mut followed = Followed::new(&["a", "b"]);
        followed.observe(0, Event::InitApply(object("a", "x", 1)));
        assert_eq!(followed.observe(0, Event::InitDone), 0);
        assert_eq!(followed.cache.presence(), Presence::Unknown);
        assert!(followed.cache.is_empty() && followed.versions().is_empty());
        assert_eq!(followed.observe(1, Event::InitDone), 1);
        assert_eq!(followed.cache.presence(), Presence::Synced);
        assert_eq!(followed.cache.state(), [1]);
    }

    #[tokio::test]
    async fn waiting_ends_when_the_objects_are_known_or_absent() {
        let mut followed = Followed::new(&["a"]);
        assert!(followed.cache.wait_until_synced().now_or_never().is_none());
        assert!(followed.cache.mark_absent());
        assert!(!followed.cache.mark_absent(), "it is known already");
        followed.cache.wait_until_synced().await;
        followed.observe(0, Event::InitDone);
        assert_eq!(
            followed.cache.presence(),
            Presence::Synced,
            "they can be watched now"
        );
    }
}

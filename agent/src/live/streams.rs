//! One watch per kind that a release uses.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use futures::{StreamExt, stream::BoxStream};
use helmops_kube::{
    Cache, Change, Fold, Index, Presence, StreamSet, watch_results, without_absent, without_errors,
};
use helmops_process::lock;
use helmops_release::{health::ErrorTable, marks, object};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client,
    core::{DynamicObject, TypeMeta},
    runtime::watcher,
};
use thiserror::Error;
use tokio::sync::{Notify, mpsc};

use super::{
    kinds::ResourceKind,
    object_text::{ObjectText, PAGE},
    observed::{Observed, RulesOf},
};

/// An API version and a kind.
pub type KindName = (String, String);

/// The live objects of all releases. Clones share them.
#[derive(Clone)]
pub struct LiveObjects {
    client: Client,
    /// The namespaces that are watched; empty for all.
    namespaces: Arc<[String]>,
    rules: RulesOf,
    /// Which conditions are errors.
    errors: Arc<ErrorTable>,
    kinds: Arc<Mutex<UsedKinds>>,
    kinds_changed: Arc<Notify>,
}

/// The kinds that releases use.
#[derive(Default)]
struct UsedKinds {
    watched: BTreeMap<KindName, Watched>,
    by_release: HashMap<String, BTreeSet<KindName>>,
}

#[derive(Clone)]
struct Watched {
    kind: ResourceKind,
    cache: Cache<Arc<Observed>, BySet>,
    /// Which watch of the kind it is: it is started again when the rules of a release change.
    number: u64,
}

impl Watched {
    fn start_again(&mut self) {
        self.cache = Cache::new();
        self.number += 1;
    }
}

/// The names of the objects of each release, by the value of its label.
#[derive(Debug, Default)]
struct BySet(Index<String>);

/// The objects of a kind are not known yet.
#[derive(Debug, Error)]
#[error("the list of {kind} ({api_version}) on the cluster is not complete")]
pub struct NotSynced {
    api_version: String,
    kind: String,
}

type Changes = Vec<Change<Arc<Observed>>>;

impl LiveObjects {
    /// No objects yet. `namespaces` are those that are watched; empty for all.
    pub fn new(client: Client, namespaces: Vec<String>, rules: RulesOf, errors: ErrorTable) -> Self {
        Self {
            client,
            namespaces: namespaces.into(),
            rules,
            errors: Arc::new(errors),
            kinds: Arc::default(),
            kinds_changed: Arc::default(),
        }
    }

    /// Sets the kinds that a release uses. A kind that no release uses is not watched any more.
    pub fn set_kinds(&self, release: &str, kinds: impl IntoIterator<Item = ResourceKind>) {
        let mut used = lock(&self.kinds);
        let kinds: BTreeMap<KindName, ResourceKind> = kinds
            .into_iter()
            .map(|kind| {
                (
                    (kind.resource.api_version.clone(), kind.resource.kind.clone()),
                    kind,
                )
            })
            .collect();
        let names = kinds.keys().cloned().collect();
        if used.by_release.get(release) == Some(&names) {
            return;
        }
        for (name, kind) in kinds {
            used.watched.entry(name).or_insert_with(|| Watched {
                kind,
                cache: Cache::new(),
                number: 0,
            });
        }
        if names.is_empty() {
            used.by_release.remove(release);
        } else {
            used.by_release.insert(release.to_owned(), names);
        }
        let UsedKinds { watched, by_release } = &mut *used;
        let needed: BTreeSet<&KindName> = by_release.values().flatten().collect();
        watched.retain(|name, _| needed.contains(name));
        drop(used);
        self.kinds_changed.notify_one();
    }

    /// Lists the kinds of a release again: what is kept of their objects depends on its rules, which have changed.
    pub fn refresh(&self, release: &str) {
        let mut used = lock(&self.kinds);
        let UsedKinds { watched, by_release } = &mut *used;
        for name in by_release.get(release).into_iter().flatten() {
            if let Some(watched) = watched.get_mut(name) {
                watched.start_again();
            }
        }
        drop(used);
        self.kinds_changed.notify_one();
    }

    /// A CRD of a group was changed: kinds that the API server did not have are listed again. Returns the releases with objects of the group.
    pub fn group_changed(&self, group: &str) -> Vec<String> {
        let mut used = lock(&self.kinds);
        let is_of_group = |(api_version, _): &KindName| object::group(api_version) == group;
        for (name, watched) in &mut used.watched {
            if is_of_group(name) && watched.cache.presence() == Presence::Absent {
                watched.start_again();
            }
        }
        let releases = used.by_release.iter();
        let releases = releases.filter(|(_, kinds)| kinds.iter().any(is_of_group));
        let releases = releases.map(|(release, _)| release.clone()).collect();
        drop(used);
        self.kinds_changed.notify_one();
        releases
    }

    /// The objects of a release, given by the value of its label, of the kinds that were set for it. A kind that the API server
    /// does not have has none.
    ///
    /// # Errors
    /// If a first list is not complete.
    pub fn of_release(&self, release: &str, set: &str) -> Result<Vec<Arc<Observed>>, NotSynced> {
        let watched = self.watched_by(release);
        let mut objects = Vec::new();
        for ((api_version, kind), watched) in watched {
            match watched.cache.presence() {
                Presence::Unknown => return Err(NotSynced { api_version, kind }),
                // What it had is gone with its CRD.
                Presence::Absent => continue,
                Presence::Synced => {}
            }
            watched.cache.read(|all, by_set| {
                objects.extend(by_set.0.get(set).filter_map(|name| all.get(name)).cloned());
            });
        }
        Ok(objects)
    }

    /// An object that no watch has, as one of the release with this value of the label.
    pub fn observed(&self, set: &str, object: DynamicObject) -> Option<Arc<Observed>> {
        let observed = Observed::in_set(set, object, &self.rules, &self.errors, Timestamp::now());
        observed.map(Arc::new)
    }

    /// Waits until the first lists of the kinds of a release are complete.
    pub async fn wait_until_synced(&self, release: &str) {
        for (_, watched) in self.watched_by(release) {
            watched.cache.wait_until_synced().await;
        }
    }

    fn watched_by(&self, release: &str) -> Vec<(KindName, Watched)> {
        let used = lock(&self.kinds);
        let names = used.by_release.get(release).into_iter().flatten();
        names
            .filter_map(|name| Some((name.clone(), used.watched.get(name)?.clone())))
            .collect()
    }

    /// Follows the watches. Sends the value of the label of each release that a change affects.
    pub async fn run(&self, affected: mpsc::Sender<String>) {
        let mut watches = StreamSet::new();
        loop {
            self.start_and_stop(&mut watches);
            tokio::select! {
                () = self.kinds_changed.notified() => {}
                Some(changes) = watches.next() => {
                    for set in sets(&changes) {
                        if affected.send(set).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn start_and_stop(&self, watches: &mut StreamSet<KindName, Changes>) {
        let used = lock(&self.kinds);
        watches.retain(|name, number| {
            used.watched
                .get(name)
                .is_some_and(|watched| watched.number == number)
        });
        for (name, watched) in &used.watched {
            watches.start(name.clone(), watched.number, || self.follow(watched));
        }
    }

    fn follow(&self, watched: &Watched) -> BoxStream<'static, Changes> {
        let (client, resource) = (&self.client, &watched.kind.resource);
        let apis: Vec<(Option<String>, Api<ObjectText>)> =
            if self.namespaces.is_empty() || !watched.kind.is_namespaced {
                vec![(None, Api::all_with(client.clone(), resource))]
            } else {
                let namespaced = |namespace: &String| {
                    let api = Api::namespaced_with(client.clone(), namespace, resource);
                    (Some(namespace.clone()), api)
                };
                self.namespaces.iter().map(namespaced).collect()
            };
        let streams = apis
            .into_iter()
            .map(|(namespace, api)| (namespace, events(api, &watched.cache, &resource.kind)));
        let (rules, errors) = (Arc::clone(&self.rules), Arc::clone(&self.errors));
        let types = TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        };
        let observed = move |text: ObjectText| {
            let mut object = text.decoded()?;
            // The objects of a list have none.
            object.types.get_or_insert_with(|| types.clone());
            Observed::of(object, &rules, &errors, Timestamp::now()).map(Arc::new)
        };
        watched.cache.follow(streams.collect(), observed).boxed()
    }
}

/// The events of a watch of a kind, which the cluster may not have.
fn events(
    api: Api<ObjectText>,
    cache: &Cache<Arc<Observed>, BySet>,
    kind: &str,
) -> BoxStream<'static, watcher::Event<ObjectText>> {
    let config = watcher::Config::default().labels(marks::SET_HASH).page_size(PAGE);
    let results = watch_results(api, config);
    let results = without_absent(kind, "its objects are missing until it has", cache, results);
    without_errors(kind, results).boxed()
}

/// The releases that changes affect.
fn sets(changes: &Changes) -> BTreeSet<String> {
    let values = changes.iter().flat_map(|change| [&change.before, &change.after]);
    values.flatten().map(|object| object.set.clone()).collect()
}

impl Fold<Arc<Observed>> for BySet {
    fn apply(&mut self, change: &Change<Arc<Observed>>) {
        let set = |object: &Option<Arc<Observed>>| Some(object.as_ref()?.set.clone());
        self.0
            .change(&change.name, set(&change.before), set(&change.after));
    }
}

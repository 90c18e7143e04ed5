//! Merges the watches of several namespaces into one.
//!
//! A store assumes that a list contains all objects. If each namespace is listed separately, a list contains those of one
//! namespace only. So each list is held back until it is complete, and then forwarded as the changes that it implies.

use std::collections::{HashMap, HashSet};

use futures::{Stream, StreamExt, stream};
use helmops_api::{Decoded, Metadata, NamespacedName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt, runtime::watcher};

/// Merges watches, given with their namespaces, into one.
pub fn merged<K, S>(
    watches: Vec<(String, S)>,
) -> impl Stream<Item = watcher::Result<watcher::Event<Decoded<K>>>>
where
    K: Resource<DynamicType = ()> + Clone + Send + 'static,
    S: Stream<Item = watcher::Result<watcher::Event<Decoded<K>>>> + Send + 'static,
{
    let mut merge = Merge::new(watches.iter().map(|(namespace, _)| namespace.clone()));
    let events = watches
        .into_iter()
        .map(|(namespace, watch)| watch.map(move |event| (namespace.clone(), event)).boxed());
    let init = stream::iter([Ok(watcher::Event::Init)]);
    init.chain(stream::select_all(events).flat_map(move |event| {
        let (namespace, event) = event;
        stream::iter(match event {
            Ok(event) => merge.observe(&namespace, event).into_iter().map(Ok).collect(),
            Err(error) => {
                merge.failed(&namespace);
                vec![Err(error)]
            }
        })
    }))
}

struct Merge<K> {
    namespaces: HashMap<String, Namespace<K>>,
    /// Namespaces whose first list is not complete. Until there are none, all events are part of the first merged list.
    unlisted: HashSet<String>,
    /// Objects that were deleted before the first merged list was complete: a list contains only existing objects.
    early_deletes: Vec<NamespacedName>,
}

struct Namespace<K> {
    /// The names of existing objects.
    present: HashSet<String>,
    /// The objects of an incomplete list.
    listed: Vec<Decoded<K>>,
}

impl<K> Default for Namespace<K> {
    fn default() -> Self {
        Self {
            present: HashSet::new(),
            listed: Vec::new(),
        }
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Merge<K> {
    fn new(namespaces: impl Iterator<Item = String>) -> Self {
        let unlisted: HashSet<_> = namespaces.collect();
        Self {
            namespaces: unlisted
                .iter()
                .map(|name| (name.clone(), Namespace::default()))
                .collect(),
            unlisted,
            early_deletes: Vec::new(),
        }
    }

    fn observe(&mut self, name: &str, event: watcher::Event<Decoded<K>>) -> Vec<watcher::Event<Decoded<K>>> {
        let Some(namespace) = self.namespaces.get_mut(name) else {
            return Vec::new();
        };
        match event {
            watcher::Event::Apply(object) => {
                namespace.present.insert(object.name_any());
                vec![self.applied(object)]
            }
            watcher::Event::Delete(object) => {
                let object = object.name_any();
                namespace.present.remove(&object);
                self.deleted(name, vec![object])
            }
            watcher::Event::Init => {
                namespace.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                namespace.listed.push(object);
                Vec::new()
            }
            watcher::Event::InitDone => {
                let listed = std::mem::take(&mut namespace.listed);
                let names = listed.iter().map(ResourceExt::name_any).collect();
                let before = std::mem::replace(&mut namespace.present, names);
                let deleted = before.difference(&namespace.present).cloned().collect();
                let mut events: Vec<_> = listed.into_iter().map(|object| self.applied(object)).collect();
                events.extend(self.deleted(name, deleted));
                events.extend(self.complete(name));
                events
            }
        }
    }

    /// Discards an incomplete list: the watch starts over.
    fn failed(&mut self, name: &str) {
        if let Some(namespace) = self.namespaces.get_mut(name) {
            namespace.listed.clear();
        }
    }

    fn applied(&self, object: Decoded<K>) -> watcher::Event<Decoded<K>> {
        if self.unlisted.is_empty() {
            watcher::Event::Apply(object)
        } else {
            watcher::Event::InitApply(object)
        }
    }

    fn deleted(&mut self, namespace: &str, names: Vec<String>) -> Vec<watcher::Event<Decoded<K>>> {
        let deleted = names.into_iter().map(|name| NamespacedName::new(namespace, name));
        if self.unlisted.is_empty() {
            deleted.map(delete_event).collect()
        } else {
            self.early_deletes.extend(deleted);
            Vec::new()
        }
    }

    /// Records that the first list of a namespace is complete. After the last namespace, the merged list ends.
    fn complete(&mut self, namespace: &str) -> Vec<watcher::Event<Decoded<K>>> {
        if !self.unlisted.remove(namespace) || !self.unlisted.is_empty() {
            return Vec::new();
        }
        let deleted = std::mem::take(&mut self.early_deletes);
        let is_recreated = |object: &NamespacedName| {
            let namespace = self.namespaces.get(&object.namespace);
            namespace.is_some_and(|namespace| namespace.present.contains(&object.name))
        };
        let deleted = deleted
            .into_iter()
            .filter(|object| !is_recreated(object))
            .map(delete_event);
        std::iter::once(watcher::Event::InitDone).chain(deleted).collect()
    }
}

fn delete_event<K>(object: NamespacedName) -> watcher::Event<Decoded<K>> {
    watcher::Event::Delete(deleted_object(object))
}

/// A stand-in for a deleted object: only its namespace and name are known.
fn deleted_object<K>(object: NamespacedName) -> Decoded<K> {
    let metadata = ObjectMeta {
        namespace: Some(object.namespace),
        name: Some(object.name),
        ..ObjectMeta::default()
    };
    Decoded::Invalid {
        metadata: Box::new(Metadata::from(metadata)),
        error: "it is deleted".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;
    use kube::runtime::reflector;
    use serde_json::json;

    use super::*;

    fn helmop(namespace: &str, name: &str) -> Decoded<HelmOp> {
        let object = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": {} });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    /// Merges events of the namespaces `a` and `b`, and returns the content of a store after them; `None` if it is not ready.
    fn stored(events: Vec<(&str, watcher::Event<Decoded<HelmOp>>)>) -> Option<Vec<String>> {
        let (store, mut writer) = reflector::store();
        let mut merge = Merge::new(["a".to_owned(), "b".to_owned()].into_iter());
        writer.apply_watcher_event(&watcher::Event::Init);
        for (namespace, event) in events {
            for event in merge.observe(namespace, event) {
                writer.apply_watcher_event(&event);
            }
        }
        futures::FutureExt::now_or_never(store.wait_until_ready())?.ok()?;
        let mut names: Vec<_> = store
            .state()
            .iter()
            .map(|object| format!("{}/{}", object.namespace().unwrap(), object.name_any()))
            .collect();
        names.sort();
        Some(names)
    }

    fn list(namespace: &'static str, names: &[&str]) -> Vec<(&'static str, watcher::Event<Decoded<HelmOp>>)> {
        let objects = names
            .iter()
            .map(|name| watcher::Event::InitApply(helmop(namespace, name)));
        std::iter::once(watcher::Event::Init)
            .chain(objects)
            .chain([watcher::Event::InitDone])
            .map(|event| (namespace, event))
            .collect()
    }

    #[test]
    fn the_list_is_complete_when_all_namespaces_are_listed() {
        assert_eq!(stored(list("a", &["web"])), None);
        let both = [list("a", &["web"]), list("b", &["web", "db"])].concat();
        assert_eq!(stored(both).unwrap(), ["a/web", "b/db", "b/web"]);
    }

    #[test]
    fn a_later_list_replaces_only_its_namespace() {
        let events = [list("a", &["web", "db"]), list("b", &["web"]), list("a", &["db"])].concat();
        assert_eq!(stored(events).unwrap(), ["a/db", "b/web"]);
        let early = [list("a", &["web"]), list("a", &["db"]), list("b", &["web"])].concat();
        assert_eq!(
            stored(early).unwrap(),
            ["a/db", "b/web"],
            "also before all namespaces are listed"
        );
    }

    #[test]
    fn changes_are_forwarded() {
        let mut events = [list("a", &["web"]), list("b", &[])].concat();
        events.push(("b", watcher::Event::Apply(helmop("b", "new"))));
        events.push(("a", watcher::Event::Delete(helmop("a", "web"))));
        assert_eq!(stored(events.clone()).unwrap(), ["b/new"]);
        events.extend(list("b", &[]));
        assert_eq!(stored(events).unwrap(), [""; 0]);
    }

    #[test]
    fn changes_before_the_first_list_is_complete_are_applied() {
        let mut events = list("a", &["web", "db"]);
        events.push(("a", watcher::Event::Apply(helmop("a", "new"))));
        events.push(("a", watcher::Event::Delete(helmop("a", "web"))));
        events.push(("a", watcher::Event::Delete(helmop("a", "db"))));
        events.push(("a", watcher::Event::Apply(helmop("a", "db"))));
        events.extend(list("b", &[]));
        assert_eq!(stored(events).unwrap(), ["a/db", "a/new"]);
    }
}

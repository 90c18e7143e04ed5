//! One watch of several namespaces.
//!
//! A store takes what a list shows for all there is. Where each namespace is listed by itself, a list says nothing of the
//! others; so each is held back until it is complete, and passed on as what it changes.

use std::collections::{HashMap, HashSet};

use futures::{Stream, StreamExt, stream};
use helmops_shared::api::{Decoded, Metadata, NamespacedName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt, runtime::watcher};

/// The watches of some namespaces, by namespace, as one.
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
    let begin = stream::iter([Ok(watcher::Event::Init)]);
    begin.chain(stream::select_all(events).flat_map(move |event| {
        let (namespace, event) = event;
        stream::iter(match event {
            Ok(event) => merge.see(&namespace, event).into_iter().map(Ok).collect(),
            Err(error) => {
                merge.failed(&namespace);
                vec![Err(error)]
            }
        })
    }))
}

struct Merge<K> {
    namespaces: HashMap<String, Namespace<K>>,
    /// Namespaces that have not been listed yet: until there are none, everything is a part of the first list.
    unlisted: HashSet<String>,
    /// What has gone before the first list was complete, which only tells of what is there.
    early_gone: Vec<NamespacedName>,
}

struct Namespace<K> {
    /// Names of what is there.
    present: HashSet<String>,
    /// What a list has shown so far that is under way.
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
            early_gone: Vec::new(),
        }
    }

    fn see(&mut self, name: &str, event: watcher::Event<Decoded<K>>) -> Vec<watcher::Event<Decoded<K>>> {
        let Some(namespace) = self.namespaces.get_mut(name) else {
            return Vec::new();
        };
        match event {
            watcher::Event::Apply(object) => {
                namespace.present.insert(object.name_any());
                vec![self.there(object)]
            }
            watcher::Event::Delete(object) => {
                let object = object.name_any();
                namespace.present.remove(&object);
                self.gone(name, vec![object])
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
                let gone = before.difference(&namespace.present).cloned().collect();
                let mut events: Vec<_> = listed.into_iter().map(|object| self.there(object)).collect();
                events.extend(self.gone(name, gone));
                events.extend(self.complete(name));
                events
            }
        }
    }

    /// A list that was under way begins anew.
    fn failed(&mut self, name: &str) {
        if let Some(namespace) = self.namespaces.get_mut(name) {
            namespace.listed.clear();
        }
    }

    fn there(&self, object: Decoded<K>) -> watcher::Event<Decoded<K>> {
        if self.unlisted.is_empty() {
            watcher::Event::Apply(object)
        } else {
            watcher::Event::InitApply(object)
        }
    }

    fn gone(&mut self, namespace: &str, names: Vec<String>) -> Vec<watcher::Event<Decoded<K>>> {
        let gone = names.into_iter().map(|name| NamespacedName::new(namespace, name));
        if self.unlisted.is_empty() {
            gone.map(gone_event).collect()
        } else {
            self.early_gone.extend(gone);
            Vec::new()
        }
    }

    /// Notes that a namespace has been listed, and ends the first list after the last of them.
    fn complete(&mut self, namespace: &str) -> Vec<watcher::Event<Decoded<K>>> {
        if !self.unlisted.remove(namespace) || !self.unlisted.is_empty() {
            return Vec::new();
        }
        let gone = std::mem::take(&mut self.early_gone);
        let is_back = |object: &NamespacedName| {
            let namespace = self.namespaces.get(&object.namespace);
            namespace.is_some_and(|namespace| namespace.present.contains(&object.name))
        };
        let gone = gone.into_iter().filter(|object| !is_back(object)).map(gone_event);
        std::iter::once(watcher::Event::InitDone).chain(gone).collect()
    }
}

fn gone_event<K>(object: NamespacedName) -> watcher::Event<Decoded<K>> {
    watcher::Event::Delete(gone_object(object))
}

/// What can be said of an object that is gone: where it was.
fn gone_object<K>(object: NamespacedName) -> Decoded<K> {
    let metadata = ObjectMeta {
        namespace: Some(object.namespace),
        name: Some(object.name),
        ..ObjectMeta::default()
    };
    Decoded::Invalid {
        metadata: Box::new(Metadata::from(metadata)),
        error: "it is gone".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::HelmOp;
    use kube::runtime::reflector;
    use serde_json::json;

    use super::*;

    fn helmop(namespace: &str, name: &str) -> Decoded<HelmOp> {
        let object = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": {} });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    /// Sees events in namespaces `a` and `b`, and gives what a store holds after them; `None` while it is not ready.
    fn stored(events: Vec<(&str, watcher::Event<Decoded<HelmOp>>)>) -> Option<Vec<String>> {
        let (store, mut writer) = reflector::store();
        let mut merge = Merge::new(["a".to_owned(), "b".to_owned()].into_iter());
        writer.apply_watcher_event(&watcher::Event::Init);
        for (namespace, event) in events {
            for event in merge.see(namespace, event) {
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
    fn it_is_complete_when_every_namespace_is() {
        assert_eq!(stored(list("a", &["web"])), None);
        let both = [list("a", &["web"]), list("b", &["web", "db"])].concat();
        assert_eq!(stored(both).unwrap(), ["a/web", "b/db", "b/web"]);
    }

    #[test]
    fn a_later_list_speaks_for_its_namespace_alone() {
        let events = [list("a", &["web", "db"]), list("b", &["web"]), list("a", &["db"])].concat();
        assert_eq!(stored(events).unwrap(), ["a/db", "b/web"]);
        let early = [list("a", &["web"]), list("a", &["db"]), list("b", &["web"])].concat();
        assert_eq!(
            stored(early).unwrap(),
            ["a/db", "b/web"],
            "also before all are complete"
        );
    }

    #[test]
    fn changes_pass() {
        let mut events = [list("a", &["web"]), list("b", &[])].concat();
        events.push(("b", watcher::Event::Apply(helmop("b", "new"))));
        events.push(("a", watcher::Event::Delete(helmop("a", "web"))));
        assert_eq!(stored(events.clone()).unwrap(), ["b/new"]);
        events.extend(list("b", &[]));
        assert_eq!(stored(events).unwrap(), [""; 0]);
    }

    #[test]
    fn changes_before_all_are_complete_count_too() {
        let mut events = list("a", &["web", "db"]);
        events.push(("a", watcher::Event::Apply(helmop("a", "new"))));
        events.push(("a", watcher::Event::Delete(helmop("a", "web"))));
        events.push(("a", watcher::Event::Delete(helmop("a", "db"))));
        events.push(("a", watcher::Event::Apply(helmop("a", "db"))));
        events.extend(list("b", &[]));
        assert_eq!(stored(events).unwrap(), ["a/db", "a/new"]);
    }
}

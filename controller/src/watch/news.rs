//! Which changes of a HelmOp are news.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use helmops_shared::api::{Guarded, HelmOp, labels};
use kube::{
    Resource,
    runtime::{reflector::ObjectRef, watcher},
};

use super::Key;

/// What was last acted on of each HelmOp.
#[derive(Debug, Default)]
pub struct News {
    known: HashMap<Key, u64>,
    /// What a list has shown so far that is under way.
    listed: HashSet<Key>,
}

impl News {
    /// The HelmOps that an event tells something new of, those that are gone included. What the controller itself writes
    /// is no news.
    pub fn of(&mut self, event: &watcher::Event<Guarded<HelmOp>>) -> Vec<Key> {
        match event {
            watcher::Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(helmop) => {
                self.listed.insert(ObjectRef::from_obj(helmop));
                self.seen(helmop)
            }
            watcher::Event::Apply(helmop) => self.seen(helmop),
            watcher::Event::Delete(helmop) => {
                let key = ObjectRef::from_obj(helmop);
                self.known.remove(&key);
                vec![key]
            }
            watcher::Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone = self.known.extract_if(|key, _| !listed.contains(key));
                gone.map(|(key, _)| key).collect()
            }
        }
    }

    fn seen(&mut self, helmop: &Guarded<HelmOp>) -> Vec<Key> {
        let (key, state) = (ObjectRef::from_obj(helmop), state(helmop));
        if self.known.insert(key.clone(), state) == Some(state) {
            Vec::new()
        } else {
            vec![key]
        }
    }
}

/// A number that changes with everything about a HelmOp that the controller acts on: what is asked for, who works on it,
/// what keeps it from going, and whether its status was wiped.
fn state(helmop: &Guarded<HelmOp>) -> u64 {
    let metadata = helmop.meta();
    let mut hasher = DefaultHasher::new();
    metadata.uid.hash(&mut hasher);
    metadata.generation.hash(&mut hasher);
    metadata.deletion_timestamp.is_some().hash(&mut hasher);
    metadata.finalizers.hash(&mut hasher);
    let annotations = metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(labels::POLL))
        .hash(&mut hasher);
    let label = metadata.labels.as_ref();
    label
        .and_then(|labels| labels.get(labels::SHARD))
        .hash(&mut hasher);
    has_status(helmop).hash(&mut hasher);
    hasher.finish()
}

fn has_status(helmop: &Guarded<HelmOp>) -> bool {
    match helmop {
        Guarded::Good(helmop) => helmop
            .status
            .as_ref()
            .is_some_and(|status| !status.base.conditions.is_empty()),
        Guarded::Odd { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use watcher::Event;

    use super::*;

    fn helmop(object: &Value) -> Guarded<HelmOp> {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn named(name: &str) -> Guarded<HelmOp> {
        helmop(&json!({ "metadata": { "name": name, "namespace": "a" }, "spec": {} }))
    }

    #[test]
    fn what_the_controller_writes_is_no_news() {
        let object = json!({
            "metadata": { "name": "web", "generation": 1, "resourceVersion": "1" },
            "spec": {},
            "status": { "conditions": [{ "type": "Accepted", "status": "True" }] }
        });
        let changed = |pointer: &str, value: Value| {
            let mut changed = object.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[key] = value;
            let mut news = News::default();
            assert_eq!(news.of(&Event::Apply(helmop(&object))).len(), 1, "new");
            !news.of(&Event::Apply(helmop(&changed))).is_empty()
        };
        assert!(!changed("/metadata/resourceVersion", json!("2")));
        assert!(!changed("/metadata/annotations", json!({ "other": "1" })));
        assert!(!changed("/status/version", json!("1.2.3")));
        assert!(changed("/metadata/uid", json!("u-2")));
        assert!(changed("/metadata/generation", json!(2)));
        assert!(changed("/metadata/finalizers", json!(["f"])));
        assert!(changed(
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z")
        ));
        assert!(changed("/metadata/annotations", json!({ labels::POLL: "1" })));
        assert!(changed("/metadata/labels", json!({ labels::SHARD: "b" })));
        assert!(changed("/status", json!({})), "wiped by hand");
    }

    #[test]
    fn what_is_gone_is_news_once() {
        let mut news = News::default();
        let (web, db) = (super::super::key("a", "web"), super::super::key("a", "db"));
        assert_eq!(news.of(&Event::Apply(named("web"))).len(), 1);
        assert_eq!(news.of(&Event::Apply(named("db"))).len(), 1);
        assert_eq!(news.of(&Event::Delete(named("db"))), [db]);
        news.of(&Event::Init);
        assert_eq!(news.of(&Event::InitDone), [web], "a list no longer shows it");
        assert!(news.known.is_empty());
    }

    #[test]
    fn a_list_of_what_is_known_is_no_news() {
        let mut news = News::default();
        news.of(&Event::Apply(named("web")));
        news.of(&Event::Init);
        assert_eq!(news.of(&Event::InitApply(named("web"))), []);
        assert_eq!(news.of(&Event::InitDone), []);
    }
}

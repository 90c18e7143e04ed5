//! Which changes of an object are news.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use helmops_shared::{
    api::{Bundle, BundleNamespaceMapping, Cluster, ClusterGroup, Decoded, HelmOp, MetadataOnly, labels},
    status::is_refused,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Resource,
    runtime::{
        reflector::{Lookup, ObjectRef},
        watcher,
    },
};

use crate::work::key_of;

/// An object of which some changes are news.
pub trait Fingerprint {
    /// Feeds everything about it that is acted on: whether it can be read, what is asked for, who works on it, what keeps
    /// it from going, and whether its status was wiped.
    fn tell(&self, hasher: &mut DefaultHasher);
}

/// What was last acted on of each object of a kind.
pub struct ChangeFilter<K: Lookup>
where
    K::DynamicType: Hash + Eq,
{
    known: HashMap<ObjectRef<K>, u64>,
    /// What a list has shown so far that is under way. It is told of when it is complete: before that no store has it.
    listed: HashMap<ObjectRef<K>, u64>,
}

impl<K: Lookup> Default for ChangeFilter<K>
where
    K::DynamicType: Hash + Eq,
{
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            listed: HashMap::new(),
        }
    }
}

impl<K> ChangeFilter<K>
where
    K: Lookup<DynamicType = ()> + Fingerprint,
{
    /// The objects that an event tells something new of, those that are gone included. What the controller itself writes
    /// is no news.
    pub fn of(&mut self, event: &watcher::Event<K>) -> Vec<ObjectRef<K>> {
        match event {
            watcher::Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.listed.insert(key_of(object), state(object));
                Vec::new()
            }
            watcher::Event::Apply(object) => self.seen(object),
            watcher::Event::Delete(object) => {
                let key = key_of(object);
                self.known.remove(&key);
                vec![key]
            }
            watcher::Event::InitDone => {
                let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.listed));
                let gone = before.keys().filter(|key| !self.known.contains_key(*key));
                let new = self
                    .known
                    .iter()
                    .filter(|(key, state)| before.get(*key) != Some(*state));
                gone.chain(new.map(|(key, _)| key)).cloned().collect()
            }
        }
    }

    fn seen(&mut self, object: &K) -> Vec<ObjectRef<K>> {
        let (key, state) = (key_of(object), state(object));
        if self.known.insert(key.clone(), state) == Some(state) {
            Vec::new()
        } else {
            vec![key]
        }
    }
}

/// A number that changes with everything that it tells.
fn state(object: &impl Fingerprint) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.tell(&mut hasher);
    hasher.finish()
}

/// What is asked for and what keeps it from going, of any object.
fn tell_metadata(metadata: &ObjectMeta, hasher: &mut DefaultHasher) {
    metadata.uid.hash(hasher);
    metadata.generation.hash(hasher);
    metadata.deletion_timestamp.is_some().hash(hasher);
    metadata.finalizers.hash(hasher);
}

impl Fingerprint for Decoded<HelmOp> {
    fn tell(&self, hasher: &mut DefaultHasher) {
        let metadata = self.meta();
        tell_metadata(metadata, hasher);
        let annotations = metadata.annotations.as_ref();
        annotations
            .and_then(|annotations| annotations.get(labels::POLL_REQUESTED_AT))
            .hash(hasher);
        let label = metadata.labels.as_ref();
        label.and_then(|labels| labels.get(labels::SHARD)).hash(hasher);
        let tells = |helmop: &HelmOp| {
            helmop
                .status
                .as_ref()
                .is_some_and(|status| !status.base.conditions.is_empty())
        };
        self.good().map(tells).hash(hasher);
    }
}

impl Fingerprint for Decoded<Bundle> {
    fn tell(&self, hasher: &mut DefaultHasher) {
        let metadata = self.meta();
        tell_metadata(metadata, hasher);
        // They are passed on to its deployments, and mappings select by them.
        metadata.labels.hash(hasher);
        let tells = |bundle: &Bundle| {
            bundle
                .status
                .as_ref()
                .is_some_and(|status| !status.conditions.is_empty())
        };
        self.good().map(tells).hash(hasher);
    }
}

/// Everything that targets select by, values are made of or roll-outs ask for. What agents tell every few minutes is
/// none of it.
impl Fingerprint for Decoded<Cluster> {
    fn tell(&self, hasher: &mut DefaultHasher) {
        let metadata = self.meta();
        tell_metadata(metadata, hasher);
        (&metadata.labels, &metadata.annotations).hash(hasher);
        if let Some(cluster) = self.good() {
            let status = &cluster.status;
            (&status.namespace, status.scheduled, status.active_schedule).hash(hasher);
            // Whether its agent has ever come.
            let agent = status.agent.as_ref();
            agent
                .is_some_and(|agent| !agent.last_seen.is_empty())
                .hash(hasher);
            status.conditions.is_empty().hash(hasher);
            // Nothing is delivered to it, or no longer.
            is_refused(status).hash(hasher);
        }
    }
}

impl Fingerprint for Decoded<ClusterGroup> {
    fn tell(&self, hasher: &mut DefaultHasher) {
        tell_metadata(self.meta(), hasher);
        self.meta().labels.hash(hasher);
    }
}

impl Fingerprint for Decoded<BundleNamespaceMapping> {
    fn tell(&self, hasher: &mut DefaultHasher) {
        tell_metadata(self.meta(), hasher);
        // It has no status, and so may have no generation.
        self.meta().resource_version.hash(hasher);
    }
}

impl Fingerprint for MetadataOnly<Namespace> {
    fn tell(&self, hasher: &mut DefaultHasher) {
        self.metadata.labels.hash(hasher);
        // They say which Cluster it belongs to.
        let annotations = self.metadata.annotations.as_ref();
        for annotation in [labels::CLUSTER_NAMESPACE, labels::CLUSTER] {
            annotations
                .and_then(|annotations| annotations.get(annotation))
                .hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use watcher::Event;

    use super::*;

    fn helmop(object: &Value) -> Decoded<HelmOp> {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn named(name: &str) -> Decoded<HelmOp> {
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
            let mut news = ChangeFilter::default();
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
        assert!(changed(
            "/metadata/annotations",
            json!({ labels::POLL_REQUESTED_AT: "1" })
        ));
        assert!(changed("/metadata/labels", json!({ labels::SHARD: "b" })));
        assert!(changed("/status", json!({})), "wiped by hand");
    }

    #[test]
    fn what_can_be_read_at_last_is_news() {
        let object = json!({
            "metadata": { "name": "web", "generation": 1 }, "spec": {},
            "status": { "conditions": [{ "type": "Accepted", "status": "True" }] }
        });
        let whole = helmop(&object);
        let odd = Decoded::Invalid {
            metadata: Box::new(whole.meta().clone().into()),
            error: String::new(),
        };
        let mut news = ChangeFilter::default();
        for event in [whole.clone(), odd, whole] {
            assert_eq!(news.of(&Event::Apply(event)).len(), 1);
        }
    }

    #[test]
    fn what_is_gone_is_news_once() {
        let mut news = ChangeFilter::default();
        let (web, db) = (crate::work::key("a", "web"), crate::work::key("a", "db"));
        assert_eq!(news.of(&Event::Apply(named("web"))).len(), 1);
        assert_eq!(news.of(&Event::Apply(named("db"))).len(), 1);
        assert_eq!(news.of(&Event::Delete(named("db"))), [db]);
        news.of(&Event::Init);
        assert_eq!(news.of(&Event::InitDone), [web], "a list no longer shows it");
        assert!(news.known.is_empty());
    }

    #[test]
    fn a_list_of_what_is_known_is_no_news() {
        let mut news = ChangeFilter::default();
        news.of(&Event::Apply(named("web")));
        news.of(&Event::Init);
        assert_eq!(news.of(&Event::InitApply(named("web"))), []);
        assert_eq!(news.of(&Event::InitDone), []);
    }
}

//! A filter for watch events: which changes of an object trigger a reconciliation.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use helmops_api::{
    Bundle, BundleNamespaceMapping, Cluster, ClusterGroup, Decoded, HelmOp, MetadataOnly, labels,
};
use helmops_core::status::is_refused;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Resource,
    runtime::{
        reflector::{Lookup, ObjectRef},
        watcher,
    },
};

use crate::work::key_of;

/// An object that is reconciled only if relevant fields have changed.
pub trait Fingerprint {
    /// Hashes everything that a reconciliation depends on: whether the object decodes, its spec (by its generation), its
    /// shard, its finalizers, and whether its status was cleared.
    fn hash_into(&self, hasher: &mut DefaultHasher);
}

/// The last observed fingerprint of each object of a kind.
pub struct ChangeFilter<K: Lookup>
where
    K::DynamicType: Hash + Eq,
{
    known: HashMap<ObjectRef<K>, u64>,
    /// The objects of an incomplete list. They are reported when it is complete: before that no store has them.
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
    /// The objects that an event changes or deletes. Changes that the controller itself writes are ignored.
    pub fn changed(&mut self, event: &watcher::Event<K>) -> Vec<ObjectRef<K>> {
        match event {
            watcher::Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.listed.insert(key_of(object), fingerprint(object));
                Vec::new()
            }
            watcher::Event::Apply(object) => self.applied(object),
            watcher::Event::Delete(object) => {
                let key = key_of(object);
                self.known.remove(&key);
                vec![key]
            }
            watcher::Event::InitDone => {
                let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.listed));
                let deleted = before.keys().filter(|key| !self.known.contains_key(*key));
                let changed = self
                    .known
                    .iter()
                    .filter(|(key, fingerprint)| before.get(*key) != Some(*fingerprint));
                deleted.chain(changed.map(|(key, _)| key)).cloned().collect()
            }
        }
    }

    fn applied(&mut self, object: &K) -> Vec<ObjectRef<K>> {
        let (key, fingerprint) = (key_of(object), fingerprint(object));
        if self.known.insert(key.clone(), fingerprint) == Some(fingerprint) {
            Vec::new()
        } else {
            vec![key]
        }
    }
}

/// A hash of the relevant fields.
fn fingerprint(object: &impl Fingerprint) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.hash_into(&mut hasher);
    hasher.finish()
}

/// Hashes identity, generation, deletion and finalizers.
fn hash_metadata(metadata: &ObjectMeta, hasher: &mut DefaultHasher) {
    metadata.uid.hash(hasher);
    metadata.generation.hash(hasher);
    metadata.deletion_timestamp.is_some().hash(hasher);
    metadata.finalizers.hash(hasher);
}

impl Fingerprint for Decoded<HelmOp> {
    fn hash_into(&self, hasher: &mut DefaultHasher) {
        let metadata = self.meta();
        hash_metadata(metadata, hasher);
        let annotations = metadata.annotations.as_ref();
        annotations
            .and_then(|annotations| annotations.get(labels::POLL_REQUESTED_AT))
            .hash(hasher);
        let label = metadata.labels.as_ref();
        label.and_then(|labels| labels.get(labels::SHARD)).hash(hasher);
        let has_conditions = |helmop: &HelmOp| {
            helmop
                .status
                .as_ref()
                .is_some_and(|status| !status.base.conditions.is_empty())
        };
        self.valid().map(has_conditions).hash(hasher);
    }
}

impl Fingerprint for Decoded<Bundle> {
    fn hash_into(&self, hasher: &mut DefaultHasher) {
        let metadata = self.meta();
        hash_metadata(metadata, hasher);
        // They are copied to its deployments, and mappings select by them.
        metadata.labels.hash(hasher);
        let has_conditions = |bundle: &Bundle| {
            bundle
                .status
                .as_ref()
                .is_some_and(|status| !status.conditions.is_empty())
        };
        self.valid().map(has_conditions).hash(hasher);
    }
}

/// Everything that targets select by, that values are rendered from, or that rollouts depend on. The heartbeat that agents
/// write every few minutes is excluded.
impl Fingerprint for Decoded<Cluster> {
    fn hash_into(&self, hasher: &mut DefaultHasher) {
        let metadata = self.meta();
        hash_metadata(metadata, hasher);
        (&metadata.labels, &metadata.annotations).hash(hasher);
        if let Some(cluster) = self.valid() {
            let status = &cluster.status;
            (&status.namespace, status.scheduled, status.active_schedule).hash(hasher);
            // Whether its agent has ever registered.
            let agent = status.agent.as_ref();
            agent
                .is_some_and(|agent| !agent.last_seen.is_empty())
                .hash(hasher);
            status.conditions.is_empty().hash(hasher);
            // Whether delivery to it is refused.
            is_refused(status).hash(hasher);
        }
    }
}

impl Fingerprint for Decoded<ClusterGroup> {
    fn hash_into(&self, hasher: &mut DefaultHasher) {
        hash_metadata(self.meta(), hasher);
        self.meta().labels.hash(hasher);
    }
}

impl Fingerprint for Decoded<BundleNamespaceMapping> {
    fn hash_into(&self, hasher: &mut DefaultHasher) {
        hash_metadata(self.meta(), hasher);
        // It has no status subresource, so it may have no generation.
        self.meta().resource_version.hash(hasher);
    }
}

impl Fingerprint for MetadataOnly<Namespace> {
    fn hash_into(&self, hasher: &mut DefaultHasher) {
        self.metadata.labels.hash(hasher);
        // They name the Cluster that the namespace belongs to.
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
    fn changes_by_the_controller_are_ignored() {
        let object = json!({
            "metadata": { "name": "web", "generation": 1, "resourceVersion": "1" },
            "spec": {},
            "status": { "conditions": [{ "type": "Accepted", "status": "True" }] }
        });
        let changed = |pointer: &str, value: Value| {
            let mut changed = object.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[key] = value;
            let mut filter = ChangeFilter::default();
            assert_eq!(
                filter.changed(&Event::Apply(helmop(&object))).len(),
                1,
                "a new object"
            );
            !filter.changed(&Event::Apply(helmop(&changed))).is_empty()
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
        assert!(changed("/status", json!({})), "cleared by a user");
    }

    #[test]
    fn a_change_between_valid_and_invalid_is_reported() {
        let object = json!({
            "metadata": { "name": "web", "generation": 1 }, "spec": {},
            "status": { "conditions": [{ "type": "Accepted", "status": "True" }] }
        });
        let valid = helmop(&object);
        let invalid = Decoded::Invalid {
            metadata: Box::new(valid.meta().clone().into()),
            error: String::new(),
        };
        let mut filter = ChangeFilter::default();
        for event in [valid.clone(), invalid, valid] {
            assert_eq!(filter.changed(&Event::Apply(event)).len(), 1);
        }
    }

    #[test]
    fn a_deleted_object_is_reported_once() {
        let mut filter = ChangeFilter::default();
        let (web, db) = (crate::work::key("a", "web"), crate::work::key("a", "db"));
        assert_eq!(filter.changed(&Event::Apply(named("web"))).len(), 1);
        assert_eq!(filter.changed(&Event::Apply(named("db"))).len(), 1);
        assert_eq!(filter.changed(&Event::Delete(named("db"))), [db]);
        filter.changed(&Event::Init);
        assert_eq!(filter.changed(&Event::InitDone), [web], "missing in a later list");
        assert!(filter.known.is_empty());
    }

    #[test]
    fn a_list_of_unchanged_objects_reports_nothing() {
        let mut filter = ChangeFilter::default();
        filter.changed(&Event::Apply(named("web")));
        filter.changed(&Event::Init);
        assert_eq!(filter.changed(&Event::InitApply(named("web"))), []);
        assert_eq!(filter.changed(&Event::InitDone), []);
    }
}

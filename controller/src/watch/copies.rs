//! The cache of copies: Secrets and ConfigMaps in the namespaces of clusters that are copied from other namespaces.
//!
//! Only metadata is watched. An annotation has the source of a copy, and the managed fields show whether another client has
//! changed it since: the API server records the field manager of each key, and a client that changes a key becomes its manager.

use std::{collections::BTreeSet, sync::Arc};

use futures::{Stream, StreamExt, stream};
use helmops_api::{MetadataWithManagers, NamespacedName, labels};
use helmops_core::targeting::copies::{Copy, CopyKind, CopyPurpose};
use helmops_kube::{Cache, Change};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::{Resource, runtime::watcher};

use crate::{
    work::{BundleKey, key},
    writes::FIELD_MANAGER,
};

/// A reference to a copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyRef {
    /// Its kind.
    pub kind: CopyKind,
    /// Its namespace and name.
    pub name: NamespacedName,
}

impl CopyRef {
    /// A reference to an object of a kind.
    pub fn of(kind: CopyKind, metadata: &ObjectMeta) -> Self {
        Self {
            kind,
            name: NamespacedName::of(metadata),
        }
    }
}

/// Name and UID of an owner.
type Owner = (String, String);

/// The observed state of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCopy {
    /// Why it exists.
    pub purpose: CopyPurpose,
    /// Its source, from its annotation; `None` if another controller created it.
    pub copied_from: Option<String>,
    /// The number of its unmodified keys; `None` if another client has written any.
    pub intact: Option<usize>,
    /// Names and UIDs of the BundleDeployments that own it.
    pub owners: BTreeSet<Owner>,
    /// The source whose data it has, if it was left unchanged for that reason: it was copied from another source with the same
    /// data, or created by another controller.
    pub same_data_as: Option<String>,
}

/// All copies, as last observed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    secrets: Cache<Arc<ObservedCopy>>,
    config_maps: Cache<Arc<ObservedCopy>>,
}

impl Copies {
    /// Waits until both kinds are listed.
    pub async fn wait_until_synced(&self) {
        self.secrets.wait_until_synced().await;
        self.config_maps.wait_until_synced().await;
    }

    /// The state of a copy.
    pub fn get(&self, reference: &CopyRef) -> Option<ObservedCopy> {
        let copy = self.of(reference.kind).value(&reference.name)?;
        Some(ObservedCopy::clone(&copy))
    }

    /// The copies in the namespace of a cluster that the BundleDeployment with this UID owns.
    pub fn owned_by(&self, namespace: &str, uid: &str) -> Vec<CopyRef> {
        let is_owned = |copy: &ObservedCopy| copy.owners.iter().any(|(_, owner)| owner == uid);
        let of_kind = |kind| {
            self.of(kind).read(|copies, ()| {
                let owned = copies.in_namespace(namespace).filter(|(_, copy)| is_owned(copy));
                let names: Vec<_> = owned.map(|(name, _)| name.clone()).collect();
                names.into_iter().map(move |name| CopyRef { kind, name })
            })
        };
        KINDS.into_iter().flat_map(of_kind).collect()
    }

    /// The copies of a Bundle without an owner, because its BundleDeployment was never created.
    pub fn without_owner(&self, bundle: &BundleKey) -> Vec<CopyRef> {
        let is_orphan = |copy: &ObservedCopy| {
            copy.owners.is_empty()
                && copy.purpose.bundle.as_ref() == Some(&bundle.name)
                && Some(&copy.purpose.bundle_namespace) == bundle.namespace.as_ref()
        };
        let of_kind = |kind| {
            self.of(kind).read(|copies, ()| {
                let orphans = copies.iter().filter(|(_, copy)| is_orphan(copy));
                let names: Vec<_> = orphans.map(|(name, _)| name.clone()).collect();
                names.into_iter().map(move |name| CopyRef { kind, name })
            })
        };
        KINDS.into_iter().flat_map(of_kind).collect()
    }

    /// Records a copy that was just written.
    pub fn wrote(&self, kind: CopyKind, metadata: &ObjectMeta) {
        if let Some(copy) = copied(metadata) {
            self.of(kind).wrote(NamespacedName::of(metadata), Arc::new(copy));
        }
    }

    /// Records a copy that has the desired data and was left unchanged.
    pub fn record_unchanged(&self, copy: &Copy, metadata: &ObjectMeta) {
        let Some(purpose) = CopyPurpose::of(copy.object.metadata()) else {
            return;
        };
        let known = ObservedCopy {
            purpose,
            copied_from: copied_from(metadata),
            intact: None,
            owners: owners(metadata),
            same_data_as: Some(copy.copied_from.clone()),
        };
        self.of(copy.object.kind())
            .wrote(NamespacedName::of(metadata), Arc::new(known));
    }

    /// Records that a copy was just deleted.
    pub fn deleted(&self, reference: &CopyRef) {
        self.of(reference.kind).deleted(reference.name.clone());
    }

    /// Follows a watch of the copies of a kind, and returns the Bundles whose copies have changed. `is_cluster_namespace`:
    /// whether a namespace belongs to a cluster. Tenants can set the label on objects in other namespaces, which are ignored.
    pub fn follow<K, S, F>(
        &self,
        kind: CopyKind,
        events: S,
        is_cluster_namespace: F,
    ) -> impl Stream<Item = BundleKey> + Send + use<K, S, F>
    where
        K: Resource + Send + Sync + 'static,
        S: Stream<Item = watcher::Event<MetadataWithManagers<K>>> + Send + 'static,
        F: Fn(&str) -> bool + Send + Sync + 'static,
    {
        let copy = move |object: MetadataWithManagers<K>| {
            let metadata = object.meta();
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            copied(metadata)
                .filter(|_| is_cluster_namespace(namespace))
                .map(Arc::new)
        };
        self.of(kind)
            .follow(vec![(None, events)], copy)
            .flat_map(|changes| stream::iter(changes.into_iter().flat_map(affected)))
    }

    const fn of(&self, kind: CopyKind) -> &Cache<Arc<ObservedCopy>> {
        match kind {
            CopyKind::Secret => &self.secrets,
            CopyKind::ConfigMap => &self.config_maps,
        }
    }
}

/// The kinds of copies.
const KINDS: [CopyKind; 2] = [CopyKind::Secret, CopyKind::ConfigMap];

/// The Bundles whose copy has changed.
fn affected(Change { before, after, .. }: Change<Arc<ObservedCopy>>) -> Vec<BundleKey> {
    if before == after {
        return Vec::new();
    }
    let both = before.iter().chain(&after);
    both.flat_map(|copy| copy.bundles()).collect()
}

impl ObservedCopy {
    /// Whether it is up to date: copied from this source, with this number of keys, and unmodified.
    pub fn is_current(&self, made_from: &str, keys: usize) -> bool {
        self.copied_from.as_deref() == Some(made_from) && self.intact == Some(keys)
    }

    /// Whether it was left unchanged because it has the data of this source.
    pub fn has_data_of(&self, made_from: &str) -> bool {
        self.same_data_as.as_deref() == Some(made_from)
    }

    /// Whether it has the same purpose as a desired copy.
    pub fn is_for(&self, copy: &Copy) -> bool {
        CopyPurpose::of(copy.object.metadata()).as_ref() == Some(&self.purpose)
    }

    /// The Bundles that it belongs to: BundleDeployments have the names of their Bundles.
    fn bundles(&self) -> impl Iterator<Item = BundleKey> {
        self.owners
            .iter()
            .map(|(name, _)| key(&self.purpose.bundle_namespace, name))
    }
}

fn copied(metadata: &ObjectMeta) -> Option<ObservedCopy> {
    Some(ObservedCopy {
        purpose: CopyPurpose::of(metadata)?,
        copied_from: copied_from(metadata),
        intact: intact(metadata.managed_fields.as_deref().unwrap_or_default()),
        owners: owners(metadata),
        same_data_as: None,
    })
}

/// The source of a copy, from its annotation.
pub fn copied_from(metadata: &ObjectMeta) -> Option<String> {
    metadata.annotations.as_ref()?.get(labels::COPIED_FROM).cloned()
}

/// Names and UIDs of the owners of an object.
fn owners(metadata: &ObjectMeta) -> BTreeSet<Owner> {
    let owners = metadata.owner_references.iter().flatten();
    owners
        .map(|owner| (owner.name.clone(), owner.uid.clone()))
        .collect()
}

/// The number of keys that this controller wrote last; `None` if another client has added or changed any.
fn intact(fields: &[ManagedFieldsEntry]) -> Option<usize> {
    let is_own = |entry: &&ManagedFieldsEntry| entry.manager.as_deref() == Some(FIELD_MANAGER);
    let own: BTreeSet<_> = fields.iter().filter(is_own).flat_map(keys).collect();
    let mut others = fields.iter().filter(|entry| !is_own(entry)).flat_map(keys);
    others.all(|key| own.contains(&key)).then_some(own.len())
}

/// The keys of a managed fields entry.
fn keys(entry: &ManagedFieldsEntry) -> impl Iterator<Item = (&'static str, &str)> {
    ["f:data", "f:binaryData", "f:stringData"]
        .into_iter()
        .flat_map(|part| {
            let fields = entry.fields_v1.as_ref().and_then(|fields| fields.0.get(part));
            let keys = fields.and_then(|fields| fields.as_object()).into_iter().flatten();
            keys.map(|(key, _)| key.as_str())
                .filter(|key| key.starts_with("f:"))
                .map(move |key| (part, key))
        })
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, channel::mpsc, stream::BoxStream};
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::{Value, json};
    use watcher::Event;

    use super::*;

    const WEB: &str = "web";

    fn managed_fields(manager: &str, operation: &str, keys: &[&str]) -> Value {
        let keys: serde_json::Map<_, _> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        json!({ "manager": manager, "operation": operation, "fieldsV1": { "f:data": keys, "f:type": {} } })
    }

    fn object(made_from: &str, fields: &[Value]) -> MetadataWithManagers<Secret> {
        let metadata = json!({
            "name": "access-1", "namespace": "cluster-c1",
            "labels": { labels::COPY_TYPE: "access", labels::BUNDLE_NAMESPACE: "fleet" },
            "annotations": { labels::COPIED_FROM: made_from },
            "ownerReferences": [{ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment", "name": WEB, "uid": "u" }],
            "managedFields": fields,
        });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn reference() -> CopyRef {
        CopyRef {
            kind: CopyKind::Secret,
            name: NamespacedName::new("cluster-c1", "access-1"),
        }
    }

    #[test]
    fn a_key_written_by_another_client_is_detected() {
        let own = managed_fields(FIELD_MANAGER, "Apply", &["username", "password"]);
        let is_intact = |fields: &[Value]| copied(object("a@1", fields).meta()).unwrap().is_current("a@1", 2);
        assert!(is_intact(std::slice::from_ref(&own)));
        let before = managed_fields("fleetcontroller", "Update", &["password"]);
        assert!(is_intact(&[own.clone(), before]), "the same value");
        let more = managed_fields("kubectl-edit", "Update", &["other"]);
        assert!(!is_intact(&[own, more]));
        let changed = [
            managed_fields(FIELD_MANAGER, "Apply", &["username"]),
            managed_fields("kubectl-edit", "Update", &["password"]),
        ];
        assert!(!is_intact(&changed));
        assert!(
            !is_intact(&[managed_fields(FIELD_MANAGER, "Apply", &["username"])]),
            "one key is missing"
        );
        assert!(!copied(object("a@2", &[]).meta()).unwrap().is_current("a@1", 0));
    }

    /// A cache of copies, and the events of the watch of Secrets.
    struct Followed {
        copies: Copies,
        events: mpsc::UnboundedSender<Event<MetadataWithManagers<Secret>>>,
        affected: BoxStream<'static, BundleKey>,
    }

    impl Followed {
        fn new(is_cluster_namespace: fn(&str) -> bool) -> Self {
            let copies = Copies::default();
            let (events, receiver) = mpsc::unbounded();
            let affected = copies.follow(CopyKind::Secret, receiver, is_cluster_namespace);
            Self {
                affected: affected.boxed(),
                copies,
                events,
            }
        }

        fn observe(&mut self, event: Event<MetadataWithManagers<Secret>>) -> Vec<BundleKey> {
            self.events.unbounded_send(event).unwrap();
            std::iter::from_fn(|| self.affected.next().now_or_never().flatten()).collect()
        }

        fn list(&mut self, objects: Vec<MetadataWithManagers<Secret>>) -> Vec<BundleKey> {
            assert_eq!(self.observe(Event::Init), []);
            for object in objects {
                assert_eq!(self.observe(Event::InitApply(object)), []);
            }
            self.observe(Event::InitDone)
        }
    }

    #[test]
    fn changes_of_copies_affect_their_bundles() {
        let mut followed = Followed::new(|_| true);
        let copies = followed.copies.clone();
        let own = [managed_fields(FIELD_MANAGER, "Apply", &["a"])];
        let web = [key("fleet", WEB)];
        assert_eq!(followed.list(vec![object("a@1", &own)]), web);
        assert!(copies.get(&reference()).unwrap().is_current("a@1", 1));
        assert_eq!(copies.owned_by("cluster-c1", "u").len(), 1);
        assert_eq!(copies.owned_by("cluster-c1", "other"), []);
        assert_eq!(
            followed.observe(Event::Apply(object("a@1", &own))),
            [],
            "no change"
        );
        let both = followed.observe(Event::Apply(object("a@1", &[])));
        assert_eq!(both[0], web[0]);
        assert_eq!(followed.observe(Event::Delete(object("a@1", &[]))), web);
        assert_eq!(copies.get(&reference()), None);
        copies.wrote(CopyKind::Secret, object("a@1", &own).meta());
        assert_eq!(followed.list(Vec::new()), web, "it was deleted unobserved");
    }

    /// Any tenant can set the label on a Secret.
    #[test]
    fn objects_outside_of_cluster_namespaces_are_ignored() {
        let mut followed = Followed::new(|namespace| namespace != "cluster-c1");
        assert_eq!(followed.list(vec![object("a@1", &[])]), []);
        for version in ["a@2", "a@3"] {
            assert_eq!(followed.observe(Event::Apply(object(version, &[]))), []);
        }
        let mut unowned = object("a@1", &[]);
        unowned.meta_mut().owner_references = None;
        let labels = unowned.meta_mut().labels.get_or_insert_default();
        labels.insert(labels::BUNDLE_NAME.to_owned(), WEB.to_owned());
        assert_eq!(followed.observe(Event::Apply(unowned)), []);
        let copies = followed.copies;
        assert_eq!(copies.without_owner(&key("fleet", WEB)), [], "nothing is deleted");
        assert_eq!(copies.get(&reference()), None);
    }

    #[test]
    fn copies_without_owner_are_found() {
        let mut followed = Followed::new(|_| true);
        followed.list(Vec::new());
        let copies = followed.copies;
        let mut object = object("a@1", &[]);
        object.meta_mut().owner_references = None;
        let labels = object.meta_mut().labels.get_or_insert_default();
        labels.insert(labels::BUNDLE_NAME.to_owned(), WEB.to_owned());
        copies.wrote(CopyKind::Secret, object.meta());
        assert_eq!(copies.without_owner(&key("fleet", WEB)), [reference()]);
        assert_eq!(copies.without_owner(&key("fleet", "db")), []);
        assert_eq!(copies.without_owner(&key("other", WEB)), []);
    }

    #[tokio::test]
    async fn waits_until_both_kinds_are_listed() {
        let copies = Copies::default();
        for kind in KINDS {
            assert!(copies.wait_until_synced().now_or_never().is_none());
            copies.of(kind).apply(0, Event::InitDone);
        }
        copies.wait_until_synced().await;
    }
}

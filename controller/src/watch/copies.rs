//! The cache of copies: Secrets and ConfigMaps in the namespaces of clusters that are copied from other namespaces.
//!
//! Only metadata is watched. An annotation has the source of a copy, and the managed fields show whether another client has
//! changed it since: the API server records the field manager of each key, and a client that changes a key becomes its manager.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt};
use helmops_api::{MetadataWithManagers, NamespacedName, labels};
use helmops_core::targeting::copies::{Copy, CopyKind, CopyPurpose};
use helmops_process::lock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::{Resource, runtime::watcher};
use tokio::sync::watch;

use crate::{
    context::FIELD_MANAGER,
    work::{BundleKey, key},
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
    known: Arc<Mutex<BTreeMap<CopyRef, ObservedCopy>>>,
    /// The kinds whose first list is complete.
    listed: watch::Sender<BTreeSet<CopyKind>>,
}

impl Copies {
    /// Waits until both kinds are listed.
    pub async fn wait_until_synced(&self) {
        let mut listed = self.listed.subscribe();
        // It fails only if the sender is gone, when the process stops.
        let _ = listed.wait_for(|kinds| kinds.len() == 2).await;
    }

    /// The state of a copy.
    pub fn get(&self, reference: &CopyRef) -> Option<ObservedCopy> {
        lock(&self.known).get(reference).cloned()
    }

    /// The copies in the namespace of a cluster that the BundleDeployment with this UID owns.
    pub fn owned_by(&self, namespace: &str, uid: &str) -> Vec<CopyRef> {
        let known = lock(&self.known);
        let mut found = Vec::new();
        for kind in [CopyKind::Secret, CopyKind::ConfigMap] {
            let from = CopyRef {
                kind,
                name: NamespacedName::new(namespace, ""),
            };
            let in_namespace = known
                .range(from..)
                .take_while(|(copy, _)| copy.kind == kind && copy.name.namespace == namespace);
            let owned = in_namespace.filter(|(_, copy)| copy.owners.iter().any(|(_, owner)| owner == uid));
            found.extend(owned.map(|(reference, _)| reference.clone()));
        }
        found
    }

    /// The copies of a Bundle without an owner, because its BundleDeployment was never created.
    pub fn without_owner(&self, bundle: &BundleKey) -> Vec<CopyRef> {
        let known = lock(&self.known);
        let is_orphan = |copy: &ObservedCopy| {
            copy.owners.is_empty()
                && copy.purpose.bundle.as_ref() == Some(&bundle.name)
                && Some(&copy.purpose.bundle_namespace) == bundle.namespace.as_ref()
        };
        let orphans = known.iter().filter(|(_, copy)| is_orphan(copy));
        orphans.map(|(reference, _)| reference.clone()).collect()
    }

    /// Records a copy that was just written.
    pub fn wrote(&self, kind: CopyKind, metadata: &ObjectMeta) {
        if let Some(copy) = copied(metadata) {
            lock(&self.known).insert(CopyRef::of(kind, metadata), copy);
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
        let copy = CopyRef::of(copy.object.kind(), metadata);
        lock(&self.known).insert(copy, known);
    }

    /// Records that a copy was just deleted.
    pub fn deleted(&self, reference: &CopyRef) {
        lock(&self.known).remove(reference);
    }

    /// Follows a watch of the copies of a kind, and returns the Bundles whose copies have changed. `is_cluster_namespace`:
    /// whether a namespace belongs to a cluster. Tenants can set the label on objects in other namespaces, which are ignored.
    pub fn follow<K, S, F>(
        &self,
        kind: CopyKind,
        events: S,
        is_cluster_namespace: F,
    ) -> impl Stream<Item = BundleKey> + use<K, S, F>
    where
        K: Resource,
        S: Stream<Item = watcher::Event<MetadataWithManagers<K>>>,
        F: Fn(&str) -> bool,
    {
        let copies = self.clone();
        let mut list = BTreeMap::new();
        events
            .map(move |event| copies.observe(kind, event, &mut list, &is_cluster_namespace))
            .flat_map(futures::stream::iter)
    }

    fn observe<K: Resource>(
        &self,
        kind: CopyKind,
        event: watcher::Event<MetadataWithManagers<K>>,
        list: &mut BTreeMap<CopyRef, ObservedCopy>,
        is_cluster_namespace: &impl Fn(&str) -> bool,
    ) -> Vec<BundleKey> {
        let copied = |metadata: &ObjectMeta| {
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            copied(metadata).filter(|_| is_cluster_namespace(namespace))
        };
        let mut known = lock(&self.known);
        match event {
            watcher::Event::Init => {
                list.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                if let Some(copy) = copied(object.meta()) {
                    list.insert(CopyRef::of(kind, object.meta()), copy);
                }
                Vec::new()
            }
            watcher::Event::InitDone => {
                let listed = std::mem::take(list);
                let before: BTreeMap<_, _> = known.extract_if(.., |copy, _| copy.kind == kind).collect();
                let is_changed =
                    |(reference, copy): &(&CopyRef, &ObservedCopy)| listed.get(*reference) != Some(*copy);
                let affected = before
                    .iter()
                    .filter(is_changed)
                    .flat_map(|(_, copy)| copy.bundles())
                    .collect();
                known.extend(listed);
                drop(known);
                self.listed.send_if_modified(|kinds| kinds.insert(kind));
                affected
            }
            watcher::Event::Apply(object) => {
                let reference = CopyRef::of(kind, object.meta());
                let now = copied(object.meta());
                let before = match &now {
                    Some(copy) => known.insert(reference, copy.clone()),
                    None => known.remove(&reference),
                };
                if before == now {
                    return Vec::new();
                }
                before
                    .iter()
                    .chain(&now)
                    .flat_map(ObservedCopy::bundles)
                    .collect()
            }
            watcher::Event::Delete(object) => {
                let before = known.remove(&CopyRef::of(kind, object.meta()));
                before.iter().flat_map(ObservedCopy::bundles).collect()
            }
        }
    }
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
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::{Value, json};

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

    const fn any_namespace(_: &str) -> bool {
        true
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

    #[test]
    fn changes_of_copies_affect_their_bundles() {
        let (copies, mut list) = (Copies::default(), BTreeMap::new());
        let mut observe = |event| {
            copies
                .observe(CopyKind::Secret, event, &mut list, &any_namespace)
                .len()
        };
        let own = [managed_fields(FIELD_MANAGER, "Apply", &["a"])];
        assert_eq!(observe(watcher::Event::Init), 0);
        assert_eq!(observe(watcher::Event::InitApply(object("a@1", &own))), 0);
        assert_eq!(observe(watcher::Event::InitDone), 0);
        assert!(copies.get(&reference()).unwrap().is_current("a@1", 1));
        assert_eq!(copies.owned_by("cluster-c1", "u").len(), 1);
        assert_eq!(copies.owned_by("cluster-c1", "other"), []);
        assert_eq!(
            observe(watcher::Event::Apply(object("a@1", &own))),
            0,
            "no change"
        );
        let web = copies.observe(
            CopyKind::Secret,
            watcher::Event::Apply(object("a@1", &[])),
            &mut BTreeMap::new(),
            &any_namespace,
        );
        assert_eq!(web[0], key("fleet", WEB));
        let mut observe = |event| {
            copies
                .observe(CopyKind::Secret, event, &mut list, &any_namespace)
                .len()
        };
        assert_eq!(observe(watcher::Event::Delete(object("a@1", &[]))), 1);
        assert_eq!(copies.get(&reference()), None);
        copies.wrote(CopyKind::Secret, object("a@1", &own).meta());
        assert_eq!(observe(watcher::Event::Init), 0);
        assert_eq!(observe(watcher::Event::InitDone), 1, "it was deleted unobserved");
    }

    /// Any tenant can set the label on a Secret.
    #[test]
    fn objects_outside_of_cluster_namespaces_are_ignored() {
        let (copies, mut list) = (Copies::default(), BTreeMap::new());
        let mut observe = |event| {
            let is_cluster_namespace = |namespace: &str| namespace != "cluster-c1";
            copies
                .observe(CopyKind::Secret, event, &mut list, &is_cluster_namespace)
                .len()
        };
        assert_eq!(observe(watcher::Event::Init), 0);
        assert_eq!(observe(watcher::Event::InitApply(object("a@1", &[]))), 0);
        assert_eq!(observe(watcher::Event::InitDone), 0);
        for version in ["a@2", "a@3"] {
            assert_eq!(observe(watcher::Event::Apply(object(version, &[]))), 0);
        }
        let mut unowned = object("a@1", &[]);
        unowned.meta_mut().owner_references = None;
        let labels = unowned.meta_mut().labels.get_or_insert_default();
        labels.insert(labels::BUNDLE_NAME.to_owned(), WEB.to_owned());
        assert_eq!(observe(watcher::Event::Apply(unowned)), 0);
        assert_eq!(copies.without_owner(&key("fleet", WEB)), [], "nothing is deleted");
        assert_eq!(copies.get(&reference()), None);
    }

    #[test]
    fn copies_without_owner_are_found() {
        let copies = Copies::default();
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
        for kind in [CopyKind::Secret, CopyKind::ConfigMap] {
            assert!(copies.listed.borrow().len() < 2);
            copies.observe::<Secret>(
                kind,
                watcher::Event::InitDone,
                &mut BTreeMap::new(),
                &any_namespace,
            );
        }
        copies.wait_until_synced().await;
    }
}

//! The cache of copies: Secrets and ConfigMaps in the namespaces of clusters that are copied from other namespaces.
//!
//! Only metadata is watched. An annotation has the source of a copy, and the managed fields show whether another client has
//! changed it since: the API server records the field manager of each key, and a client that changes a key becomes its manager.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt};
use helmops_api::{MetadataWithManagers, NamespacedName};
use helmops_core::targeting::copies::{Copy, CopyKind, CopyRef, ObservedCopy};
use helmops_process::lock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher};
use tokio::sync::watch;

use crate::{
    context::FIELD_MANAGER,
    work::{BundleKey, key},
};

/// All copies, as last observed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    index: Arc<Mutex<Index>>,
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

    /// The copies in the namespace of a cluster that a predicate selects.
    pub fn select(
        &self,
        namespace: &str,
        is_selected: impl Fn(&CopyRef, &ObservedCopy) -> bool,
    ) -> BTreeMap<CopyRef, ObservedCopy> {
        let index = lock(&self.index);
        let mut found = BTreeMap::new();
        for kind in [CopyKind::Secret, CopyKind::ConfigMap] {
            let from = CopyRef {
                kind,
                name: NamespacedName::new(namespace, ""),
            };
            let in_namespace = index
                .known
                .range(from..)
                .take_while(|(copy, _)| copy.kind == kind && copy.name.namespace == namespace);
            let selected = in_namespace.filter(|(reference, copy)| is_selected(reference, copy));
            found.extend(selected.map(|(reference, copy)| (reference.clone(), copy.clone())));
        }
        found
    }

    /// The copies of a Bundle without an owner in the namespaces that a predicate selects.
    pub fn without_owner(&self, bundle: &BundleKey, is_selected: impl Fn(&str) -> bool) -> Vec<CopyRef> {
        let index = lock(&self.index);
        let unowned = index.unowned.get(bundle).into_iter().flatten();
        unowned
            .filter(|copy| is_selected(&copy.name.namespace))
            .cloned()
            .collect()
    }

    /// Records a copy that was just written.
    pub fn wrote(&self, kind: CopyKind, metadata: &ObjectMeta) {
        if let Some(copy) = ObservedCopy::of(metadata, FIELD_MANAGER) {
            lock(&self.index).insert(CopyRef::of(kind, metadata), copy);
        }
    }

    /// Records a copy that has the desired data and was left unchanged.
    pub fn record_unchanged(&self, copy: &Copy, metadata: &ObjectMeta) {
        if let Some(known) = ObservedCopy::unchanged(copy, metadata) {
            lock(&self.index).insert(CopyRef::of(copy.object.kind(), metadata), known);
        }
    }

    /// Records that a copy does not exist any more.
    pub fn deleted(&self, reference: &CopyRef) {
        lock(&self.index).remove(reference);
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
            ObservedCopy::of(metadata, FIELD_MANAGER).filter(|_| is_cluster_namespace(namespace))
        };
        let mut index = lock(&self.index);
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
                let before = index.take(kind);
                let is_changed =
                    |(reference, copy): &(&CopyRef, &ObservedCopy)| listed.get(*reference) != Some(*copy);
                let affected = before
                    .iter()
                    .filter(is_changed)
                    .flat_map(|(_, copy)| bundles(copy))
                    .collect();
                for (reference, copy) in listed {
                    index.insert(reference, copy);
                }
                drop(index);
                self.listed.send_if_modified(|kinds| kinds.insert(kind));
                affected
            }
            watcher::Event::Apply(object) => {
                let reference = CopyRef::of(kind, object.meta());
                let now = copied(object.meta());
                let before = match &now {
                    Some(copy) => index.insert(reference, copy.clone()),
                    None => index.remove(&reference),
                };
                if before == now {
                    return Vec::new();
                }
                before.iter().chain(&now).flat_map(bundles).collect()
            }
            watcher::Event::Delete(object) => {
                let before = index.remove(&CopyRef::of(kind, object.meta()));
                before.iter().flat_map(bundles).collect()
            }
        }
    }
}

/// The copies, and those without an owner by Bundle.
#[derive(Debug, Default)]
struct Index {
    known: BTreeMap<CopyRef, ObservedCopy>,
    unowned: HashMap<BundleKey, BTreeSet<CopyRef>>,
}

impl Index {
    /// Adds or replaces a copy, and returns the previous one.
    fn insert(&mut self, reference: CopyRef, copy: ObservedCopy) -> Option<ObservedCopy> {
        let before = self.remove(&reference);
        if let Some(bundle) = unowned_of(&copy) {
            self.unowned.entry(bundle).or_default().insert(reference.clone());
        }
        self.known.insert(reference, copy);
        before
    }

    fn remove(&mut self, reference: &CopyRef) -> Option<ObservedCopy> {
        let removed = self.known.remove(reference)?;
        if let Some(bundle) = unowned_of(&removed)
            && let Some(copies) = self.unowned.get_mut(&bundle)
        {
            copies.remove(reference);
            if copies.is_empty() {
                self.unowned.remove(&bundle);
            }
        }
        Some(removed)
    }

    /// Removes all copies of a kind.
    fn take(&mut self, kind: CopyKind) -> BTreeMap<CopyRef, ObservedCopy> {
        self.unowned.retain(|_, copies| {
            copies.retain(|copy| copy.kind != kind);
            !copies.is_empty()
        });
        self.known.extract_if(.., |copy, _| copy.kind == kind).collect()
    }
}

/// The Bundle of a copy without an owner, if it is for a single Bundle.
fn unowned_of(copy: &ObservedCopy) -> Option<BundleKey> {
    let bundle = copy.purpose.bundle.as_ref().filter(|_| copy.owners.is_empty())?;
    Some(key(&copy.purpose.bundle_namespace, bundle))
}

/// The Bundles that a copy belongs to.
fn bundles(copy: &ObservedCopy) -> impl Iterator<Item = BundleKey> {
    let names = copy.bundles().into_iter();
    names.map(|name| key(&copy.purpose.bundle_namespace, name))
}

#[cfg(test)]
mod tests {
    use helmops_api::labels;
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

    fn get(copies: &Copies) -> Option<ObservedCopy> {
        let selected = copies.select("cluster-c1", |copy, _| *copy == reference());
        selected.into_values().next()
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
        assert!(get(&copies).unwrap().is_current("a@1", 1));
        assert_eq!(
            copies.select("cluster-c1", |_, copy| copy.is_owned_by("u")).len(),
            1
        );
        assert!(copies.select("cluster-c", |_, _| true).is_empty());
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
        assert_eq!(get(&copies), None);
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
        assert_eq!(
            copies.without_owner(&key("fleet", WEB), any_namespace),
            [],
            "nothing is deleted"
        );
        assert_eq!(get(&copies), None);
    }

    #[test]
    fn copies_without_owner_are_found() {
        let copies = Copies::default();
        let owned = object("a@1", &[]);
        let mut object = owned.clone();
        object.meta_mut().owner_references = None;
        let labels = object.meta_mut().labels.get_or_insert_default();
        labels.insert(labels::BUNDLE_NAME.to_owned(), WEB.to_owned());
        let (web, apply) = (key("fleet", WEB), |object: &MetadataWithManagers<Secret>| {
            let event = watcher::Event::Apply(object.clone());
            copies.observe(CopyKind::Secret, event, &mut BTreeMap::new(), &any_namespace)
        });
        assert_eq!(
            apply(&object),
            std::slice::from_ref(&web),
            "the Bundle that it is for"
        );
        assert_eq!(copies.without_owner(&web, any_namespace), [reference()]);
        assert_eq!(copies.without_owner(&key("fleet", "db"), any_namespace), []);
        assert_eq!(copies.without_owner(&key("other", WEB), any_namespace), []);
        apply(&owned);
        assert_eq!(copies.without_owner(&web, any_namespace), []);
        apply(&object);
        copies.deleted(&reference());
        assert_eq!(copies.without_owner(&web, any_namespace), []);
        apply(&object);
        lock(&copies.index).take(CopyKind::ConfigMap);
        assert_eq!(copies.without_owner(&web, any_namespace), [reference()]);
        lock(&copies.index).take(CopyKind::Secret);
        assert!(lock(&copies.index).unowned.is_empty());
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

//! The Secrets and ConfigMaps in the namespaces of clusters that are made from others.
//!
//! Only their metadata are watched: they tell what a copy was made from, and whether somebody has changed it since. The API
//! server notes who wrote each key; whoever changes one takes it from the one who had it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt};
use helmops_shared::{
    api::{MetadataWithManagers, NamespacedName, labels},
    runtime::lock,
    targeting::copies::{Copy, Kind, Purpose},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::{Resource, runtime::watcher};
use tokio::sync::watch;

use crate::{
    context::FIELD_MANAGER,
    work::{BundleKey, key},
};

/// Kind and name of a copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace and name.
    pub name: NamespacedName,
}

impl CopyRef {
    /// Refers to an object of this kind.
    pub fn of(kind: Kind, metadata: &ObjectMeta) -> Self {
        Self {
            kind,
            name: NamespacedName::of(metadata),
        }
    }
}

/// Name and UID of an owner.
type Owner = (String, String);

/// What is known of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// What it is there for.
    pub purpose: Purpose,
    /// What this controller made it from, as it says itself. Nothing where another controller made it.
    pub made_from: Option<String>,
    /// How many of its keys are as they were written, or nothing where somebody else has written any.
    pub intact: Option<usize>,
    /// Names and UIDs of the deployments that own it.
    pub owners: BTreeSet<Owner>,
    /// What it was last found to hold the data of, where it was left as it is: it was made from something else with the same
    /// data, or by another controller.
    pub left_for: Option<String>,
}

/// All copies, as last seen. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    known: Arc<Mutex<BTreeMap<CopyRef, Copied>>>,
    /// Kinds that have been listed.
    listed: watch::Sender<BTreeSet<Kind>>,
}

impl Copies {
    /// Waits until all of them are known.
    pub async fn wait_until_known(&self) {
        let mut listed = self.listed.subscribe();
        // It fails only where nobody can tell any more.
        let _ = listed.wait_for(|kinds| kinds.len() == 2).await;
    }

    /// One of them.
    pub fn get(&self, reference: &CopyRef) -> Option<Copied> {
        lock(&self.known).get(reference).cloned()
    }

    /// Those in the namespace of a cluster that a deployment owns.
    pub fn owned_by(&self, namespace: &str, uid: &str) -> Vec<CopyRef> {
        let known = lock(&self.known);
        let mut found = Vec::new();
        for kind in [Kind::Secret, Kind::ConfigMap] {
            let from = CopyRef {
                kind,
                name: NamespacedName::new(namespace, ""),
            };
            let those = known
                .range(from..)
                .take_while(|(copy, _)| copy.kind == kind && copy.name.namespace == namespace);
            let owned = those.filter(|(_, copy)| copy.owners.iter().any(|(_, owner)| owner == uid));
            found.extend(owned.map(|(reference, _)| reference.clone()));
        }
        found
    }

    /// Those of a Bundle that nothing owns, because its deployment was never made.
    pub fn without_owner(&self, bundle: &BundleKey) -> Vec<CopyRef> {
        let known = lock(&self.known);
        let is_left = |copy: &Copied| {
            copy.owners.is_empty()
                && copy.purpose.bundle.as_ref() == Some(&bundle.name)
                && Some(&copy.purpose.bundle_namespace) == bundle.namespace.as_ref()
        };
        let left = known.iter().filter(|(_, copy)| is_left(copy));
        left.map(|(reference, _)| reference.clone()).collect()
    }

    /// Takes up what was just written.
    pub fn wrote(&self, kind: Kind, metadata: &ObjectMeta) {
        if let Some(copy) = copied(metadata) {
            lock(&self.known).insert(CopyRef::of(kind, metadata), copy);
        }
    }

    /// Takes up that a copy holds what it should, and was left as it is.
    pub fn left(&self, copy: &Copy, metadata: &ObjectMeta) {
        let Some(purpose) = Purpose::of(copy.object.metadata()) else {
            return;
        };
        let known = Copied {
            purpose,
            made_from: made_from(metadata),
            intact: None,
            owners: owners(metadata),
            left_for: Some(copy.made_from.clone()),
        };
        let copy = CopyRef::of(copy.object.kind(), metadata);
        lock(&self.known).insert(copy, known);
    }

    /// Takes up that one was just deleted.
    pub fn deleted(&self, reference: &CopyRef) {
        lock(&self.known).remove(reference);
    }

    /// Follows a watch of the copies of a kind, and tells whose have changed. `is_of_cluster` says whether a namespace is that
    /// of a cluster: anybody may give his own objects the label elsewhere, and those concern nobody.
    pub fn follow<K, S, F>(
        &self,
        kind: Kind,
        events: S,
        is_of_cluster: F,
    ) -> impl Stream<Item = BundleKey> + use<K, S, F>
    where
        K: Resource,
        S: Stream<Item = watcher::Event<MetadataWithManagers<K>>>,
        F: Fn(&str) -> bool,
    {
        let copies = self.clone();
        let mut list = BTreeMap::new();
        events
            .map(move |event| copies.see(kind, event, &mut list, &is_of_cluster))
            .flat_map(futures::stream::iter)
    }

    fn see<K: Resource>(
        &self,
        kind: Kind,
        event: watcher::Event<MetadataWithManagers<K>>,
        list: &mut BTreeMap<CopyRef, Copied>,
        is_of_cluster: &impl Fn(&str) -> bool,
    ) -> Vec<BundleKey> {
        let copied = |metadata: &ObjectMeta| {
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            copied(metadata).filter(|_| is_of_cluster(namespace))
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
                let is_other =
                    |(reference, copy): &(&CopyRef, &Copied)| listed.get(*reference) != Some(*copy);
                let concerned = before
                    .iter()
                    .filter(is_other)
                    .flat_map(|(_, copy)| copy.bundles())
                    .collect();
                known.extend(listed);
                drop(known);
                self.listed.send_if_modified(|kinds| kinds.insert(kind));
                concerned
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
                before.iter().chain(&now).flat_map(Copied::bundles).collect()
            }
            watcher::Event::Delete(object) => {
                let before = known.remove(&CopyRef::of(kind, object.meta()));
                before.iter().flat_map(Copied::bundles).collect()
            }
        }
    }
}

impl Copied {
    /// Whether it is what is to be there: made from this, with so many keys, and untouched.
    pub fn is(&self, made_from: &str, keys: usize) -> bool {
        self.made_from.as_deref() == Some(made_from) && self.intact == Some(keys)
    }

    /// Whether it was left as it is, since it has the data of what is to be there.
    pub fn was_left_for(&self, made_from: &str) -> bool {
        self.left_for.as_deref() == Some(made_from)
    }

    /// Whether it was put there for the same purpose as a copy that is to be there.
    pub fn is_for(&self, copy: &Copy) -> bool {
        Purpose::of(copy.object.metadata()).as_ref() == Some(&self.purpose)
    }

    /// The Bundles that it is for: deployments have their names.
    fn bundles(&self) -> impl Iterator<Item = BundleKey> {
        self.owners
            .iter()
            .map(|(name, _)| key(&self.purpose.bundle_namespace, name))
    }
}

fn copied(metadata: &ObjectMeta) -> Option<Copied> {
    Some(Copied {
        purpose: Purpose::of(metadata)?,
        made_from: made_from(metadata),
        intact: intact(metadata.managed_fields.as_deref().unwrap_or_default()),
        owners: owners(metadata),
        left_for: None,
    })
}

/// What a copy says it was made from.
pub fn made_from(metadata: &ObjectMeta) -> Option<String> {
    metadata.annotations.as_ref()?.get(labels::COPIED_FROM).cloned()
}

/// Names and UIDs of the owners of an object.
fn owners(metadata: &ObjectMeta) -> BTreeSet<Owner> {
    let owners = metadata.owner_references.iter().flatten();
    owners
        .map(|owner| (owner.name.clone(), owner.uid.clone()))
        .collect()
}

/// How many keys are as this controller wrote them; nothing where somebody else has written others, or changed some.
fn intact(fields: &[ManagedFieldsEntry]) -> Option<usize> {
    let is_own = |entry: &&ManagedFieldsEntry| entry.manager.as_deref() == Some(FIELD_MANAGER);
    let own: BTreeSet<_> = fields.iter().filter(is_own).flat_map(keys).collect();
    let mut others = fields.iter().filter(|entry| !is_own(entry)).flat_map(keys);
    others.all(|key| own.contains(&key)).then_some(own.len())
}

/// The keys that somebody has written.
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

    fn written(by: &str, operation: &str, keys: &[&str]) -> Value {
        let keys: serde_json::Map<_, _> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        json!({ "manager": by, "operation": operation, "fieldsV1": { "f:data": keys, "f:type": {} } })
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

    const fn everywhere(_: &str) -> bool {
        true
    }

    fn reference() -> CopyRef {
        CopyRef {
            kind: Kind::Secret,
            name: NamespacedName::new("cluster-c1", "access-1"),
        }
    }

    #[test]
    fn whoever_else_writes_a_key_is_seen() {
        let own = written(FIELD_MANAGER, "Apply", &["username", "password"]);
        let is = |fields: &[Value]| copied(object("a@1", fields).meta()).unwrap().is("a@1", 2);
        assert!(is(std::slice::from_ref(&own)));
        let before = written("fleetcontroller", "Update", &["password"]);
        assert!(is(&[own.clone(), before]), "the same text");
        let more = written("kubectl-edit", "Update", &["other"]);
        assert!(!is(&[own, more]));
        let changed = [
            written(FIELD_MANAGER, "Apply", &["username"]),
            written("kubectl-edit", "Update", &["password"]),
        ];
        assert!(!is(&changed));
        assert!(
            !is(&[written(FIELD_MANAGER, "Apply", &["username"])]),
            "one is gone"
        );
        assert!(!copied(object("a@2", &[]).meta()).unwrap().is("a@1", 0));
    }

    #[test]
    fn changes_concern_the_bundles_that_own_them() {
        let (copies, mut list) = (Copies::default(), BTreeMap::new());
        let mut see = |event| copies.see(Kind::Secret, event, &mut list, &everywhere).len();
        let own = [written(FIELD_MANAGER, "Apply", &["a"])];
        assert_eq!(see(watcher::Event::Init), 0);
        assert_eq!(see(watcher::Event::InitApply(object("a@1", &own))), 0);
        assert_eq!(see(watcher::Event::InitDone), 0);
        assert!(copies.get(&reference()).unwrap().is("a@1", 1));
        assert_eq!(copies.owned_by("cluster-c1", "u").len(), 1);
        assert_eq!(copies.owned_by("cluster-c1", "other"), []);
        assert_eq!(see(watcher::Event::Apply(object("a@1", &own))), 0, "nothing new");
        let web = copies.see(
            Kind::Secret,
            watcher::Event::Apply(object("a@1", &[])),
            &mut BTreeMap::new(),
            &everywhere,
        );
        assert_eq!(web[0], key("fleet", WEB));
        let mut see = |event| copies.see(Kind::Secret, event, &mut list, &everywhere).len();
        assert_eq!(see(watcher::Event::Delete(object("a@1", &[]))), 1);
        assert_eq!(copies.get(&reference()), None);
        copies.wrote(Kind::Secret, object("a@1", &own).meta());
        assert_eq!(see(watcher::Event::Init), 0);
        assert_eq!(see(watcher::Event::InitDone), 1, "it went unseen");
    }

    /// Anybody may put the label on his own Secrets.
    #[test]
    fn what_lies_outside_of_the_namespaces_of_clusters_concerns_nobody() {
        let (copies, mut list) = (Copies::default(), BTreeMap::new());
        let mut see = |event| {
            let is_of_cluster = |namespace: &str| namespace != "cluster-c1";
            copies.see(Kind::Secret, event, &mut list, &is_of_cluster).len()
        };
        assert_eq!(see(watcher::Event::Init), 0);
        assert_eq!(see(watcher::Event::InitApply(object("a@1", &[]))), 0);
        assert_eq!(see(watcher::Event::InitDone), 0);
        for version in ["a@2", "a@3"] {
            assert_eq!(see(watcher::Event::Apply(object(version, &[]))), 0);
        }
        let mut unowned = object("a@1", &[]);
        unowned.meta_mut().owner_references = None;
        let labels = unowned.meta_mut().labels.get_or_insert_default();
        labels.insert(labels::BUNDLE_NAME.to_owned(), WEB.to_owned());
        assert_eq!(see(watcher::Event::Apply(unowned)), 0);
        assert_eq!(copies.without_owner(&key("fleet", WEB)), [], "nothing is deleted");
        assert_eq!(copies.get(&reference()), None);
    }

    #[test]
    fn what_was_made_for_nothing_is_found() {
        let copies = Copies::default();
        let mut object = object("a@1", &[]);
        object.meta_mut().owner_references = None;
        let labels = object.meta_mut().labels.get_or_insert_default();
        labels.insert(labels::BUNDLE_NAME.to_owned(), WEB.to_owned());
        copies.wrote(Kind::Secret, object.meta());
        assert_eq!(copies.without_owner(&key("fleet", WEB)), [reference()]);
        assert_eq!(copies.without_owner(&key("fleet", "db")), []);
        assert_eq!(copies.without_owner(&key("other", WEB)), []);
    }

    #[tokio::test]
    async fn both_kinds_must_be_listed() {
        let copies = Copies::default();
        for kind in [Kind::Secret, Kind::ConfigMap] {
            assert!(copies.listed.borrow().len() < 2);
            copies.see::<Secret>(kind, watcher::Event::InitDone, &mut BTreeMap::new(), &everywhere);
        }
        copies.wait_until_known().await;
    }
}

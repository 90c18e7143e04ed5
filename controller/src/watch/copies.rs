//! The cache of copies: Secrets and ConfigMaps in the namespaces of clusters that are copied from other namespaces.
//!
//! Only metadata is watched. An annotation has the source of a copy, and the managed fields show whether another client has
//! changed it since: the API server records the field manager of each key, and a client that changes a key becomes its manager.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, StreamExt, stream};
use helmops_api::{MetadataWithManagers, NamespacedName};
use helmops_core::targeting::copies::{Copy, CopyKind, CopyRef, ObservedCopy};
use helmops_kube::{Cache, Change, Fold, Index, ObservedVersion, key};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher};

use crate::{work::BundleKey, writes::FIELD_MANAGER};

/// All copies, as last observed. Clones share them.
#[derive(Clone, Debug)]
pub struct Copies {
    secrets: Cache<CachedCopy, Unowned>,
    config_maps: Cache<CachedCopy, Unowned>,
}

/// A copy, and the version of the object that shows it: two versions with the same copy are no change.
#[derive(Clone, Debug)]
struct CachedCopy {
    version: ObservedVersion,
    copy: Arc<ObservedCopy>,
}

impl CachedCopy {
    fn new(copy: ObservedCopy, metadata: &ObjectMeta) -> Self {
        Self {
            version: ObservedVersion::of(metadata),
            copy: Arc::new(copy),
        }
    }
}

impl Default for Copies {
    fn default() -> Self {
        let empty =
            || Cache::ignoring_older(|copy: &CachedCopy, known| copy.version.is_older(&known.version));
        Self {
            secrets: empty(),
            config_maps: empty(),
        }
    }
}

impl Copies {
    /// Waits until both kinds are listed.
    pub async fn wait_until_synced(&self) {
        self.secrets.wait_until_synced().await;
        self.config_maps.wait_until_synced().await;
    }

    /// The copies in the namespace of a cluster that a predicate selects.
    pub fn select(
        &self,
        namespace: &str,
        is_selected: impl Fn(CopyKind, &NamespacedName, &ObservedCopy) -> bool,
    ) -> BTreeMap<CopyRef, Arc<ObservedCopy>> {
        let mut selected = BTreeMap::new();
        for kind in KINDS {
            self.of(kind).read(|copies, _| {
                for (name, CachedCopy { copy, .. }) in copies.in_namespace(namespace) {
                    if is_selected(kind, name, copy) {
                        let name = name.clone();
                        selected.insert(CopyRef { kind, name }, Arc::clone(copy));
                    }
                }
            });
        }
        selected
    }

    /// The copies of a Bundle without an owner in the namespaces that a predicate selects.
    pub fn without_owner(&self, bundle: &BundleKey, is_selected: impl Fn(&str) -> bool) -> Vec<CopyRef> {
        let mut found = Vec::new();
        for kind in KINDS {
            self.of(kind).read(|_, unowned| {
                let names = unowned
                    .0
                    .get(bundle)
                    .filter(|name| is_selected(&name.namespace))
                    .cloned();
                found.extend(names.map(|name| CopyRef { kind, name }));
            });
        }
        found
    }

    /// Records a copy that was just written with this number of keys, from the metadata in the response. The event that follows shows the same,
    /// and is no change.
    pub fn wrote(&self, kind: CopyKind, metadata: &ObjectMeta, keys: usize) {
        if let Some(copy) = ObservedCopy::written(metadata, keys) {
            let copy = CachedCopy::new(copy, metadata);
            self.of(kind).wrote(NamespacedName::of(metadata), copy);
        }
    }

    /// Records a copy that has the desired data and was left unchanged.
    pub fn record_unchanged(&self, copy: &Copy, metadata: &ObjectMeta) {
        if let Some(known) = ObservedCopy::unchanged(copy, metadata) {
            let copies = self.of(copy.object.kind());
            copies.wrote(NamespacedName::of(metadata), CachedCopy::new(known, metadata));
        }
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
            ObservedCopy::of(metadata, FIELD_MANAGER)
                .filter(|_| is_cluster_namespace(namespace))
                .map(|copy| CachedCopy::new(copy, metadata))
        };
        self.of(kind)
            .follow(vec![(None, events)], copy)
            .flat_map(|changes| stream::iter(changes.into_iter().flat_map(affected)))
    }

    const fn of(&self, kind: CopyKind) -> &Cache<CachedCopy, Unowned> {
        match kind {
            CopyKind::Secret => &self.secrets,
            CopyKind::ConfigMap => &self.config_maps,
        }
    }
}

const KINDS: [CopyKind; 2] = [CopyKind::Secret, CopyKind::ConfigMap];

fn affected(change: Change<CachedCopy>) -> Vec<BundleKey> {
    let [before, after] = [change.before, change.after].map(|cached| cached.map(|cached| cached.copy));
    if before == after {
        return Vec::new();
    }
    let both = before.iter().chain(&after);
    both.flat_map(|copy| bundles(copy)).collect()
}

/// The Bundles that a copy belongs to.
fn bundles(copy: &ObservedCopy) -> impl Iterator<Item = BundleKey> {
    let names = copy.bundles().into_iter();
    names.map(|name| key(&copy.purpose.bundle_namespace, name))
}

/// The copies without an owner, by Bundle.
#[derive(Debug, Default)]
struct Unowned(Index<BundleKey>);

impl Fold<CachedCopy> for Unowned {
    fn apply(&mut self, change: &Change<CachedCopy>) {
        let bundle = |cached: &Option<CachedCopy>| unowned_of(&cached.as_ref()?.copy);
        self.0
            .change(&change.name, bundle(&change.before), bundle(&change.after));
    }
}

/// The Bundle of a copy without an owner, if it is for a single Bundle.
fn unowned_of(copy: &ObservedCopy) -> Option<BundleKey> {
    let bundle = copy.purpose.bundle.as_ref().filter(|_| copy.owners.is_empty())?;
    Some(key(&copy.purpose.bundle_namespace, bundle))
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, channel::mpsc, stream::BoxStream};
    use helmops_api::labels;
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

    fn get(copies: &Copies) -> Option<Arc<ObservedCopy>> {
        let selected = copies.select("cluster-c1", |_, name, _| name.name == "access-1");
        selected.into_values().next()
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
        assert!(get(&copies).unwrap().is_current("a@1", 1));
        assert!(copies.select("cluster-c", |_, _, _| true).is_empty());
        assert_eq!(
            followed.observe(Event::Apply(object("a@1", &own))),
            [],
            "no change"
        );
        let both = followed.observe(Event::Apply(object("a@1", &[])));
        assert_eq!(both[0], web[0]);
        assert_eq!(followed.observe(Event::Delete(object("a@1", &[]))), web);
        assert_eq!(get(&copies), None);
        copies.wrote(CopyKind::Secret, object("a@1", &own).meta(), 1);
        assert_eq!(followed.list(Vec::new()), web, "it was deleted unobserved");
    }

    #[test]
    fn an_older_version_does_not_replace_a_written_one() {
        let version = |version: u32, source: &str, uid: &str| {
            let mut object = object(source, &[managed_fields(FIELD_MANAGER, "Apply", &["a"])]);
            object.meta_mut().resource_version = Some(version.to_string());
            object.meta_mut().uid = Some(uid.to_owned());
            object
        };
        let mut followed = Followed::new(|_| true);
        let copies = followed.copies.clone();
        let source = || get(&copies).and_then(|copy| copy.copied_from.clone());
        followed.list(vec![version(8, "a@1", "u")]);
        copies.wrote(CopyKind::Secret, version(10, "a@3", "u").meta(), 1);
        assert_eq!(followed.observe(Event::Apply(version(9, "a@2", "u"))), []);
        assert_eq!(followed.list(vec![version(9, "a@2", "u")]), []);
        assert_eq!(source().as_deref(), Some("a@3"));
        // A version that shows the same is no change.
        assert_eq!(followed.observe(Event::Apply(version(11, "a@3", "u"))), []);
        let changed = followed.observe(Event::Apply(version(12, "a@4", "u")));
        assert!(changed.contains(&key("fleet", WEB)), "{changed:?}");
        assert_eq!(source().as_deref(), Some("a@4"));
        // Another object of the same name is no older version.
        followed.observe(Event::Apply(version(7, "a@5", "another")));
        assert_eq!(source().as_deref(), Some("a@5"));
    }

    /// The response has no `managedFields`, and the events have them.
    #[test]
    fn the_event_of_an_own_write_is_no_change() {
        let mut followed = Followed::new(|_| true);
        let copies = followed.copies.clone();
        followed.list(Vec::new());
        copies.wrote(CopyKind::Secret, object("a@1", &[]).meta(), 2);
        assert!(get(&copies).unwrap().is_current("a@1", 2));
        let own = [managed_fields(FIELD_MANAGER, "Update", &["a", "b"])];
        assert_eq!(followed.observe(Event::Apply(object("a@1", &own))), []);
        let other = [managed_fields("kubectl", "Update", &["c"])];
        let changed = followed.observe(Event::Apply(object("a@1", &other)));
        assert!(changed.contains(&key("fleet", WEB)), "{changed:?}");
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
        assert_eq!(
            copies.without_owner(&key("fleet", WEB), |_| true),
            [],
            "nothing is deleted"
        );
        assert_eq!(get(&copies), None);
    }

    #[test]
    fn copies_without_owner_are_found() {
        let mut followed = Followed::new(|_| true);
        followed.list(Vec::new());
        let copies = followed.copies.clone();
        let owned = object("a@1", &[]);
        let mut object = owned.clone();
        object.meta_mut().owner_references = None;
        let labels = object.meta_mut().labels.get_or_insert_default();
        labels.insert(labels::BUNDLE_NAME.to_owned(), WEB.to_owned());
        let web = key("fleet", WEB);
        let unowned = |bundle: &BundleKey| copies.without_owner(bundle, |_| true);
        let affected = followed.observe(Event::Apply(object.clone()));
        assert_eq!(affected, std::slice::from_ref(&web), "the Bundle that it is for");
        assert_eq!(unowned(&web), [reference()]);
        assert_eq!(unowned(&key("fleet", "db")), []);
        assert_eq!(unowned(&key("other", WEB)), []);
        assert_eq!(
            copies.without_owner(&web, |namespace| namespace != "cluster-c1"),
            []
        );
        followed.observe(Event::Apply(owned));
        assert_eq!(unowned(&web), []);
        copies.wrote(CopyKind::Secret, object.meta(), 0);
        assert_eq!(unowned(&web), [reference()]);
        copies.deleted(&reference());
        assert_eq!(unowned(&web), []);
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

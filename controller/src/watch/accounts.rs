//! The cache of the accounts of agents: their ServiceAccounts, Roles, RoleBindings and ClusterRoleBindings.

use std::{collections::BTreeMap, sync::Arc};

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{NamespacedName, PermissionObject, labels};
use helmops_core::agents::{Kind, ObjectId, ObservedObject};
use helmops_kube::{Cache, Change, Fold, Index, key};
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Api, Client, Resource, runtime::watcher};

use crate::work::ClusterKey;

/// The objects of all accounts, as last observed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// ServiceAccounts.
    subjects: Cache<Arc<ObservedObject>, ByCluster>,
    roles: Cache<Arc<ObservedObject>, ByCluster>,
    role_bindings: Cache<Arc<ObservedObject>, ByCluster>,
    cluster_role_bindings: Cache<Arc<ObservedObject>, ByCluster>,
}

/// The kinds that an account consists of.
const KINDS: [Kind; 4] = [
    Kind::ServiceAccount,
    Kind::Role,
    Kind::RoleBinding,
    Kind::ClusterRoleBinding,
];

impl Accounts {
    /// Waits until all kinds are listed.
    pub async fn wait_until_synced(&self) {
        for kind in KINDS {
            self.of(kind).wait_until_synced().await;
        }
    }

    /// The objects with these identities, and those that name this Cluster.
    pub fn select(
        &self,
        ids: impl IntoIterator<Item = ObjectId>,
        cluster: &NamespacedName,
    ) -> BTreeMap<ObjectId, Arc<ObservedObject>> {
        let mut ids: Vec<_> = ids.into_iter().collect();
        for kind in KINDS {
            self.of(kind).read(|_, by_cluster| {
                let names = by_cluster.0.get(cluster).cloned();
                ids.extend(names.map(|name| ObjectId { kind, name }));
            });
        }
        let found = |id: ObjectId| Some((id.clone(), self.of(id.kind).value(&id.name)?));
        ids.into_iter().filter_map(found).collect()
    }

    /// Records an object that was just written.
    pub fn wrote(&self, id: &ObjectId, observed: ObservedObject) {
        self.of(id.kind).wrote(id.name.clone(), Arc::new(observed));
    }

    /// Records that an object was just deleted.
    pub fn deleted(&self, id: &ObjectId) {
        self.of(id.kind).deleted(id.name.clone());
    }

    /// Watches the objects with the label of accounts, and returns the Clusters whose objects have changed. A cache that has a write of
    /// this process already does not change when the watch reports it.
    pub fn watch(&self, client: &Client) -> BoxStream<'static, ClusterKey> {
        stream::select_all([
            self.watch_kind::<ServiceAccount>(client, Kind::ServiceAccount)
                .boxed(),
            self.watch_kind::<Role>(client, Kind::Role).boxed(),
            self.watch_kind::<RoleBinding>(client, Kind::RoleBinding).boxed(),
            self.watch_kind::<ClusterRoleBinding>(client, Kind::ClusterRoleBinding)
                .boxed(),
        ])
        .boxed()
    }

    fn watch_kind<K>(&self, client: &Client, kind: Kind) -> impl Stream<Item = ClusterKey> + Send + use<K>
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        let api = Api::<PermissionObject<K>>::all(client.clone());
        let config = watcher::Config::default().labels(labels::AGENT_ACCOUNT);
        self.follow(kind, helmops_kube::watch(api, config))
    }

    fn follow<K, S>(&self, kind: Kind, events: S) -> impl Stream<Item = ClusterKey> + Send + use<K, S>
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
        S: Stream<Item = watcher::Event<PermissionObject<K>>> + Send + 'static,
    {
        let observed = |object: PermissionObject<K>| Some(Arc::new(ObservedObject::of(&object)));
        self.of(kind)
            .follow(vec![(None, events)], observed)
            .flat_map(|changes| stream::iter(changes.into_iter().flat_map(affected)))
    }

    const fn of(&self, kind: Kind) -> &Cache<Arc<ObservedObject>, ByCluster> {
        match kind {
            Kind::ServiceAccount => &self.subjects,
            Kind::Role => &self.roles,
            Kind::RoleBinding => &self.role_bindings,
            Kind::ClusterRoleBinding => &self.cluster_role_bindings,
        }
    }
}

/// The Clusters whose object has changed.
fn affected(Change { before, after, .. }: Change<Arc<ObservedObject>>) -> Vec<ClusterKey> {
    if before == after {
        return Vec::new();
    }
    let both = before.iter().chain(&after);
    both.filter_map(|object| object.cluster.as_ref())
        .map(|cluster| key(&cluster.namespace, &cluster.name))
        .collect()
}

/// The objects by the Cluster that they name.
#[derive(Debug, Default)]
struct ByCluster(Index<NamespacedName>);

impl Fold<Arc<ObservedObject>> for ByCluster {
    fn apply(&mut self, change: &Change<Arc<ObservedObject>>) {
        let cluster = |object: &Option<Arc<ObservedObject>>| object.as_ref()?.cluster.clone();
        self.0
            .change(&change.name, cluster(&change.before), cluster(&change.after));
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, channel::mpsc};
    use serde_json::json;
    use watcher::Event;

    use super::*;

    fn object(name: &str, uid: &str, cluster: &str) -> PermissionObject<ServiceAccount> {
        let annotations = json!({ labels::CLUSTER_NAMESPACE: "fleet", labels::CLUSTER: cluster });
        let metadata =
            json!({ "namespace": "cluster-a", "name": name, "uid": uid, "annotations": annotations });
        serde_json::from_str(&json!({ "metadata": metadata }).to_string()).unwrap()
    }

    fn id(name: &str) -> ObjectId {
        ObjectId {
            kind: Kind::ServiceAccount,
            name: NamespacedName::new("cluster-a", name),
        }
    }

    #[test]
    fn objects_are_found_by_name_and_by_cluster_and_own_writes_affect_nothing() {
        let accounts = Accounts::default();
        let (events, receiver) = mpsc::unbounded();
        let mut affected = accounts.follow(Kind::ServiceAccount, receiver).boxed();
        let mut observe = |event| {
            events.unbounded_send(event).unwrap();
            let names = std::iter::from_fn(|| affected.next().now_or_never().flatten());
            names.map(|key| key.name).collect::<Vec<_>>()
        };
        observe(Event::Init);
        observe(Event::InitApply(object("one", "u-1", "a")));
        assert_eq!(observe(Event::InitDone), ["a"]);
        let found = |ids: Vec<ObjectId>, cluster: &str| {
            let found = accounts.select(ids, &NamespacedName::new("fleet", cluster));
            found.into_keys().map(|id| id.name.name).collect::<Vec<_>>()
        };
        assert_eq!(found(Vec::new(), "a"), ["one"]);
        assert_eq!(found(vec![id("one"), id("two")], "b"), ["one"]);

        accounts.wrote(&id("two"), ObservedObject::of(&object("two", "u-2", "b")));
        assert_eq!(found(Vec::new(), "b"), ["two"]);
        assert_eq!(
            observe(Event::Apply(object("two", "u-2", "b"))),
            [""; 0],
            "it is known"
        );
        assert_eq!(observe(Event::Apply(object("two", "u-2", "c"))), ["b", "c"]);
        assert_eq!(observe(Event::Delete(object("one", "u-1", "a"))), ["a"]);
        assert_eq!(found(vec![id("one")], "a"), [""; 0]);
    }
}

//! Watches of Clusters, and of the objects that select the target clusters of Bundles.

use std::{collections::HashSet, sync::Arc};

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{
    Bundle, BundleNamespaceMapping, Cluster, ClusterGroup, Decoded, MetadataOnly, NamespacedName, Schedule,
};
use helmops_core::{
    schedule::KnownWindows,
    status::helmop_of,
    targeting::{
        NamespaceRefused,
        cluster_namespace::{NamespaceOwner, Namespaces, namespace_of},
    },
};
use helmops_kube::{Change, Fold, ObjectCache, empty_if_absent, key, without_errors};
use helmops_model::names;
use helmops_process::own_namespace;
use helmops_runtime::store_budget::{budgeted, shorten};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource,
    runtime::{
        reflector::{Lookup, ObjectRef},
        watcher,
    },
};

use super::{
    Deployments, Stores,
    change_filter::{Relevant, has_other_window, is_relevant},
    claims::Claims,
};
use crate::work::{ClusterKey, Work};

/// The caches of Clusters and of the objects that select them.
#[derive(Clone)]
pub struct Clusters {
    /// All Clusters, and the namespaces that they may own.
    pub all: ObjectCache<Decoded<Cluster>, Claims>,
    /// All ClusterGroups.
    pub groups: ObjectCache<Decoded<ClusterGroup>>,
    /// All Schedules.
    pub schedules: ObjectCache<Decoded<Schedule>>,
    /// What was computed of them.
    pub known_windows: Arc<KnownWindows>,
    /// All `BundleNamespaceMapping`s: other namespaces in which Bundles may target clusters.
    pub mappings: ObjectCache<Decoded<BundleNamespaceMapping>>,
    /// All namespaces: mappings select some of them, others belong to Clusters.
    pub namespaces: ObjectCache<MetadataOnly<Namespace>>,
    /// The namespace of this process, if it runs in a pod.
    own_namespace: Option<String>,
}

impl Clusters {
    pub fn new() -> Self {
        Self {
            all: ObjectCache::new(),
            groups: ObjectCache::new(),
            schedules: ObjectCache::new(),
            known_windows: Arc::default(),
            mappings: ObjectCache::new(),
            namespaces: ObjectCache::new(),
            own_namespace: own_namespace(),
        }
    }

    /// Waits until all caches are synced.
    pub async fn wait_until_synced(&self) {
        self.all.wait_until_synced().await;
        self.groups.wait_until_synced().await;
        self.schedules.wait_until_synced().await;
        self.mappings.wait_until_synced().await;
        self.namespaces.wait_until_synced().await;
    }

    /// The verified namespace of a Cluster: its status alone is no proof.
    ///
    /// # Errors
    /// If no namespace is certain to belong to it.
    pub fn namespace_of(&self, cluster: &Cluster) -> Result<String, NamespaceRefused> {
        namespace_of(cluster, self)
    }

    /// Whether a namespace belongs to a registered Cluster.
    pub fn is_cluster_namespace(&self, namespace: &str) -> bool {
        self.all.read(|_, claims| claims.is_computed(namespace))
            || self
                .namespace_owner(namespace)
                .filter(|annotations| annotations.is_managed)
                .and_then(|annotations| annotations.named_cluster())
                .is_some_and(|owner| self.all.value(&owner).is_some())
    }

    /// The other Clusters with the same computed namespace as this one.
    fn rivals(&self, cluster: &NamespacedName) -> Vec<NamespacedName> {
        let namespace = names::cluster_namespace(&cluster.namespace, &cluster.name);
        self.all.read(|_, claims| claims.rivals(&namespace, cluster))
    }

    /// The Schedules of a namespace and, if there are any, its Clusters.
    fn scheduled(&self, namespace: &str) -> Vec<Work> {
        let schedules = keys(&self.schedules, namespace);
        if schedules.is_empty() {
            return Vec::new();
        }
        let clusters = keys(&self.all, namespace).into_iter().map(Work::Cluster);
        schedules
            .into_iter()
            .map(Work::Schedule)
            .chain(clusters)
            .collect()
    }

    /// What a change of a Cluster affects: itself, the Clusters that claim the same namespace, what is deployed to it, and what is reported
    /// about it.
    fn affected_by_cluster(
        &self,
        bundles: &ObjectCache<Decoded<Bundle>>,
        deployments: &Deployments,
        change: &Change<Arc<Decoded<Cluster>>>,
    ) -> Vec<Work> {
        let cluster = &change.name;
        let mut affected = Vec::new();
        if is_relevant(change) {
            let clusters = [cluster.clone()].into_iter().chain(self.rivals(cluster));
            affected.extend(work(clusters.collect()));
            affected.extend(self.affected_bundles(bundles, Some(&cluster.namespace)));
            affected.extend(
                keys(&self.schedules, &cluster.namespace)
                    .into_iter()
                    .map(Work::Schedule),
            );
        }
        if is_relevant(change) || has_other_window(change) {
            affected.extend(held_helmops(deployments, self, cluster));
        }
        affected
    }

    /// What a change of a Schedule affects: itself, the status of the Clusters, and what is deployed to them. Bundles do not wait for the
    /// statuses, and other shards do not write these.
    fn affected_by_schedule(
        &self,
        bundles: &ObjectCache<Decoded<Bundle>>,
        schedule: &NamespacedName,
    ) -> Vec<Work> {
        let itself = Work::Schedule(key(&schedule.namespace, &schedule.name));
        let clusters = keys(&self.all, &schedule.namespace);
        let bundles = self.affected_bundles(bundles, Some(&schedule.namespace));
        [itself]
            .into_iter()
            .chain(bundles)
            .chain(clusters.into_iter().map(Work::Cluster))
            .collect()
    }

    /// The Bundles that may target the clusters in a namespace: those in the namespace, and those with a mapping.
    fn affected_bundles(&self, bundles: &ObjectCache<Decoded<Bundle>>, namespace: Option<&str>) -> Vec<Work> {
        let mappings = self.mappings.state();
        let mapped: HashSet<_> = mappings
            .iter()
            .filter_map(|mapping| mapping.meta().namespace.as_deref())
            .collect();
        let is_affected = |bundle: &Decoded<Bundle>| {
            let own = bundle.meta().namespace.as_deref();
            own == namespace || own.is_some_and(|own| mapped.contains(own))
        };
        bundles
            .matching(is_affected)
            .into_iter()
            .map(Work::Bundle)
            .collect()
    }
}

/// The objects of namespaces, which are different ones.
pub fn in_namespaces<K, F>(
    cache: &ObjectCache<Decoded<K>, F>,
    namespaces: &[impl AsRef<str>],
) -> Vec<Arc<Decoded<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
    F: Fold<Arc<Decoded<K>>>,
{
    cache.read(|objects, _| {
        let found = namespaces.iter();
        let found = found.flat_map(|namespace| objects.in_namespace(namespace.as_ref()));
        found.map(|(_, object)| Arc::clone(object)).collect()
    })
}

/// The keys of the objects of a namespace.
fn keys<K, F>(cache: &ObjectCache<Decoded<K>, F>, namespace: &str) -> Vec<ObjectRef<Decoded<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
    F: Fold<Arc<Decoded<K>>>,
{
    cache.read(|objects, _| {
        let found = objects.in_namespace(namespace);
        found.map(|(name, _)| key(&name.namespace, &name.name)).collect()
    })
}

/// The HelmOps whose deployments on a cluster are held by its Schedules: they report when its next window begins.
fn held_helmops(deployments: &Deployments, clusters: &Clusters, cluster: &NamespacedName) -> Vec<Work> {
    let found = clusters.all.value(cluster);
    let Some(cluster) = found.as_ref().and_then(|cluster| cluster.valid()) else {
        return Vec::new();
    };
    let deployments = deployments.in_namespace(&cluster.status.namespace);
    let held = deployments.iter().filter_map(|deployment| deployment.valid());
    let held = held.filter(|deployment| deployment.spec.off_schedule);
    held.filter_map(|deployment| helmop_of(&deployment.metadata))
        .map(|(namespace, name)| Work::HelmOp(key(namespace, name)))
        .collect()
}

impl Namespaces for Clusters {
    fn namespace_owner(&self, namespace: &str) -> Option<NamespaceOwner> {
        let found = self.namespaces.value(&NamespacedName::new("", namespace))?;
        Some(NamespaceOwner::of(&found.metadata))
    }

    fn rival(&self, namespace: &str, cluster: &NamespacedName) -> Option<NamespacedName> {
        let rivals = self.all.read(|_, claims| claims.rivals(namespace, cluster));
        rivals.into_iter().next()
    }

    fn is_own(&self, namespace: &str) -> bool {
        self.own_namespace.as_deref() == Some(namespace)
    }
}

fn work(clusters: Vec<NamespacedName>) -> impl Iterator<Item = Work> {
    let keys = clusters
        .into_iter()
        .map(|cluster| key(&cluster.namespace, &cluster.name));
    keys.map(|key: ClusterKey| Work::Cluster(key))
}

/// Starts the watches, and returns the objects that each change affects.
pub fn watch(client: &Client, all_stores: &Stores, clusters: &Clusters) -> BoxStream<'static, Work> {
    let bundles = &all_stores.bundles;
    let (stores, all_bundles) = (clusters.clone(), bundles.clone());
    let deployments = all_stores.deployments.clone();
    let events = helmops_kube::watch(all(client), watcher::Config::default());
    let changes = clusters
        .all
        .follow(vec![(None, events)], |object| Some(Arc::new(object)));
    // One change after the other: the first list has all Clusters, and each may affect all Bundles.
    let of_clusters = changes.flat_map(stream::iter).flat_map(move |change| {
        stream::iter(stores.affected_by_cluster(&all_bundles, &deployments, &change))
    });
    let (stores, all_bundles) = (clusters.clone(), bundles.clone());
    let of_groups = changed(all(client), &clusters.groups).flat_map(move |group| {
        let affected = stores.affected_bundles(&all_bundles, Some(&group.namespace));
        stream::iter(affected.into_iter().chain(stores.scheduled(&group.namespace)))
    });
    let (stores, all_bundles) = (clusters.clone(), bundles.clone());
    let of_schedules = schedules(client, all_stores, clusters)
        .flat_map(move |schedule| stream::iter(stores.affected_by_schedule(&all_bundles, &schedule)));
    let all_bundles = bundles.clone();
    let of_mappings = changed(all(client), &clusters.mappings).flat_map(move |mapping| {
        let affected =
            all_bundles.matching(|bundle| bundle.meta().namespace.as_ref() == Some(&mapping.namespace));
        stream::iter(affected.into_iter().map(Work::Bundle))
    });
    let (stores, all_bundles) = (clusters.clone(), bundles.clone());
    let namespaces = Api::<MetadataOnly<Namespace>>::all(client.clone());
    let of_namespaces = changed(namespaces, &clusters.namespaces).flat_map(move |namespace| {
        let clusters = stores.all.read(|_, claims| claims.clusters_of(&namespace.name));
        let bundles = stores.affected_bundles(&all_bundles, None);
        stream::iter(work(clusters).chain(bundles))
    });
    stream::select_all([
        of_clusters.boxed(),
        of_groups.boxed(),
        of_schedules.boxed(),
        of_mappings.boxed(),
        of_namespaces.boxed(),
    ])
    .boxed()
}

/// Fills the cache of Schedules, and returns the names of those with relevant changes.
fn schedules(
    client: &Client,
    stores: &Stores,
    clusters: &Clusters,
) -> impl Stream<Item = NamespacedName> + Send + use<> {
    let kind = <Schedule as Resource>::kind(&());
    let events = budgeted(all(client), watcher::Config::default(), &stores.budget, shorten);
    let consequence = "clusters can be changed at any time";
    let events = without_errors(&kind, empty_if_absent(&kind, consequence, events));
    relevant(&clusters.schedules, events)
}

fn all<K>(client: &Client) -> Api<Decoded<K>>
where
    K: Resource<DynamicType = ()> + Clone,
{
    Api::all(client.clone())
}

/// Fills a cache with all objects of a kind, and returns the names of those with relevant changes.
fn changed<K, F>(
    api: Api<K>,
    cache: &ObjectCache<K, F>,
) -> impl Stream<Item = NamespacedName> + Send + use<K, F>
where
    K: Resource<DynamicType = ()>
        + Lookup<DynamicType = ()>
        + Relevant
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
    F: Fold<Arc<K>> + Send + 'static,
{
    relevant(cache, helmops_kube::watch(api, watcher::Config::default()))
}

/// Fills a cache, and returns the names of the objects with relevant changes.
fn relevant<K, F, S>(
    cache: &ObjectCache<K, F>,
    events: S,
) -> impl Stream<Item = NamespacedName> + Send + use<K, F, S>
where
    S: Stream<Item = watcher::Event<K>> + Send + 'static,
    K: Lookup<DynamicType = ()> + Resource<DynamicType = ()> + Relevant + Clone + Send + Sync + 'static,
    F: Fold<Arc<K>> + Send + 'static,
{
    let changes = cache.follow(vec![(None, events)], |object| Some(Arc::new(object)));
    changes.flat_map(|changes| {
        let relevant = changes.into_iter().filter(is_relevant);
        stream::iter(relevant.map(|change| change.name))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cache<K>(objects: &[Value]) -> Vec<Decoded<K>>
    where
        Decoded<K>: serde::de::DeserializeOwned,
    {
        let objects = objects.iter();
        objects
            .map(|object| serde_json::from_str(&object.to_string()).unwrap())
            .collect()
    }

    /// A Schedule that is deleted again may be seen by no reconciliation of the Cluster, and other shards reconcile no Clusters at all.
    #[test]
    fn a_schedule_affects_the_bundles_of_its_namespace_and_not_only_over_the_status_of_clusters() {
        let named =
            |namespace: &str, name: &str| json!({ "metadata": { "namespace": namespace, "name": name } });
        let mut clusters = Clusters::new();
        clusters.all = cache(&[named("fleet", "c1"), named("other", "c2")])
            .into_iter()
            .collect();
        let bundles = cache(&[named("fleet", "web"), named("other", "db")])
            .into_iter()
            .collect();
        let affected = clusters.affected_by_schedule(&bundles, &NamespacedName::new("fleet", "night"));
        let expected = [
            Work::Schedule(key("fleet", "night")),
            Work::Bundle(key("fleet", "web")),
            Work::Cluster(key("fleet", "c1")),
        ];
        assert_eq!(affected, expected);
    }
}

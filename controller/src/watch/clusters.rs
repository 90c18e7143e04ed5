//! Watches of Clusters, and of the objects that select the target clusters of Bundles.

use std::collections::HashSet;

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{
    Bundle, BundleNamespaceMapping, Cluster, ClusterGroup, Decoded, MetadataOnly, NamespacedName,
};
use helmops_core::targeting::{
    NamespaceRefused,
    cluster_namespace::{NamespaceOwner, Namespaces, namespace_of},
    names,
};
use helmops_process::own_namespace;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Lookup, ObjectRef, Store, store::Writer},
        watcher,
    },
};

use tokio::sync::watch;

use super::{
    change_filter::{ChangeFilter, Fingerprint},
    claims::Claims,
    matching,
    scope::{log_errors, paged},
};
use crate::work::{ClusterKey, Work, key};

/// The caches of Clusters and of the objects that select them.
#[derive(Clone)]
pub struct Clusters {
    /// All Clusters.
    pub all: Store<Decoded<Cluster>>,
    /// All ClusterGroups.
    pub groups: Store<Decoded<ClusterGroup>>,
    /// All `BundleNamespaceMapping`s: other namespaces in which Bundles may target clusters.
    pub mappings: Store<Decoded<BundleNamespaceMapping>>,
    /// All namespaces: mappings select some of them, others belong to Clusters.
    pub namespaces: Store<MetadataOnly<Namespace>>,
    /// The namespaces that Clusters may own.
    claims: Claims,
    /// The namespace of this process, if it runs in a pod.
    own_namespace: Option<String>,
    /// Whether all stores are synced.
    is_synced: watch::Sender<bool>,
}

/// The write halves of the stores.
pub struct Writers {
    clusters: Writer<Decoded<Cluster>>,
    groups: Writer<Decoded<ClusterGroup>>,
    mappings: Writer<Decoded<BundleNamespaceMapping>>,
    namespaces: Writer<MetadataOnly<Namespace>>,
}

impl Clusters {
    /// Empty stores.
    pub fn new() -> (Self, Writers) {
        let (clusters, clusters_writer) = reflector::store();
        let (groups, groups_writer) = reflector::store();
        let (mappings, mappings_writer) = reflector::store();
        let (namespaces, namespaces_writer) = reflector::store();
        (
            Self {
                all: clusters,
                groups,
                mappings,
                namespaces,
                claims: Claims::default(),
                own_namespace: own_namespace(),
                is_synced: watch::Sender::new(false),
            },
            Writers {
                clusters: clusters_writer,
                groups: groups_writer,
                mappings: mappings_writer,
                namespaces: namespaces_writer,
            },
        )
    }

    /// Waits until all stores are synced. Only for a single task: a store wakes only the last waiter.
    pub async fn wait_until_ready(&self) {
        // A store fails only if its watch has ended already.
        let _ = self.all.wait_until_ready().await;
        let _ = self.groups.wait_until_ready().await;
        let _ = self.mappings.wait_until_ready().await;
        let _ = self.namespaces.wait_until_ready().await;
        self.is_synced.send_replace(true);
    }

    /// Waits until [`Self::wait_until_ready`] has completed. For any number of tasks.
    pub async fn wait_until_synced(&self) {
        let mut is_synced = self.is_synced.subscribe();
        // It fails only if the sender is gone, when the process stops.
        let _ = is_synced.wait_for(|is_synced| *is_synced).await;
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
        self.claims.is_computed(namespace)
            || self
                .namespace_owner(namespace)
                .filter(|annotations| annotations.is_managed)
                .and_then(|annotations| annotations.named_cluster())
                .is_some_and(|owner| self.all.get(&key(&owner.namespace, &owner.name)).is_some())
    }

    /// Updates the claimed namespaces of changed or deleted Clusters.
    fn update_claims(&self, clusters: &[ClusterKey]) {
        for cluster in clusters {
            match self.all.get(cluster) {
                Some(object) => {
                    let claimed = object.valid().map(|cluster| &*cluster.status.namespace);
                    self.claims.insert(name_of(cluster), claimed);
                }
                None => self.claims.remove(&name_of(cluster)),
            }
        }
    }

    /// The other Clusters that a change of a Cluster affects: those with the same computed namespace.
    fn rivals(&self, cluster: &ClusterKey) -> Vec<ClusterKey> {
        let name = name_of(cluster);
        let namespace = names::cluster_namespace(&name.namespace, &name.name);
        keys(&self.claims.rivals(&namespace, &name))
    }

    /// The Bundles that may target the clusters in a namespace: those in the namespace, and those with a mapping.
    fn affected_bundles(&self, bundles: &Store<Decoded<Bundle>>, namespace: Option<&str>) -> Vec<Work> {
        let mappings = self.mappings.state();
        let mapped: HashSet<_> = mappings
            .iter()
            .filter_map(|mapping| mapping.meta().namespace.as_deref())
            .collect();
        let is_affected = |bundle: &Decoded<Bundle>| {
            let own = bundle.meta().namespace.as_deref();
            own == namespace || own.is_some_and(|own| mapped.contains(own))
        };
        matching(bundles, is_affected)
            .into_iter()
            .map(Work::Bundle)
            .collect()
    }
}

impl Namespaces for Clusters {
    fn namespace_owner(&self, namespace: &str) -> Option<NamespaceOwner> {
        let found = self.namespaces.get(&ObjectRef::new(namespace))?;
        Some(NamespaceOwner::of(&found.metadata))
    }

    fn rival(&self, namespace: &str, cluster: &NamespacedName) -> Option<NamespacedName> {
        self.claims.rivals(namespace, cluster).into_iter().next()
    }

    fn is_own(&self, namespace: &str) -> bool {
        self.own_namespace.as_deref() == Some(namespace)
    }
}

fn name_of(cluster: &ClusterKey) -> NamespacedName {
    NamespacedName::new(cluster.namespace.clone().unwrap_or_default(), &cluster.name)
}

fn keys(clusters: &[NamespacedName]) -> Vec<ClusterKey> {
    let keys = clusters
        .iter()
        .map(|cluster| key(&cluster.namespace, &cluster.name));
    keys.collect()
}

/// Starts the watches, and returns the objects that each change affects.
pub fn watch(
    client: &Client,
    clusters: &Clusters,
    writers: Writers,
    bundles: &Store<Decoded<Bundle>>,
) -> BoxStream<'static, Work> {
    let (stores, all_bundles, claiming) = (clusters.clone(), bundles.clone(), clusters.clone());
    let update_claims = move |changed: &[ClusterKey]| claiming.update_claims(changed);
    let of_clusters = changes_with(all(client), writers.clusters, update_claims).flat_map(move |cluster| {
        let affected = stores.affected_bundles(&all_bundles, cluster.namespace.as_deref());
        let rivals = stores.rivals(&cluster).into_iter().map(Work::Cluster);
        stream::iter([Work::Cluster(cluster)].into_iter().chain(rivals).chain(affected))
    });
    let (stores, all_bundles) = (clusters.clone(), bundles.clone());
    let of_groups = changes(all(client), writers.groups).flat_map(move |group| {
        stream::iter(stores.affected_bundles(&all_bundles, group.namespace.as_deref()))
    });
    let all_bundles = bundles.clone();
    let of_mappings = changes(all(client), writers.mappings).flat_map(move |mapping| {
        let affected = matching(&all_bundles, |bundle| {
            bundle.meta().namespace == mapping.namespace
        });
        stream::iter(affected.into_iter().map(Work::Bundle))
    });
    let (stores, all_bundles) = (clusters.clone(), bundles.clone());
    let namespaces = Api::<MetadataOnly<Namespace>>::all(client.clone());
    let of_namespaces = changes(namespaces, writers.namespaces).flat_map(move |namespace| {
        let clusters = keys(&stores.claims.clusters_of(&namespace.name));
        let clusters = clusters.into_iter().map(Work::Cluster);
        let bundles = stores.affected_bundles(&all_bundles, None);
        stream::iter(clusters.chain(bundles).collect::<Vec<_>>())
    });
    stream::select_all([
        of_clusters.boxed(),
        of_groups.boxed(),
        of_mappings.boxed(),
        of_namespaces.boxed(),
    ])
    .boxed()
}

fn all<K>(client: &Client) -> Api<Decoded<K>>
where
    K: Resource<DynamicType = ()> + Clone,
{
    Api::all(client.clone())
}

/// Watches all objects of a kind, and returns those with relevant changes.
fn changes<K>(api: Api<K>, writer: Writer<K>) -> impl Stream<Item = ObjectRef<K>> + Send
where
    K: Resource<DynamicType = ()>
        + Lookup<DynamicType = ()>
        + Fingerprint
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    changes_with(api, writer, |_| ())
}

/// Like [`changes`], and calls `update` with the changed objects when the store has them, before any is reconciled.
fn changes_with<K>(
    api: Api<K>,
    writer: Writer<K>,
    update: impl Fn(&[ObjectRef<K>]) + Send,
) -> impl Stream<Item = ObjectRef<K>> + Send
where
    K: Resource<DynamicType = ()>
        + Lookup<DynamicType = ()>
        + Fingerprint
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let mut filter = ChangeFilter::default();
    let events = watcher(api, paged(watcher::Config::default()))
        .default_backoff()
        .reflect(writer);
    log_errors::<K, _>(events).flat_map(move |event| {
        let changed = filter.changed(&event);
        update(&changed);
        stream::iter(changed)
    })
}

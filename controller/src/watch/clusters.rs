//! Clusters, and what else says which Bundles go to them.

use std::collections::HashSet;

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_shared::{
    api::{Bundle, BundleNamespaceMapping, Cluster, ClusterGroup, Decoded, MetadataOnly, NamespacedName},
    runtime::kube_client::own_namespace,
    targeting::{
        NamespaceRefused,
        cluster_namespace::{NamespaceOwner, Namespaces, namespace_of},
        names,
    },
};
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
    claims::Claims,
    matching,
    news::{ChangeFilter, Fingerprint},
    scope::{log_errors, paged},
};
use crate::work::{ClusterKey, Work, key};

/// What has been seen of them.
#[derive(Clone)]
pub struct Clusters {
    /// Each of them.
    pub all: Store<Decoded<Cluster>>,
    /// Groups of them.
    pub groups: Store<Decoded<ClusterGroup>>,
    /// Where else Bundles look for clusters.
    pub mappings: Store<Decoded<BundleNamespaceMapping>>,
    /// The namespaces that mappings select, and those of clusters.
    pub namespaces: Store<MetadataOnly<Namespace>>,
    /// Which namespaces Clusters may have.
    claims: Claims,
    /// The namespace of this process, where it runs in a pod.
    own_namespace: Option<String>,
    /// Whether all of them have been seen once.
    are_known: watch::Sender<bool>,
}

/// What fills the stores.
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
                are_known: watch::Sender::new(false),
            },
            Writers {
                clusters: clusters_writer,
                groups: groups_writer,
                mappings: mappings_writer,
                namespaces: namespaces_writer,
            },
        )
    }

    /// Waits until all of them have been seen once. For one task: a store wakes only the last that waits for it.
    pub async fn wait_until_ready(&self) {
        // Stores fail only where their watch has ended already.
        let _ = self.all.wait_until_ready().await;
        let _ = self.groups.wait_until_ready().await;
        let _ = self.mappings.wait_until_ready().await;
        let _ = self.namespaces.wait_until_ready().await;
        self.are_known.send_replace(true);
    }

    /// Waits until [`Self::wait_until_ready`] has ended. For any number of tasks.
    pub async fn wait_until_known(&self) {
        let mut are_known = self.are_known.subscribe();
        // It fails only where nobody can tell any more.
        let _ = are_known.wait_for(|are_known| *are_known).await;
    }

    /// The namespace of a Cluster, whatever its status says of that.
    ///
    /// # Errors
    /// Where there is none that is certain to be its own.
    pub fn namespace_of(&self, cluster: &Cluster) -> Result<String, NamespaceRefused> {
        namespace_of(cluster, self)
    }

    /// Whether a namespace is that of a registered Cluster.
    pub fn is_of_cluster(&self, namespace: &str) -> bool {
        self.claims.is_computed(namespace)
            || self
                .marks(namespace)
                .filter(|marks| marks.is_managed)
                .and_then(|marks| marks.owner())
                .is_some_and(|owner| self.all.get(&key(&owner.namespace, &owner.name)).is_some())
    }

    /// Notes what Clusters say of their namespaces, or that they are gone.
    fn note(&self, clusters: &[ClusterKey]) {
        for cluster in clusters {
            match self.all.get(cluster) {
                Some(object) => {
                    let claimed = object.good().map(|cluster| &*cluster.status.namespace);
                    self.claims.put(name_of(cluster), claimed);
                }
                None => self.claims.remove(&name_of(cluster)),
            }
        }
    }

    /// The Clusters that a change of a Cluster concerns: others whose names give the same namespace.
    fn rivals(&self, cluster: &ClusterKey) -> Vec<ClusterKey> {
        let name = name_of(cluster);
        let namespace = names::cluster_namespace(&name.namespace, &name.name);
        keys(&self.claims.rivals(&namespace, &name))
    }

    /// The Bundles that may go to the clusters of a namespace: its own, and those that a mapping sends elsewhere.
    fn concerned(&self, bundles: &Store<Decoded<Bundle>>, namespace: Option<&str>) -> Vec<Work> {
        let mappings = self.mappings.state();
        let mapped: HashSet<_> = mappings
            .iter()
            .filter_map(|mapping| mapping.meta().namespace.as_deref())
            .collect();
        let is_concerned = |bundle: &Decoded<Bundle>| {
            let own = bundle.meta().namespace.as_deref();
            own == namespace || own.is_some_and(|own| mapped.contains(own))
        };
        matching(bundles, is_concerned)
            .into_iter()
            .map(Work::Bundle)
            .collect()
    }
}

impl Namespaces for Clusters {
    fn marks(&self, namespace: &str) -> Option<NamespaceOwner> {
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

/// Begins to watch, and tells of all work that changes make.
pub fn watch(
    client: &Client,
    clusters: &Clusters,
    writers: Writers,
    bundles: &Store<Decoded<Bundle>>,
) -> BoxStream<'static, Work> {
    let (seen, known, noting) = (clusters.clone(), bundles.clone(), clusters.clone());
    let note = move |told: &[ClusterKey]| noting.note(told);
    let in_clusters = noted_news(all(client), writers.clusters, note).flat_map(move |cluster| {
        let concerned = seen.concerned(&known, cluster.namespace.as_deref());
        let rivals = seen.rivals(&cluster).into_iter().map(Work::Cluster);
        stream::iter(
            [Work::Cluster(cluster)]
                .into_iter()
                .chain(rivals)
                .chain(concerned),
        )
    });
    let (seen, known) = (clusters.clone(), bundles.clone());
    let in_groups = news(all(client), writers.groups)
        .flat_map(move |group| stream::iter(seen.concerned(&known, group.namespace.as_deref())));
    let known = bundles.clone();
    let in_mappings = news(all(client), writers.mappings).flat_map(move |mapping| {
        let here = matching(&known, |bundle| bundle.meta().namespace == mapping.namespace);
        stream::iter(here.into_iter().map(Work::Bundle))
    });
    let (seen, known) = (clusters.clone(), bundles.clone());
    let namespaces = Api::<MetadataOnly<Namespace>>::all(client.clone());
    let in_namespaces = news(namespaces, writers.namespaces).flat_map(move |namespace| {
        let clusters = keys(&seen.claims.of(&namespace.name));
        let clusters = clusters.into_iter().map(Work::Cluster);
        let bundles = seen.concerned(&known, None);
        stream::iter(clusters.chain(bundles).collect::<Vec<_>>())
    });
    stream::select_all([
        in_clusters.boxed(),
        in_groups.boxed(),
        in_mappings.boxed(),
        in_namespaces.boxed(),
    ])
    .boxed()
}

fn all<K>(client: &Client) -> Api<Decoded<K>>
where
    K: Resource<DynamicType = ()> + Clone,
{
    Api::all(client.clone())
}

/// Watches all objects of a kind, and tells of those that there is news of.
fn news<K>(api: Api<K>, writer: Writer<K>) -> impl Stream<Item = ObjectRef<K>> + Send
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
    noted_news(api, writer, |_| ())
}

/// The same, with something that is noted together with the store, before any of it is worked on.
fn noted_news<K>(
    api: Api<K>,
    writer: Writer<K>,
    note: impl Fn(&[ObjectRef<K>]) + Send,
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
    let mut news = ChangeFilter::default();
    let events = watcher(api, paged(watcher::Config::default()))
        .default_backoff()
        .reflect(writer);
    log_errors::<K, _>(events).flat_map(move |event| {
        let told = news.of(&event);
        note(&told);
        stream::iter(told)
    })
}

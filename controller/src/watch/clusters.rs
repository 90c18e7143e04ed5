//! Clusters, and what else says which Bundles go to them.

use std::collections::HashSet;

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_shared::api::{Bundle, BundleNamespaceMapping, Cluster, ClusterGroup, Guarded, MetadataOnly};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Lookup, ObjectRef, Store, store::Writer},
        watcher,
    },
};

use super::{
    matching,
    news::{News, Telling},
    scope::{paged, shielded},
};
use crate::work::Work;

/// What has been seen of them.
#[derive(Clone)]
pub struct Clusters {
    /// Each of them.
    pub all: Store<Guarded<Cluster>>,
    /// Groups of them.
    pub groups: Store<Guarded<ClusterGroup>>,
    /// Where else Bundles look for clusters.
    pub mappings: Store<Guarded<BundleNamespaceMapping>>,
    /// The namespaces that mappings select.
    pub namespaces: Store<MetadataOnly<Namespace>>,
}

/// What fills the stores.
pub struct Writers {
    clusters: Writer<Guarded<Cluster>>,
    groups: Writer<Guarded<ClusterGroup>>,
    mappings: Writer<Guarded<BundleNamespaceMapping>>,
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
            },
            Writers {
                clusters: clusters_writer,
                groups: groups_writer,
                mappings: mappings_writer,
                namespaces: namespaces_writer,
            },
        )
    }

    /// Waits until all of them have been seen once.
    pub async fn wait_until_ready(&self) {
        // Stores fail only where their watch has ended already.
        let _ = self.all.wait_until_ready().await;
        let _ = self.groups.wait_until_ready().await;
        let _ = self.mappings.wait_until_ready().await;
        let _ = self.namespaces.wait_until_ready().await;
    }

    /// The Bundles that may go to the clusters of a namespace: its own, and those that a mapping sends elsewhere.
    fn concerned(&self, bundles: &Store<Guarded<Bundle>>, namespace: Option<&str>) -> Vec<Work> {
        let mappings = self.mappings.state();
        let mapped: HashSet<_> = mappings
            .iter()
            .filter_map(|mapping| mapping.meta().namespace.as_deref())
            .collect();
        let is_concerned = |bundle: &Guarded<Bundle>| {
            let own = bundle.meta().namespace.as_deref();
            own == namespace || own.is_some_and(|own| mapped.contains(own))
        };
        matching(bundles, is_concerned)
            .into_iter()
            .map(Work::Bundle)
            .collect()
    }
}

/// Begins to watch, and tells of all work that changes make.
pub fn watch(
    client: &Client,
    clusters: &Clusters,
    writers: Writers,
    bundles: &Store<Guarded<Bundle>>,
) -> BoxStream<'static, Work> {
    let (seen, known) = (clusters.clone(), bundles.clone());
    let in_clusters = news(all(client), writers.clusters).flat_map(move |cluster| {
        let concerned = seen.concerned(&known, cluster.namespace.as_deref());
        stream::iter([Work::Cluster(cluster)].into_iter().chain(concerned))
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
        let is_its = |cluster: &Guarded<Cluster>| {
            cluster
                .good()
                .is_some_and(|cluster| cluster.status.namespace == namespace.name)
        };
        let clusters = matching(&seen.all, is_its).into_iter().map(Work::Cluster);
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

fn all<K>(client: &Client) -> Api<Guarded<K>>
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
        + Telling
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let mut news = News::default();
    let events = watcher(api, paged(watcher::Config::default()))
        .default_backoff()
        .reflect(writer);
    shielded::<K, _>(events).flat_map(move |event| stream::iter(news.of(&event)))
}

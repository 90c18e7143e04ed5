//! The caches of HelmOps, Bundles and Clusters: their states and labels, without everything else.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{
    Alert, Bundle, Cluster, Decoded, NamespacedName, WithoutObjects,
    weight::{Bytes, Weight},
};
use helmops_kube::{Cache, Change, without_absent, without_errors};
use helmops_notify::{
    alert::Observed,
    push::{Followed, followed_by},
    source::{Kind, ObjectId, Privileged, Selector},
};
use helmops_runtime::store_budget::budgeted;
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, runtime::watcher};
use serde::de::DeserializeOwned;

use super::{
    Stores,
    kept::{Kept, PAGE, Part, stored},
};
use crate::work::{AlertKey, Work};

/// HelmOps, Bundles and Clusters, as last observed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub helmops: Cache<WatchedHelmOp>,
    pub bundles: Cache<Arc<Observed>>,
    pub clusters: Cache<Arc<Observed>>,
}

/// What is kept of a HelmOp.
#[derive(Clone, Debug)]
pub struct WatchedHelmOp {
    /// Its state and labels.
    pub observed: Arc<Observed>,
    /// The repositories that it follows, for Receivers.
    pub followed: Arc<[Followed]>,
}

impl Part<WithoutObjects> for WatchedHelmOp {
    fn of(helmop: Decoded<WithoutObjects>) -> Self {
        let (observed, followed) = match helmop {
            Decoded::Valid(helmop) => (Observed::of_helmop(&helmop), followed_by(&helmop).into()),
            Decoded::Invalid { metadata, error } => (Observed::unusable(&metadata, &error), Arc::default()),
        };
        Self {
            observed: Arc::new(observed),
            followed,
        }
    }

    fn lacks_labels(&self) -> bool {
        self.observed.lacks_labels
    }
}

impl Weight for WatchedHelmOp {
    fn bytes(&self) -> Bytes {
        let followed: usize = self.followed.iter().map(Followed::weight).sum();
        (self.observed.weight() + followed).into()
    }
}

/// What is kept of a Bundle.
impl Part<Bundle> for Arc<Observed> {
    fn of(bundle: Decoded<Bundle>) -> Self {
        Self::new(match bundle {
            Decoded::Valid(bundle) => Observed::of_bundle(&bundle),
            Decoded::Invalid { metadata, error } => Observed::unusable(&metadata, &error),
        })
    }

    fn lacks_labels(&self) -> bool {
        self.lacks_labels
    }
}

/// What is kept of a Cluster.
impl Part<Cluster> for Arc<Observed> {
    fn of(cluster: Decoded<Cluster>) -> Self {
        Self::new(match cluster {
            Decoded::Valid(cluster) => Observed::of_cluster(&cluster),
            Decoded::Invalid { metadata, error } => Observed::unusable(&metadata, &error),
        })
    }

    fn lacks_labels(&self) -> bool {
        self.lacks_labels
    }
}

/// What is kept of an object, for Alerts.
trait Watched: Clone {
    /// Its state and labels.
    fn observed(&self) -> &Arc<Observed>;
}

impl Watched for WatchedHelmOp {
    fn observed(&self) -> &Arc<Observed> {
        &self.observed
    }
}

impl Watched for Arc<Observed> {
    fn observed(&self) -> &Arc<Observed> {
        self
    }
}

impl Objects {
    /// Waits until all kinds are listed, or known not to exist.
    pub async fn wait_until_synced(&self) {
        self.helmops.wait_until_synced().await;
        self.bundles.wait_until_synced().await;
        self.clusters.wait_until_synced().await;
    }

    pub fn selected(
        &self,
        alert: &Alert,
        namespace: &str,
        privileged: &Privileged,
    ) -> BTreeMap<ObjectId, Arc<Observed>> {
        let mut selected = BTreeMap::new();
        let selectors: Vec<_> = alert.spec.event_sources.iter().map(Selector::from).collect();
        let mut add = |kind: Kind, name: &NamespacedName, observed: &Arc<Observed>| {
            let id = ObjectId {
                kind,
                name: name.clone(),
            };
            let is_selected =
                |selector: &Selector<'_>| selector.selects(namespace, privileged, &id, &**observed);
            if selectors.iter().any(is_selected) {
                selected.insert(id, Arc::clone(observed));
            }
        };
        let has = |kind: Kind| selectors.iter().any(|selector| selector.kind == Some(kind));
        if has(Kind::HelmOp) {
            for_each(&self.helmops, namespace, privileged, |name, one| {
                add(Kind::HelmOp, name, one);
            });
        }
        if has(Kind::Bundle) {
            for_each(&self.bundles, namespace, privileged, |name, one| {
                add(Kind::Bundle, name, one);
            });
        }
        if has(Kind::Cluster) {
            for_each(&self.clusters, namespace, privileged, |name, one| {
                add(Kind::Cluster, name, one);
            });
        }
        selected
    }
}

/// Visits the objects that an Alert in a namespace may select.
fn for_each<V: Watched>(
    cache: &Cache<V>,
    namespace: &str,
    privileged: &Privileged,
    mut visit: impl FnMut(&NamespacedName, &Arc<Observed>),
) {
    cache.read(|objects, ()| {
        if privileged.contains(namespace) {
            objects
                .iter()
                .for_each(|(name, object)| visit(name, object.observed()));
        } else {
            let objects = objects.in_namespace(namespace);
            objects.for_each(|(name, object)| visit(name, object.observed()));
        }
    });
}

/// Starts the watches. A change enqueues the Alerts that select the object.
pub fn watch(client: &Client, stores: &Stores, privileged: &Privileged) -> BoxStream<'static, Work> {
    let objects = &stores.objects;
    stream::select_all([
        follow::<WithoutObjects, _>(client, &objects.helmops, (Kind::HelmOp, stores, privileged)),
        follow::<Bundle, _>(client, &objects.bundles, (Kind::Bundle, stores, privileged)),
        follow::<Cluster, _>(client, &objects.clusters, (Kind::Cluster, stores, privileged)),
    ])
    .boxed()
}

fn follow<K, V>(
    client: &Client,
    cache: &Cache<V>,
    (kind, stores, privileged): (Kind, &Stores, &Privileged),
) -> BoxStream<'static, Work>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
    V: Watched + Part<K> + Send + 'static,
{
    let api = Api::<Kept<K, V>>::all(client.clone());
    let config = watcher::Config::default().page_size(PAGE);
    let results = budgeted(api, config, &stores.budget, |_| ());
    let consequence = "Alerts cannot report these objects";
    let kind_name = kind.to_string();
    let events = without_errors(
        &kind_name,
        without_absent(&kind_name, consequence, cache, results),
    );
    let (stores, privileged) = (stores.clone(), privileged.clone());
    cache
        .follow(vec![(None, events)], |object| Some(stored(object)))
        .flat_map(stream::iter)
        .flat_map(move |change| stream::iter(affected(&stores, &privileged, kind, &change)))
        .boxed()
}

/// The Alerts that select an object before or after a change.
fn affected<V: Watched>(
    stores: &Stores,
    privileged: &Privileged,
    kind: Kind,
    change: &Change<V>,
) -> Vec<Work> {
    let [before, after] = [&change.before, &change.after].map(|value| value.as_ref().map(Watched::observed));
    if let (Some(before), Some(after)) = (before, after)
        && before.is_same(after)
    {
        return Vec::new();
    }
    let id = ObjectId {
        kind,
        name: change.name.clone(),
    };
    let selects = |alert: &Decoded<Alert>| {
        let (Some(alert), Some(namespace)) = (alert.valid(), &alert.meta().namespace) else {
            return false;
        };
        let states = before.into_iter().chain(after);
        let mut selectors = alert.spec.event_sources.iter().map(Selector::from);
        selectors.any(|selector| {
            let mut states = states.clone();
            states.any(|observed| selector.selects(namespace, privileged, &id, &**observed))
        })
    };
    let alerts: Vec<AlertKey> = stores.alerts.matching(selects);
    alerts.into_iter().map(Work::Alert).collect()
}

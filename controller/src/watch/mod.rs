//! What the controller sees of the cluster: stores that watches fill, and which work each change makes.
//!
//! | watched | kept | concerns |
//! |---|---|---|
//! | HelmOps | all of them | themselves, unless only what the controller itself writes has changed |
//! | Bundles of HelmOps | all of them | the HelmOp of their name |
//! | BundleDeployments of HelmOps | all of them, by Bundle | the HelmOp that their labels name |
//! | Secrets | nothing: their metadata pass by | the HelmOps that name them |
//! | Policies | those of each namespace, put together | the HelmOps of their namespace |
//! | Rancher's authorities | both Secrets | every HelmOp |
//!
//! Where Bundles are brought to clusters from here too, there is more of it:
//!
//! | watched | kept | concerns besides |
//! |---|---|---|
//! | Bundles | all of them | themselves, unless only their status has changed |
//! | BundleDeployments | all of them, whole | their Bundle and their Cluster |
//! | Clusters, ClusterGroups, mappings, namespaces | all of them, of namespaces the metadata | Bundles that may go there, and the Cluster itself |
//! | Secrets and ConfigMaps | nothing | the Bundles that pass them on |
//! | copies of these in the namespaces of clusters | what their metadata tell | the Bundles that they are for |
//! | Policies | | the Bundles of their namespace |

mod budget;
mod claims;
mod clusters;
mod copies;
mod deployments;
mod merged;
mod news;
mod policies;
mod rancher_ca;
mod scope;
mod sources;
mod weight;

use std::future::ready;

use futures::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_shared::{
    api::{Bundle, Decoded, HelmOp, MetadataWithManagers, labels},
    runtime::kube_client::{PolicyCache, backoff_without_init},
    targeting::copies::Kind,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Lookup, ObjectRef, Store, store::Writer},
        watcher,
    },
};

use tokio::sync::oneshot;

pub use self::{
    budget::StoreBudget,
    clusters::Clusters,
    copies::{Copied, Copies, CopyRef, made_from},
    deployments::{Deployment, Deployments},
    rancher_ca::{CaBundle, MissingKey, RancherCa},
    scope::Scope,
    weight::Weight,
};
use self::{
    deployments::{Affected, slim},
    news::ChangeFilter,
    scope::{budgeted, log_errors, paged},
};
use crate::work::{BundleKey, HelmOpKey, Work, key, key_of};

/// What has been seen, as it was last.
#[derive(Clone)]
pub struct Stores {
    /// The HelmOps.
    pub helmops: Store<Decoded<HelmOp>>,
    /// The Bundles that are made of HelmOps, by their label, or all of them.
    pub bundles: Store<Decoded<Bundle>>,
    /// What became of them on each cluster.
    pub deployments: Deployments,
    /// What Rancher trusts.
    pub rancher_ca: RancherCa,
    /// What HelmOps may use.
    pub policies: PolicyCache,
    /// What is needed to bring Bundles to clusters, if that is done here.
    pub reach: Option<DeliveryStores>,
    /// What objects in the stores are charged to.
    pub budget: StoreBudget,
}

/// What is needed to bring Bundles to clusters.
#[derive(Clone)]
pub struct DeliveryStores {
    /// Where they may go.
    pub clusters: Clusters,
    /// What is there for them.
    pub copies: Copies,
}

/// What fills the stores: the watches hold it.
pub struct Writers {
    helmops: Writer<Decoded<HelmOp>>,
    bundles: Writer<Decoded<Bundle>>,
    rancher_ca: [Writer<Secret>; 2],
    clusters: Option<clusters::Writers>,
}

/// What the watches tell of.
pub struct Watches {
    /// Work that changes make.
    pub changes: BoxStream<'static, Work>,
    /// Work that was waiting for a Secret, perhaps: what it failed with may be mended.
    pub mended: BoxStream<'static, Work>,
    /// Something has changed that concerns every HelmOp.
    pub all: BoxStream<'static, ()>,
    /// End when the watches that fill no store have begun. What is read before that could change unseen.
    pub begun: Vec<oneshot::Receiver<()>>,
}

/// Empty stores, which are filled as far as the budget allows. `delivers` says whether Bundles are brought to clusters here.
pub fn stores(delivers: bool, budget: StoreBudget) -> (Stores, Writers) {
    let (helmops, helmop_writer) = reflector::store();
    let (bundles, bundle_writer) = reflector::store();
    let (rancher_ca, rancher_ca_writers) = RancherCa::new();
    let clusters = delivers.then(Clusters::new);
    let (clusters, cluster_writers) = clusters.unzip();
    let stores = Stores {
        helmops,
        bundles,
        deployments: Deployments::new(),
        rancher_ca,
        policies: PolicyCache::default(),
        reach: clusters.map(|clusters| DeliveryStores {
            clusters,
            copies: Copies::default(),
        }),
        budget,
    };
    let writers = Writers {
        helmops: helmop_writer,
        bundles: bundle_writer,
        rancher_ca: rancher_ca_writers,
        clusters: cluster_writers,
    };
    (stores, writers)
}

impl Stores {
    /// Waits until everything has been seen once, or is known not to be there.
    pub async fn wait_until_filled(&self) {
        // Stores fail only where their watch has ended already.
        let _ = self.helmops.wait_until_ready().await;
        let _ = self.bundles.wait_until_ready().await;
        self.deployments.wait_until_known().await;
        self.rancher_ca.wait_until_ready().await;
        self.policies.wait_until_known().await;
        if let Some(reach) = &self.reach {
            reach.clusters.wait_until_ready().await;
            reach.copies.wait_until_known().await;
        }
    }
}

/// Begins to watch what is in the scope.
pub fn watch(client: &Client, scope: &Scope, stores: &Stores, writers: Writers) -> Watches {
    let mut news = ChangeFilter::default();
    let config = scope.of_shard();
    let helmops = scope.watch(client, |api| {
        budgeted(client, api, &config, &stores.budget, |_| ())
    });
    let helmops = log_errors::<HelmOp, _>(helmops.reflect(writers.helmops))
        .flat_map(move |event| stream::iter(news.of(&event)))
        .map(Work::HelmOp);
    let mut changes = vec![
        helmops.boxed(),
        bundles(client, scope, stores, writers.bundles).boxed(),
        deployments(client, scope, stores),
        policies::watch(client, scope, stores).boxed(),
    ];
    let delivers = stores.reach.is_some();
    let mut begun = Vec::new();
    let mut begins = || {
        let (sender, receiver) = oneshot::channel();
        begun.push(receiver);
        sender
    };
    let mut mended = Vec::new();
    for (_, api) in scope.apis(client) {
        let bundles = delivers.then(|| stores.bundles.clone());
        let (helmops, policies) = (stores.helmops.clone(), stores.policies.clone());
        mended.push(sources::of_secrets(api, begins(), helmops, policies, bundles).boxed());
    }
    if let (Some(reach), Some(writers)) = (&stores.reach, writers.clusters) {
        let of_clusters = clusters::watch(client, &reach.clusters, writers, &stores.bundles);
        let divides = scope.shard.is_empty();
        let is_ours = move |work: &Work| ready(divides || !matches!(work, Work::Cluster(_)));
        changes.push(of_clusters.filter(is_ours).boxed());
        changes.push(copies::<Secret>(client, stores, reach, Kind::Secret));
        changes.push(copies::<ConfigMap>(client, stores, reach, Kind::ConfigMap));
        let maps = sources::of_maps(Api::all(client.clone()), begins(), stores.bundles.clone());
        mended.push(maps.map(Work::Bundle).boxed());
    }
    Watches {
        changes: stream::select_all(changes).boxed(),
        mended: stream::select_all(mended).boxed(),
        all: rancher_ca::watch(client, scope, writers.rancher_ca).boxed(),
        begun,
    }
}

/// A Bundle that changes concerns the HelmOp of its name, and itself where it is brought to clusters here.
fn bundles(
    client: &Client,
    scope: &Scope,
    stores: &Stores,
    writer: Writer<Decoded<Bundle>>,
) -> impl Stream<Item = Work> + use<> {
    let delivers = stores.reach.is_some();
    let config = if delivers { scope.of_shard() } else { of_helmops() };
    let known = stores.helmops.clone();
    let mut news = ChangeFilter::default();
    let events = scope.watch(client, |api| {
        budgeted(client, api, &config, &stores.budget, |_| ())
    });
    let events = events.reflect(writer);
    // Those that a list shows are not in the store before it is complete.
    let mut listed = Vec::new();
    log_errors::<Bundle, _>(events).flat_map(move |event| {
        let told = news.of(&event);
        let mut concerned: Vec<HelmOpKey> = touched(&event, &mut listed)
            .into_iter()
            .chain(told.iter().map(named_alike))
            .collect();
        concerned.dedup();
        concerned.retain(|helmop| known.get(helmop).is_some());
        let bundles = told.into_iter().filter(|_| delivers).map(Work::Bundle);
        let helmops = concerned.into_iter().map(Work::HelmOp);
        stream::iter(helmops.chain(bundles).collect::<Vec<_>>())
    })
}

fn of_helmops() -> watcher::Config {
    watcher::Config::default().labels(labels::HELM_NAME)
}

/// The HelmOps of the Bundles that an event is about.
fn touched(event: &watcher::Event<Decoded<Bundle>>, listed: &mut Vec<HelmOpKey>) -> Vec<HelmOpKey> {
    match event {
        watcher::Event::Apply(bundle) | watcher::Event::Delete(bundle) => {
            vec![named_alike(&key_of(bundle))]
        }
        watcher::Event::InitApply(bundle) => {
            listed.push(named_alike(&key_of(bundle)));
            Vec::new()
        }
        watcher::Event::Init => {
            listed.clear();
            Vec::new()
        }
        watcher::Event::InitDone => std::mem::take(listed),
    }
}

/// A HelmOp and its Bundle have the same name.
pub fn named_alike<K: Lookup<DynamicType = ()>, O: Lookup<DynamicType = ()>>(
    object: &ObjectRef<K>,
) -> ObjectRef<O> {
    key(object.namespace.as_deref().unwrap_or_default(), &object.name)
}

/// They are in the namespaces of clusters, which only who may see the whole cluster may see.
fn deployments(client: &Client, scope: &Scope, stores: &Stores) -> BoxStream<'static, Work> {
    if !scope.is_cluster() {
        stores.deployments.are_out_of_sight();
        return stream::pending().boxed();
    }
    let delivers = stores.reach.is_some();
    let config = if delivers {
        watcher::Config::default()
    } else {
        of_helmops()
    };
    // Where Bundles are not brought to clusters from here, the states of deployments are enough.
    let slim = if delivers { |_: &mut _| () } else { slim };
    let api = Api::all(client.clone());
    let events = backoff_without_init(budgeted(client, api, &config, &stores.budget, slim));
    let (known, bundles) = (stores.helmops.clone(), stores.bundles.clone());
    let shard = scope.shard.clone();
    let concerned = stores.deployments.follow(events);
    concerned
        .flat_map(move |concerned| {
            let Affected {
                helmop,
                bundle,
                cluster,
                shard: its,
            } = concerned;
            let helmop = helmop
                .filter(|helmop| known.get(helmop).is_some())
                .map(Work::HelmOp);
            // A Bundle that was given to this shard has deployments that tell of the one before.
            let is_here = |bundle: &BundleKey| its == shard || bundles.get(bundle).is_some();
            let bundle = bundle
                .filter(|bundle| delivers && is_here(bundle))
                .map(Work::Bundle);
            // Clusters are not divided.
            let cluster = cluster
                .filter(|_| delivers && shard.is_empty())
                .map(Work::Cluster);
            stream::iter([bundle, helmop, cluster].into_iter().flatten())
        })
        .boxed()
}

/// The copies of a kind that this controller has made.
fn copies<K>(client: &Client, stores: &Stores, reach: &DeliveryStores, kind: Kind) -> BoxStream<'static, Work>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let api = Api::<MetadataWithManagers<K>>::all(client.clone());
    let config = paged(watcher::Config::default().labels(labels::COPY_TYPE));
    let events = log_errors::<K, _>(watcher(api, config).default_backoff());
    let bundles = stores.bundles.clone();
    let (clusters, copies) = (reach.clusters.clone(), reach.copies.clone());
    let concerned = async move {
        // Whose namespace is a cluster's must be known before.
        clusters.wait_until_known().await;
        copies.follow(kind, events, move |namespace| clusters.is_of_cluster(namespace))
    };
    concerned
        .into_stream()
        .flatten()
        .filter(move |bundle| ready(bundles.get(bundle).is_some()))
        .map(Work::Bundle)
        .boxed()
}

/// The objects that are like this.
pub fn matching<K>(store: &Store<K>, is_wanted: impl Fn(&K) -> bool) -> Vec<ObjectRef<K>>
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    let objects = store.state();
    let wanted = objects.iter().filter(|object| is_wanted(object));
    wanted.map(|object| key_of(&**object)).collect()
}

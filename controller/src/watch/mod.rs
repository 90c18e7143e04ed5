//! The caches of the controller: stores that watches fill, and the objects that each change enqueues.
//!
//! | watched | stored | enqueues |
//! |---|---|---|
//! | HelmOps | all | the HelmOp, unless only fields that the controller itself writes have changed |
//! | Bundles of HelmOps | all | the HelmOp with the same name |
//! | BundleDeployments of HelmOps | all, by Bundle | the HelmOp that their labels name |
//! | Secrets | nothing: only metadata is watched | the HelmOps that name them |
//! | Policies | merged for each namespace | the HelmOps in their namespace |
//! | Rancher's CA certificates | both Secrets | every HelmOp |
//!
//! If the bundle loop is enabled, additionally:
//!
//! | watched | stored | also enqueues |
//! |---|---|---|
//! | Bundles | all | the Bundle, unless only its status has changed |
//! | BundleDeployments | all, complete | their Bundle and their Cluster |
//! | Clusters, ClusterGroups, mappings, namespaces | all, metadata only for namespaces | Bundles that may target the Cluster, the Cluster itself, and Schedules in its namespace |
//! | Schedules | all | the Schedule, the Clusters in its namespace |
//! | Secrets and ConfigMaps | nothing | the Bundles that copy them to clusters, the HelmOps that deploy their keys |
//! | copies of these in the namespaces of clusters | the content of their metadata | the Bundles that they belong to |
//! | Contents of this controller | the content of their metadata | what deletes those that are not used; if one is gone, the HelmOps that need it |
//! | Policies | | the Bundles in their namespace |
//! | Secrets | nothing | with `--import-clusters`, the imports of the Clusters that name them as their kubeconfig |
//! | ClusterRegistrationTokens, if enabled | all | the token |
//! | ClusterRegistrations, if enabled | all, without their spec | the Cluster that their status names, all requests of their namespace |
//! | accounts of agents: ServiceAccounts, Roles, RoleBindings and ClusterRoleBindings, unless disabled | hashes of their content | the Cluster that they name |

mod accounts;
mod change_filter;
mod claims;
mod clusters;
mod contents;
mod copies;
mod deployments;
mod options_pool;
mod policies;
mod rancher_ca;
mod registrations;
mod scope;
mod sources;

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{
    Bundle, BundleDeployment, Cluster, Condition, Decoded, HelmOp, MetadataWithManagers, NamespacedName,
    labels,
};
use helmops_core::{agents::Patience, targeting::copies::CopyKind};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource,
    runtime::{
        reflector::{Lookup, ObjectRef},
        watcher,
    },
};

use helmops_kube::{Change, ObjectCache, key, without_errors};
use helmops_model::condition::ConditionType;
use helmops_policies::PolicyCache;
use helmops_runtime::store_budget::{StoreBudget, budgeted, shorten};
use tokio::sync::oneshot;

pub use self::{
    accounts::Accounts,
    clusters::{Clusters, in_namespaces},
    contents::Contents,
    copies::Copies,
    deployments::Deployments,
    rancher_ca::{CaBundle, MissingKey, RancherCa},
    registrations::Registrations,
    scope::Scope,
};
use self::{
    change_filter::is_relevant,
    deployments::{Affected, slim},
    scope::WatchesOf,
};
use crate::{
    registration::RegistrationOptions,
    work::{BundleKey, Cause, Work},
};

/// The caches: the last observed state of each object.
#[derive(Clone)]
pub struct Stores {
    pub helmops: ObjectCache<Decoded<HelmOp>>,
    /// The Bundles of HelmOps, selected by their label, or all Bundles.
    pub bundles: ObjectCache<Decoded<Bundle>>,
    /// The BundleDeployments of each Bundle.
    pub deployments: Deployments,
    /// The CA certificates of Rancher.
    pub rancher_ca: RancherCa,
    pub policies: PolicyCache,
    /// The stores of the bundle loop, if it is enabled.
    pub delivery: Option<DeliveryStores>,
    /// The memory budget of the objects in the stores.
    pub budget: StoreBudget,
    /// How often HelmOps, Bundles and BundleDeployments were listed.
    pub lists: Lists,
}

/// How often kinds were listed: at the start, and when a watch has ended. An API server ends the watches of a kind when its CRD changes.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    pub helmops: ListCount,
    pub bundles: ListCount,
    pub deployments: ListCount,
}

/// How often a kind was listed.
#[derive(Clone, Debug, Default)]
pub struct ListCount(Arc<AtomicU64>);

impl ListCount {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts a complete list, before its objects are reconciled.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn observe<K>(&self, event: &watcher::Result<watcher::Event<K>>) {
        if matches!(event, Ok(watcher::Event::InitDone)) {
            self.count();
        }
    }
}

/// The stores that the bundle loop needs to deliver Bundles to clusters.
#[derive(Clone)]
pub struct DeliveryStores {
    /// The Clusters, and what selects them.
    pub clusters: Clusters,
    /// The copies of Secrets and ConfigMaps in the namespaces of clusters.
    pub copies: Copies,
    /// The Contents that this controller has written.
    pub contents: Contents,
    /// The accounts of agents, if this process maintains them.
    pub accounts: Option<Accounts>,
    /// Whether this process imports clusters.
    pub imports: bool,
    /// The tokens and requests by which agents register their clusters, if they may.
    pub registrations: Option<Registrations>,
    /// How long to wait for the report of an agent.
    pub patience: Patience,
}

/// What the bundle loop does for the agents of clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOptions {
    /// Whether this process maintains their accounts.
    pub has_accounts: bool,
    /// Whether this process imports clusters by their kubeconfigs.
    pub imports: bool,
    /// How long to wait for their reports.
    pub patience: Patience,
    /// How clusters register themselves, if this process lets them.
    pub registration: Option<RegistrationOptions>,
}

/// The events of all watches.
pub struct Watches {
    /// Objects that a change affects, and how.
    pub changes: BoxStream<'static, (Work, Cause)>,
    /// Objects that a changed Secret or ConfigMap affects: the change may fix their last error.
    pub secret_changes: BoxStream<'static, Work>,
    /// A change that affects every HelmOp.
    pub all_helmops: BoxStream<'static, ()>,
    /// Each one resolves when a watch that fills no store is synced. A change of an object read before that could be missed.
    pub initial_sync: Vec<oneshot::Receiver<()>>,
}

impl Stores {
    /// Empty caches, which the watches fill as far as the budget allows. `delivery`: what the bundle loop does for agents, if it is
    /// enabled.
    pub fn new(delivery: Option<AgentOptions>, budget: StoreBudget) -> Self {
        let new_delivery = |agents: AgentOptions| DeliveryStores {
            clusters: Clusters::new(),
            copies: Copies::default(),
            contents: Contents::default(),
            accounts: agents.has_accounts.then(Accounts::default),
            imports: agents.imports,
            registrations: agents.registration.map(Registrations::new),
            patience: agents.patience,
        };
        Self {
            helmops: ObjectCache::new(),
            bundles: ObjectCache::new(),
            deployments: Deployments::new(),
            rancher_ca: RancherCa::default(),
            policies: PolicyCache::default(),
            delivery: delivery.map(new_delivery),
            budget,
            lists: Lists::default(),
        }
    }

    /// Waits until all watches have completed their first list, or their resources are known not to exist.
    pub async fn wait_until_filled(&self) {
        self.helmops.wait_until_synced().await;
        self.bundles.wait_until_synced().await;
        self.deployments.wait_until_synced().await;
        self.rancher_ca.wait_until_synced().await;
        self.policies.wait_until_synced().await;
        if let Some(delivery) = &self.delivery {
            delivery.clusters.wait_until_synced().await;
            delivery.copies.wait_until_synced().await;
            delivery.contents.wait_until_synced().await;
            if let Some(accounts) = &delivery.accounts {
                accounts.wait_until_synced().await;
            }
            if let Some(registrations) = &delivery.registrations {
                registrations.wait_until_synced().await;
            }
        }
    }
}

/// Starts the watches of all resources in the scope.
pub fn watch(client: &Client, scope: &Scope, stores: &Stores) -> Watches {
    let requested = helmops(client, scope, stores).boxed();
    let requested = stream::select(requested, policies::watch(client, scope, stores));
    let mut observed = vec![deployments(client, scope, stores)];
    let delivers = stores.delivery.is_some();
    let mut initial_sync = Vec::new();
    let mut synced = || {
        let (sender, receiver) = oneshot::channel();
        initial_sync.push(receiver);
        sender
    };
    let mut secret_changes = Vec::new();
    for (_, api) in scope.apis(client) {
        let bundles = delivers.then(|| stores.bundles.clone());
        let (helmops, policies) = (stores.helmops.clone(), stores.policies.clone());
        let imports = stores.delivery.as_ref().filter(|delivery| delivery.imports);
        let clusters = imports.map(|delivery| delivery.clusters.all.clone());
        let named = sources::Named {
            helmops,
            policies,
            bundles,
            clusters,
        };
        secret_changes.push(sources::of_secrets(api, synced(), named).boxed());
    }
    if let Some(delivery) = &stores.delivery {
        let of_clusters = clusters::watch(client, stores, &delivery.clusters);
        // Clusters and Schedules are not sharded: the default shard reconciles all of them.
        let is_default_shard = scope.shard.is_empty();
        let is_ours = move |work: &Work| {
            ready(is_default_shard || !matches!(work, Work::Cluster(_) | Work::Schedule(_)))
        };
        let (imports, all) = (delivery.imports, delivery.clusters.all.clone());
        let with_imports = move |work: Work| {
            let import = match &work {
                Work::Cluster(key) if imports && is_imported(all.get(key).as_deref()) => {
                    Some(Work::Import(key.clone()))
                }
                _ => None,
            };
            stream::iter([work].into_iter().chain(import))
        };
        observed.push(of_clusters.filter(is_ours).flat_map(with_imports).boxed());
        observed.push(copies::<Secret>(client, stores, delivery, CopyKind::Secret));
        observed.push(copies::<ConfigMap>(client, stores, delivery, CopyKind::ConfigMap));
        let (helmops, bundles) = (stores.helmops.clone(), stores.bundles.clone());
        let config_maps = sources::of_config_maps(Api::all(client.clone()), synced(), helmops, bundles);
        secret_changes.push(config_maps.boxed());
        let of_contents = delivery.contents.watch(client, &stores.bundles);
        // The default shard deletes those of all shards.
        let is_ours = move |work: &Work| ready(is_default_shard || !matches!(work, Work::Contents));
        observed.push(of_contents.filter(is_ours).boxed());
        if let Some(accounts) = &delivery.accounts {
            observed.push(accounts.watch(client).map(Work::Cluster).boxed());
        }
        if let Some(registrations) = &delivery.registrations {
            observed.push(registrations.watch(client, &stores.budget));
        }
    }
    Watches {
        changes: stream::select_all([
            requested.map(|work| (work, Cause::Request)).boxed(),
            bundles(client, scope, stores).boxed(),
            stream::select_all(observed)
                .map(|work| (work, Cause::State))
                .boxed(),
        ])
        .boxed(),
        secret_changes: stream::select_all(secret_changes).boxed(),
        all_helmops: rancher_ca::watch(client, scope, &stores.rancher_ca).boxed(),
        initial_sync,
    }
}

/// Whether a Cluster has a kubeconfig, or has had one: then its condition is removed. Or it is gone: then what is remembered of its import is
/// dropped.
fn is_imported(cluster: Option<&Decoded<Cluster>>) -> bool {
    let cluster = cluster.and_then(Decoded::valid);
    cluster.is_none_or(|cluster| {
        let condition = Condition::find(&cluster.status.conditions, ConditionType::Imported.as_str());
        !cluster.spec.kube_config_secret.is_empty() || condition.is_some()
    })
}

/// Fills a cache from watches, and returns the changes.
fn changes<K>(
    cache: &ObjectCache<Decoded<K>>,
    watches: WatchesOf<Decoded<K>>,
) -> impl Stream<Item = Change<Arc<Decoded<K>>>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let watches = watches.into_iter();
    let watches = watches.map(|(namespace, events)| (namespace, without_errors(&K::kind(&()), events)));
    cache
        .follow(watches.collect(), |object| Some(Arc::new(object)))
        .flat_map(stream::iter)
}

/// A changed HelmOp enqueues itself.
fn helmops(client: &Client, scope: &Scope, stores: &Stores) -> impl Stream<Item = Work> + Send + use<> {
    let config = scope.watch_config();
    let watches = scope.watches(client, |api| {
        let lists = stores.lists.helmops.clone();
        budgeted(api, config.clone(), &stores.budget, shorten).inspect(move |event| lists.observe(event))
    });
    changes(&stores.helmops, watches)
        .filter(|change| ready(is_relevant(change)))
        .map(|change| Work::HelmOp(named(&change.name)))
}

/// A changed Bundle enqueues the HelmOp with the same name, and the Bundle itself if the bundle loop is enabled.
fn bundles(
    client: &Client,
    scope: &Scope,
    stores: &Stores,
) -> impl Stream<Item = (Work, Cause)> + Send + use<> {
    let delivers = stores.delivery.is_some();
    let config = if delivers {
        scope.watch_config()
    } else {
        of_helmops()
    };
    let watches = scope.watches(client, |api| {
        let lists = stores.lists.bundles.clone();
        budgeted(api, config.clone(), &stores.budget, shorten).inspect(move |event| lists.observe(event))
    });
    let helmops = stores.helmops.clone();
    changes(&stores.bundles, watches).flat_map(move |change| {
        let helmop = named(&change.name);
        let helmop = helmops.get(&helmop).map(|_| (Work::HelmOp(helmop), Cause::State));
        let is_due = delivers && is_relevant(&change);
        let bundle = is_due.then(|| (Work::Bundle(named(&change.name)), Cause::Request));
        stream::iter(helmop.into_iter().chain(bundle))
    })
}

fn of_helmops() -> watcher::Config {
    watcher::Config::default().labels(labels::HELM_NAME)
}

/// The key of the HelmOp of a Bundle, or of the Bundle of a HelmOp: both have the same name.
pub fn same_name_as<K: Lookup<DynamicType = ()>, O: Lookup<DynamicType = ()>>(
    object: &ObjectRef<K>,
) -> ObjectRef<O> {
    key(object.namespace.as_deref().unwrap_or_default(), &object.name)
}

/// The key of an object.
fn named<K: Lookup<DynamicType = ()>>(name: &NamespacedName) -> ObjectRef<K> {
    key(&name.namespace, &name.name)
}

/// BundleDeployments are in the namespaces of clusters, so they are watched only if the scope is the whole cluster.
fn deployments(client: &Client, scope: &Scope, stores: &Stores) -> BoxStream<'static, Work> {
    if !scope.is_cluster_wide() {
        stores.deployments.mark_absent();
        return stream::pending().boxed();
    }
    let delivers = stores.delivery.is_some();
    let config = if delivers {
        watcher::Config::default()
    } else {
        of_helmops()
    };
    // Without the bundle loop, the states of the deployments are enough.
    let pool = stores.deployments.options.clone();
    let kept = move |deployment: &mut Decoded<BundleDeployment>| {
        if delivers {
            shorten(deployment);
            pool.share_decoded(deployment);
        } else {
            slim(deployment);
        }
    };
    let api = Api::all(client.clone());
    let events = budgeted(api, config, &stores.budget, kept);
    let lists = stores.lists.deployments.clone();
    let events = events.inspect(move |event| lists.observe(event));
    let (helmops, bundles) = (stores.helmops.clone(), stores.bundles.clone());
    let shard = scope.shard.clone();
    let affected = stores.deployments.follow(events);
    affected
        .flat_map(move |affected| {
            let Affected {
                helmop,
                bundle,
                cluster,
                shard: shard_label,
            } = affected;
            let helmop = helmop
                .filter(|helmop| helmops.get(helmop).is_some())
                .map(Work::HelmOp);
            // Deployments of a Bundle that was moved to this shard still have the label of the previous shard.
            let is_here = |bundle: &BundleKey| shard_label == shard || bundles.get(bundle).is_some();
            let bundle = bundle
                .filter(|bundle| delivers && is_here(bundle))
                .map(Work::Bundle);
            // Clusters are not sharded: the default shard reconciles all of them.
            let cluster = cluster
                .filter(|_| delivers && shard.is_empty())
                .map(Work::Cluster);
            stream::iter([bundle, helmop, cluster].into_iter().flatten())
        })
        .boxed()
}

/// Watches the copies of a kind that this controller created.
fn copies<K>(
    client: &Client,
    stores: &Stores,
    delivery: &DeliveryStores,
    kind: CopyKind,
) -> BoxStream<'static, Work>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let api = Api::<MetadataWithManagers<K>>::all(helmops_kube::with_managers(client));
    let events = helmops_kube::watch(api, watcher::Config::default().labels(labels::COPY_TYPE));
    let bundles = stores.bundles.clone();
    let (clusters, copies) = (delivery.clusters.clone(), delivery.copies.clone());
    let affected = async move {
        // First it must be known which namespaces belong to Clusters.
        clusters.wait_until_synced().await;
        copies.follow(kind, events, move |namespace| {
            clusters.is_cluster_namespace(namespace)
        })
    };
    affected
        .into_stream()
        .flatten()
        .filter(move |bundle| ready(bundles.get(bundle).is_some()))
        .map(Work::Bundle)
        .boxed()
}

//! What enqueues BundleDeployments, and the workqueue.
//!
//! | change of | enqueues |
//! |---|---|
//! | a BundleDeployment | itself, unless only its status has changed; those that depend on it, if its state or labels have changed; those with an expression about it |
//! | a record of a release | the BundleDeployment of the release |
//! | a live object of a release | the BundleDeployment that its label names |
//! | a ConfigMap or Secret with values | the BundleDeployments that refer to it |
//! | an object that has to be ready first | the BundleDeployments that wait for it |
//! | a CRD | BundleDeployments whose releases have objects of its group |
//! | nothing: garbage collection | BundleDeployments that do not exist, and have a release |

use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::{BundleDeployment, Decoded, MetadataOnly, labels};
use helmops_kube::{Change, identity, watch};
use helmops_model::deployment_state::DeploymentState;
use helmops_release::{
    dependencies,
    names::RecordsKey,
    record::{SECRET_SELECTOR, SECRET_TYPE},
};
use helmops_runtime::{
    health_signals::HealthSignals,
    queue::{self, QueueKey, RequeueAfter, Trigger},
    reconciler,
    workers::{WorkerPermit, Workers},
};
use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Resource, core::ObjectMeta, runtime::watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    collect,
    context::{Context, Key},
    live,
    reconcile::BundleDeploymentReconciler,
};

/// Changes of an object that arrive within this time cause one reconciliation.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How many changes of live objects wait for the workqueue; more of them delay their watches.
const PENDING_CHANGES: usize = 256;

/// An item of the workqueue.
#[derive(Clone, Debug)]
struct Item {
    key: Key,
    /// Whose share of the workers its reconciliation uses: that of the namespace of the Bundle. A BundleDeployment of which that is not known,
    /// such as one that is deleted, has a share of its own.
    tenant: Arc<str>,
}

impl Item {
    fn of(key: Key, context: &Context) -> Self {
        let deployment = context.deployments.get(&key);
        let tenant = deployment
            .as_ref()
            .and_then(|deployment| labels::of(deployment.meta(), labels::BUNDLE_NAMESPACE));
        let tenant = Arc::from(tenant.unwrap_or(&key.name));
        Self { key, tenant }
    }
}

/// Each BundleDeployment is in the queue once.
impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Item {}

impl Hash for Item {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl QueueKey for Item {
    fn namespace(&self) -> &str {
        &self.tenant
    }
}

/// Reconciles changed objects until `stop`, and then finishes what is in progress.
pub async fn run(
    context: Arc<Context>,
    collection_interval: Duration,
    signals: HealthSignals,
    workers: Workers,
    stop: CancellationToken,
) {
    let (orphan_sender, orphans) = mpsc::channel(PENDING_CHANGES);
    let (live_sender, live_changes) = mpsc::channel(PENDING_CHANGES);
    let (input_sender, input_changes) = mpsc::channel(PENDING_CHANGES);
    let live_owners = receive(live_changes).filter_map({
        let context = Arc::clone(&context);
        move |set: String| std::future::ready(context.rules.deployment(&set))
    });
    let named = stream::select_all([
        live_owners.boxed(),
        receive(orphans).boxed(),
        receive(input_changes).boxed(),
    ])
    .map({
        let context = Arc::clone(&context);
        move |name: String| context.key(&name)
    });
    let keys = stream::select_all([
        deployments(&context).boxed(),
        records(&context).boxed(),
        crds(&context).boxed(),
        named.boxed(),
    ]);
    let startup = async {
        context.deployments.wait_until_synced().await;
        context.records.wait_until_synced().await;
        tracing::info!(bundledeployments = context.deployments.len(), "caches synced");
        signals.caches_synced();
        workers.open();
        if workers.until_leading().await.is_ok() {
            collect::run(&context, orphan_sender, collection_interval, stop.clone()).await;
        }
        std::future::pending::<()>().await;
    };
    let depth = &context.metrics.reconciles.queue_depth;
    let work = queue::run(
        keys.map(|key| Trigger {
            key: Item::of(key, &context),
            debounce: DEBOUNCE,
        }),
        &workers,
        depth,
        &stop,
        |item, permit| reconcile(item, permit, Arc::clone(&context)),
    );
    tokio::select! {
        () = work => {}
        () = startup => {}
        // In the same task as the loops, so that it stops if they hang.
        () = signals.beat() => {}
        () = context.live.run(live_sender) => {}
        () = context.sources.run(input_sender.clone()) => {}
        () = context.awaited.run(input_sender) => {}
        () = context.reports.follow(context.leadership.clone()) => {}
    }
}

async fn reconcile(Item { key, .. }: Item, permit: WorkerPermit, context: Arc<Context>) -> RequeueAfter {
    reconciler::reconcile(&BundleDeploymentReconciler(&context), &key, permit).await
}

fn receive(mut receiver: mpsc::Receiver<String>) -> impl Stream<Item = String> + Send {
    stream::poll_fn(move |context| receiver.poll_recv(context))
}

type DeploymentChange = Change<Arc<Decoded<BundleDeployment>>>;

/// The BundleDeployments that a change of one concerns.
fn deployments(context: &Arc<Context>) -> impl Stream<Item = Key> + Send + use<> {
    let api =
        Api::<Decoded<BundleDeployment>>::namespaced(context.upstream.clone(), &context.deployment_namespace);
    let events = watch(api, watcher::Config::default());
    let context = Arc::clone(context);
    context
        .deployments
        .follow(vec![(None, events)], |deployment| Some(Arc::new(deployment)))
        .flat_map(stream::iter)
        .flat_map(move |change| {
            let name = &change.name.name;
            context.running.changed(name, change.after.as_deref());
            if context.rules.changed(name, change.after.as_deref()) {
                context.live.refresh(name);
            }
            context.sources.changed(name, change.after.as_deref());
            context
                .metrics
                .changed(change.before.as_deref(), change.after.as_deref());
            stream::iter(affected(&context, &change))
        })
}

fn affected(context: &Context, change: &DeploymentChange) -> Vec<Key> {
    let mut keys = Vec::new();
    if is_relevant(change) {
        keys.push(context.key(&change.name.name));
    }
    let of_change = [&change.before, &change.after].into_iter().flatten();
    let changed: Vec<&BundleDeployment> = of_change.filter_map(|deployment| deployment.valid()).collect();
    let is_for_others = is_relevant_for_others(change);
    let candidates: BTreeSet<_> = context.deployments.read(|_, related| {
        let candidates = changed.iter().flat_map(|changed| related.candidates(changed));
        candidates.cloned().collect()
    });
    let depends = |deployment: &BundleDeployment| {
        changed.iter().any(|changed| {
            dependencies::evaluates(deployment, changed)
                || (is_for_others && dependencies::depends_on(deployment, changed))
        })
    };
    let dependents = candidates.iter().filter(|name| {
        let candidate = context.deployments.value(name);
        candidate.is_some_and(|candidate| candidate.valid().is_some_and(&depends))
    });
    keys.extend(dependents.map(|dependent| context.key(&dependent.name)));
    keys
}

/// Whether a change is one of the BundleDeployment itself. The agent writes its status, and the controller `status.display`.
fn is_relevant(change: &DeploymentChange) -> bool {
    change.differs(|deployment| {
        let metadata = deployment.meta();
        (identity(metadata), &metadata.labels, &metadata.annotations)
    })
}

/// Whether a change may concern those that depend on the BundleDeployment.
fn is_relevant_for_others(change: &DeploymentChange) -> bool {
    let of = |deployment: &Option<Arc<Decoded<BundleDeployment>>>| {
        let deployment = deployment.as_deref()?.valid()?;
        Some((
            DeploymentState::of(deployment),
            deployment.metadata.labels.clone(),
        ))
    };
    of(&change.before) != of(&change.after)
}

/// The BundleDeployments whose releases' records change.
fn records(context: &Arc<Context>) -> impl Stream<Item = Key> + Send + use<> {
    let config = watcher::Config::default()
        .labels(SECRET_SELECTOR)
        .fields(&format!("type={SECRET_TYPE}"));
    let watches = if context.release_namespaces.is_empty() {
        vec![(None, Api::<MetadataOnly<Secret>>::all(context.downstream.clone()))]
    } else {
        let api = |namespace: &String| {
            let api = Api::<MetadataOnly<Secret>>::namespaced(context.downstream.clone(), namespace);
            (Some(namespace.clone()), api)
        };
        context.release_namespaces.iter().map(api).collect()
    };
    let watches = watches
        .into_iter()
        .map(|(namespace, api)| (namespace, watch(api, config.clone())));
    let changes = context.records.follow(watches.collect());
    let context = Arc::clone(context);
    changes.flat_map(move |records| stream::iter(of_records(&context, &records)))
}

/// The BundleDeployments whose releases have objects of the groups of CRDs that change. An agent with permissions in some namespaces only does
/// not see CRDs: it looks for their kinds from time to time.
fn crds(context: &Arc<Context>) -> BoxStream<'static, Key> {
    if !context.release_namespaces.is_empty() {
        return stream::pending().boxed();
    }
    let api = Api::<MetadataOnly<CustomResourceDefinition>>::all(context.downstream.clone());
    let context = Arc::clone(context);
    let releases = watch(api, watcher::Config::default()).flat_map(move |event| {
        let releases = match event {
            watcher::Event::Apply(crd) | watcher::Event::Delete(crd) => of_crd(&context, &crd.metadata),
            watcher::Event::InitDone => {
                context.kinds.forget_all();
                Vec::new()
            }
            watcher::Event::Init | watcher::Event::InitApply(_) => Vec::new(),
        };
        stream::iter(releases)
    });
    releases.boxed()
}

fn of_crd(context: &Context, crd: &ObjectMeta) -> Vec<Key> {
    let group = live::group_of_crd(crd.name.as_deref().unwrap_or_default());
    let mut releases = BTreeSet::from_iter(context.kinds.changed(group));
    releases.extend(context.live.group_changed(group));
    let keys = releases.iter().map(|release| context.key(release));
    keys.collect()
}

fn of_records(context: &Context, records: &RecordsKey) -> Vec<Key> {
    context.deployments.read(|_, related| {
        let names = related.of_records(records);
        names.map(|name| context.key(&name.name)).collect()
    })
}

//! The loop itself: watches, and what they set going.

use std::{future::ready, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use helmops_shared::{
    api::{Bundle, Guarded, HelmOp},
    runtime::{Gate, cluster::KnownPolicies},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Action},
        predicates,
        reflector::{self, ObjectRef, Store, store::Writer},
        utils::{Predicate, PredicateConfig},
        watcher,
    },
};
use tokio_util::sync::CancellationToken;

use super::reconcile;
use crate::{
    context::Context,
    error::ReconcileError,
    policies,
    rancher_ca::{self, RancherCa},
};

/// Changes that arrive together are worked on together.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// Objects per page of a list: bounds the memory of an answer.
const PAGE: u32 = 500;

/// What the loop has seen, as it was last.
#[derive(Clone)]
pub struct Stores {
    /// The HelmOps.
    pub helmops: Store<Guarded<HelmOp>>,
    /// The Bundles.
    pub bundles: Store<Guarded<Bundle>>,
    /// What Rancher trusts.
    pub rancher_ca: RancherCa,
    /// What HelmOps may use.
    pub policies: KnownPolicies,
}

/// What fills the stores: the watches hold it.
pub struct Writers {
    helmops: Writer<Guarded<HelmOp>>,
    bundles: Writer<Guarded<Bundle>>,
    rancher_ca: [Writer<Secret>; 2],
}

/// Empty stores.
pub fn stores() -> (Stores, Writers) {
    let (helmops, helmop_writer) = reflector::store();
    let (bundles, bundle_writer) = reflector::store();
    let (rancher_ca, rancher_ca_writers) = RancherCa::new();
    let stores = Stores {
        helmops,
        bundles,
        rancher_ca,
        policies: KnownPolicies::default(),
    };
    let writers = Writers {
        helmops: helmop_writer,
        bundles: bundle_writer,
        rancher_ca: rancher_ca_writers,
    };
    (stores, writers)
}

/// Works on HelmOps until it is told to stop, and then finishes those under way. `synced` opens when everything has been
/// seen once.
pub async fn run(context: Arc<Context>, writers: Writers, synced: Gate, stop: CancellationToken) {
    let client = context.client.clone();
    let Stores {
        helmops,
        bundles,
        rancher_ca,
        policies,
    } = context.stores.clone();
    let changes = watched(&client, writers.helmops)
        .applied_objects()
        // Our own status writes are no news.
        .predicate_filter(
            predicates::generation.combine(predicates::finalizers),
            PredicateConfig::default(),
        );
    let known = helmops.clone();
    let bundle_changes = shielded(watched(&client, writers.bundles).touched_objects());
    let ca_changes = rancher_ca::watch(&client, writers.rancher_ca);
    let policy_changes = policies::watch(&client, &policies, helmops.clone());
    let ready_stores = async {
        // They fail only where the loop has ended already.
        rancher_ca.wait_until_ready().await;
        policies.wait_until_known().await;
        if bundles.wait_until_ready().await.is_ok() && helmops.wait_until_ready().await.is_ok() {
            tracing::info!(
                helmops = helmops.len(),
                bundles = bundles.len(),
                "caches are filled"
            );
            synced.open();
        }
        std::future::pending::<()>().await;
    };
    let work = Controller::for_stream(changes, helmops.clone())
        .with_config(
            controller::Config::default()
                // Workers are counted by the reconciler, who knows when one merely waits.
                .concurrency(0)
                .debounce(DEBOUNCE),
        )
        .watches_stream(bundle_changes, move |bundle| owner(&known, &bundle))
        .reconcile_all_on(ca_changes)
        .reconcile_on(policy_changes)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(
            reconcile,
            |object, error, context| retry(&object, error, &context),
            Arc::clone(&context),
        )
        .for_each(|result| {
            note(&context, result);
            ready(())
        });
    tokio::select! {
        () = work => {}
        () = ready_stores => {}
    }
}

/// Watches all objects of a kind and keeps them.
fn watched<K>(
    client: &Client,
    writer: Writer<Guarded<K>>,
) -> impl Stream<Item = watcher::Result<watcher::Event<Guarded<K>>>> + use<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let api = Api::<Guarded<K>>::all(client.clone());
    watcher(api, watcher::Config::default().page_size(PAGE))
        .default_backoff()
        .reflect(writer)
}

/// Keeps the failures of a watch to itself: they would slow the work on everything else down.
fn shielded<K: Resource<DynamicType = ()>>(
    changes: impl Stream<Item = watcher::Result<K>>,
) -> impl Stream<Item = watcher::Result<K>> {
    changes.filter_map(|change| {
        ready(match change {
            Ok(object) => Some(Ok(object)),
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "watch failed and is begun anew");
                None
            }
        })
    })
}

/// The HelmOp that a Bundle concerns: the one of its name, whether the Bundle is made from it or in its way.
fn owner(known: &Store<Guarded<HelmOp>>, bundle: &Guarded<Bundle>) -> Option<ObjectRef<Guarded<HelmOp>>> {
    let namespace = bundle.namespace()?;
    let helmop = ObjectRef::new(&bundle.name_any()).within(&namespace);
    known.get(&helmop).map(|_| helmop)
}

/// When to try again after a failure.
fn retry(object: &Guarded<HelmOp>, error: &ReconcileError, context: &Context) -> Action {
    let key = ObjectRef::from_obj(object);
    if let Some(pace) = error.pace() {
        Action::requeue(context.backoff.failed(key, object.meta().generation, pace))
    } else {
        context.backoff.forget(&key);
        Action::await_change()
    }
}

type Reconciled =
    Result<(ObjectRef<Guarded<HelmOp>>, Action), controller::Error<ReconcileError, watcher::Error>>;

fn note(context: &Context, result: Reconciled) {
    match result {
        Ok(_) => {}
        // It is gone, and its failures with it.
        Err(controller::Error::ObjectNotFound(object)) => {
            if let Some(namespace) = object.namespace {
                context
                    .backoff
                    .forget(&ObjectRef::new(&object.name).within(&namespace));
            }
        }
        Err(controller::Error::ReconcilerFailed(error, object)) if error.is_passing() => {
            tracing::debug!(helmop = %object, %error, "not done; it is looked at again");
        }
        Err(controller::Error::ReconcilerFailed(error, object)) => {
            tracing::warn!(helmop = %object, reason = error.reason().as_str(), %error, "not done; it is tried again");
        }
        Err(error) => tracing::warn!(%error, "watch of HelmOps failed and is begun anew"),
    }
}

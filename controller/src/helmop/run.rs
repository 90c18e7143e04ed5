//! The loop itself: what the watches tell of, and what is made of it.

use std::{future::ready, sync::Arc, time::Duration};

use futures::StreamExt;
use helmops_shared::{
    api::{Guarded, HelmOp},
    runtime::{Gate, Health, Heartbeat},
};
use kube::{
    Resource,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Action},
        reflector::ObjectRef,
        utils::PredicateConfig,
        watcher,
    },
};
use tokio_util::sync::CancellationToken;

use super::reconcile;
use crate::{
    context::{Asked, Context},
    error::ReconcileError,
    watch::{self, Key, Writers, is_news},
};

/// Changes that arrive together are worked on together.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// How often the loop says that it is alive.
const BEAT: Duration = Duration::from_secs(5);
/// Whoever says nothing for so long hangs, however slow the machine is.
const SILENCE: Duration = Duration::from_mins(1);

/// What the loop tells of itself.
#[derive(Debug)]
pub struct Signs {
    /// Opens when everything has been seen once.
    synced: Gate,
    /// Beaten while the loop goes round.
    heartbeat: Heartbeat,
}

impl Signs {
    /// The process is not ready before the loop is, and not alive without it.
    pub fn new(health: &Health) -> Self {
        Self {
            synced: health.gate("caches"),
            heartbeat: health.heartbeat("helmop loop", SILENCE),
        }
    }
}

/// Works on HelmOps until it is told to stop, and then finishes those under way.
pub async fn run(
    context: Arc<Context>,
    writers: Writers,
    Signs { synced, heartbeat }: Signs,
    stop: CancellationToken,
) {
    let watches = watch::watch(&context.client, &context.scope, &context.stores, writers);
    let changes = watches
        .helmops
        .predicate_filter(is_news, PredicateConfig::default());
    let mending = Arc::clone(&context);
    let mended = watches
        .mended
        .inspect(move |helmop| mending.backoff.forget(helmop));
    let clearing = Arc::clone(&context);
    let all = watches.all.inspect(move |()| clearing.backoff.forget_all());
    let opening = async {
        context.stores.wait_until_filled().await;
        tracing::info!(
            helmops = context.stores.helmops.len(),
            bundles = context.stores.bundles.len(),
            "caches are filled"
        );
        context.workers.open();
        synced.open();
        std::future::pending::<()>().await;
    };
    let work = Controller::for_stream(changes, context.stores.helmops.clone())
        .with_config(
            controller::Config::default()
                // Workers are counted by the reconciler, who knows when one merely waits.
                .concurrency(0)
                .debounce(DEBOUNCE),
        )
        .reconcile_on(watches.concerned)
        .reconcile_on(mended)
        .reconcile_all_on(all)
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
    // In the same task as the work, so that it falls silent with it.
    let beating = async {
        loop {
            heartbeat.beat();
            tokio::time::sleep(BEAT).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = opening => {}
        () = beating => {}
    }
}

/// When to try again after a failure.
fn retry(object: &Guarded<HelmOp>, error: &ReconcileError, context: &Context) -> Action {
    let key = ObjectRef::from_obj(object);
    if let Some(pace) = error.pace() {
        let asked = Asked::of_metadata(object.meta());
        Action::requeue(context.backoff.failed(key, asked, pace))
    } else {
        context.backoff.forget(&key);
        Action::await_change()
    }
}

type Reconciled = Result<(Key, Action), controller::Error<ReconcileError, watcher::Error>>;

fn note(context: &Context, result: Reconciled) {
    match result {
        Ok(_) => {}
        // It is gone, and its failures with it.
        Err(controller::Error::ObjectNotFound(object)) => {
            if let Some(namespace) = object.namespace {
                let helmop = watch::key(&namespace, &object.name);
                context.backoff.forget(&helmop);
                context.written.forget(&helmop);
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

//! The reconciliation loops: connects the watches, the workqueue and the reconcilers.

use std::sync::Arc;

use futures::{StreamExt, future::join_all, stream};
use helmops_runtime::{
    health_signals::HealthSignals,
    queue::{self, RequeueAfter, Trigger},
    reconciler,
    workers::WorkerPermit,
};
use tokio_util::sync::CancellationToken;

use crate::{
    bundle::Bundles,
    cluster::Clusters,
    content,
    context::Context,
    debounce,
    helmop::{self, HelmOps},
    import::Imports,
    registration::{self, Tokens},
    schedule::Schedules,
    watch,
    work::{Cause, Work},
};

/// Reconciles changed objects until `stop`, and then finishes what is in progress.
pub async fn run(context: Arc<Context>, signals: HealthSignals, stop: CancellationToken) {
    let watches = watch::watch(&context.client, &context.scope, &context.stores);
    let requested = |work| (work, Cause::Request);
    let secret_changes = watches
        .secret_changes
        .inspect(|work| forget_failures(work, &context))
        .map(requested);
    let all_helmops = watches.all_helmops.flat_map(|()| {
        context.retries.helmops.forget_all();
        let helmops = context.stores.helmops.matching(|_| true);
        stream::iter(helmops.into_iter().map(Work::HelmOp)).map(requested)
    });
    let triggers = stream::select_all([watches.changes, secret_changes.boxed(), all_helmops.boxed()]);
    let startup = async {
        context.stores.wait_until_filled().await;
        join_all(watches.initial_sync).await;
        tracing::info!(
            helmops = context.stores.helmops.len(),
            bundles = context.stores.bundles.len(),
            "caches synced"
        );
        signals.caches_synced();
        // Not earlier: while this replica is on standby, HelmOps are created and deleted.
        if context.workers.until_leading().await.is_ok() {
            helmop::prepare(&context).await;
        }
        context.workers.open();
        std::future::pending::<()>().await;
    };
    let depth = &context.metrics.reconciles.queue_depth;
    let triggers = triggers.map(|(work, cause)| Trigger {
        debounce: debounce::of(&work, cause, &context.stores),
        key: work,
    });
    let work = queue::run(triggers, &context.workers, depth, &stop, |work, permit| {
        reconcile(work, permit, Arc::clone(&context))
    });
    tokio::select! {
        () = work => {}
        () = startup => {}
        // In the same task as the loops, so that it stops if they hang.
        () = signals.beat() => {}
    }
}

/// Resets the backoff, because the cause of the last error may be fixed. Requests to repositories are still limited by
/// `RateLimit`.
fn forget_failures(work: &Work, context: &Context) {
    match work {
        Work::HelmOp(key) => context.retries.helmops.forget(key),
        Work::Bundle(key) => context.retries.bundles.forget(key),
        Work::Cluster(key) => context.retries.clusters.forget(key),
        Work::Import(key) => {
            context.retries.imports.forget(key);
            if let Some(importing) = &context.importing {
                importing.forget(key);
            }
        }
        Work::Schedule(key) => context.retries.schedules.forget(key),
        Work::Token(key) => context.retries.tokens.forget(key),
        Work::Registrations(workspace) => context.retries.registrations.forget(workspace),
        Work::Contents => {}
    }
}

/// Dispatches an object to the reconciler of its kind.
async fn reconcile(work: Work, permit: WorkerPermit, context: Arc<Context>) -> RequeueAfter {
    let context = &*context;
    match (work, &context.stores.delivery) {
        (Work::HelmOp(key), _) => reconciler::reconcile(&HelmOps { context }, &key, permit).await,
        (Work::Bundle(key), Some(stores)) => {
            reconciler::reconcile(&Bundles { context, stores }, &key, permit).await
        }
        (Work::Cluster(key), Some(stores)) => {
            reconciler::reconcile(&Clusters { context, stores }, &key, permit).await
        }
        (Work::Import(key), Some(stores)) => match &context.importing {
            Some(importing) => {
                let imports = Imports {
                    context,
                    stores,
                    importing,
                };
                reconciler::reconcile(&imports, &key, permit).await
            }
            None => None,
        },
        (Work::Schedule(key), Some(stores)) => {
            reconciler::reconcile(&Schedules { context, stores }, &key, permit).await
        }
        (Work::Token(key), Some(stores)) => match &stores.registrations {
            Some(registrations) => {
                let tokens = Tokens {
                    context,
                    stores,
                    registrations,
                };
                reconciler::reconcile(&tokens, &key, permit).await
            }
            None => None,
        },
        (Work::Registrations(workspace), Some(stores)) => match &stores.registrations {
            Some(registrations) => {
                Box::pin(registration::reconcile(context, stores, registrations, workspace)).await
            }
            None => None,
        },
        (Work::Contents, Some(stores)) => Some(Box::pin(content::collect(context, stores)).await),
        (
            Work::Bundle(_)
            | Work::Cluster(_)
            | Work::Import(_)
            | Work::Schedule(_)
            | Work::Token(_)
            | Work::Registrations(_)
            | Work::Contents,
            None,
        ) => None,
    }
}

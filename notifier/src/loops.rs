//! The reconciliation loops: connects the watches, the workqueue and the reconcilers.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use helmops_kube::name_of;
use helmops_runtime::{
    health_signals::HealthSignals,
    queue::{self, RequeueAfter, Trigger},
    reconciler,
    workers::WorkerPermit,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    alert::{self, Alerts},
    context::Context,
    failures::Subject,
    provider::Providers,
    receiver::Receivers,
    watch,
    work::Work,
};

/// The debounce: changes that arrive within this time cause one reconciliation.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The debounce of an Alert: it compares all objects that it selects, and has a message after the other.
const ALERT_DEBOUNCE: Duration = Duration::from_millis(50);

/// Reconciles changed objects until `stop`, and then finishes what is in progress.
///
/// `sent` are the objects to reconcile because a message was sent.
pub async fn run(
    context: Arc<Context>,
    mut sent: mpsc::Receiver<Work>,
    signals: HealthSignals,
    stop: CancellationToken,
) {
    let watches = watch::watch(&context.client, &context.stores, &context.privileged);
    let secret_changes = watches
        .secret_changes
        .inspect(|work| forget_published(work, &context));
    let changes = stream::select(watches.changes, secret_changes);
    let changes = changes.inspect(|work| forget_failures(work, &context));
    let sent = stream::poll_fn(|task| sent.poll_recv(task));
    let triggers = stream::select_all([changes.boxed(), watches.states, sent.boxed()]);
    let startup = async {
        context.stores.wait_until_filled().await;
        // It fails only if the watch has ended, with the process.
        let _ = watches.secrets_synced.await;
        tracing::info!(
            alerts = context.stores.alerts.len(),
            receivers = context.stores.receivers.len(),
            helmops = context.stores.objects.helmops.len(),
            "caches synced"
        );
        signals.caches_synced();
        context.workers.open();
        std::future::pending::<()>().await;
    };
    let depth = &context.metrics.reconciles.queue_depth;
    let work = queue::run(
        triggers.map(debounced),
        &context.workers,
        depth,
        &stop,
        |work, permit| reconcile(work, permit, Arc::clone(&context)),
    );
    tokio::select! {
        () = work => {}
        () = startup => {}
        // In the same task as the loops, so that it stops if they hang.
        () = signals.beat() => {}
    }
}

/// A change of an object.
pub const fn debounced(work: Work) -> Trigger<Work> {
    let debounce = match work {
        Work::Alert(_) => ALERT_DEBOUNCE,
        Work::Provider(_) | Work::Receiver(_) => DEBOUNCE,
    };
    Trigger { key: work, debounce }
}

/// Resets the backoff of an object that has changed, or whose Secret has: the cause of the last error may be fixed.
pub fn forget_failures(work: &Work, context: &Context) {
    match work {
        Work::Alert(key) => {
            context.retries.alerts.forget(key);
            alert::forget_failures(context, key);
        }
        Work::Provider(key) => {
            context.retries.providers.forget(key);
            context.failures.forget(&Subject::Provider(key.clone()));
        }
        Work::Receiver(key) => context.retries.receivers.forget(key),
    }
}

/// The Secret of an object has changed: it is read again.
fn forget_published(work: &Work, context: &Context) {
    if let Work::Receiver(key) = work {
        context.published.forget(&name_of(key));
    }
}

/// Dispatches an object to the reconciler of its kind.
pub async fn reconcile(work: Work, permit: WorkerPermit, context: Arc<Context>) -> RequeueAfter {
    let context = &*context;
    match work {
        Work::Alert(key) => reconciler::reconcile(&Alerts { context }, &key, permit).await,
        Work::Provider(key) => reconciler::reconcile(&Providers { context }, &key, permit).await,
        Work::Receiver(key) => reconciler::reconcile(&Receivers { context }, &key, permit).await,
    }
}

//! The loops: what the watches tell of, and what is made of it.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all, stream};
use helmops_shared::runtime::{Gate, Health, Heartbeat};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    bundle, cluster,
    context::Context,
    helmop,
    queue::{self, Next},
    watch::{self, Stores, Writers},
    work::Work,
    workers::WorkerPermit,
};

/// How often the loops say that they are alive.
const BEAT: Duration = Duration::from_secs(5);
/// Changes that arrive together are worked on together.
const MOMENT: Duration = Duration::from_millis(20);
/// To look at an object with deployments takes a time that grows with their number, and each of them tells of itself: so the
/// more there are, the longer their news is gathered.
const MOMENT_OF_ONE: Duration = Duration::from_millis(1);
/// Nobody waits longer for what has changed.
const LONGEST_MOMENT: Duration = Duration::from_secs(2);
/// What is told of a Cluster counts all that is deployed there.
const MOMENT_OF_CLUSTER: Duration = Duration::from_millis(250);
/// Whoever says nothing for so long hangs, however slow the machine is.
const SILENCE: Duration = Duration::from_mins(1);

/// What the loops tell of themselves.
#[derive(Debug)]
pub struct HealthSignals {
    /// Opens when everything has been seen once.
    synced: Gate,
    /// Beaten while the loops go round.
    heartbeat: Heartbeat,
}

impl HealthSignals {
    /// The process is not ready before the loops are, and not alive without them.
    pub fn new(health: &Health) -> Self {
        Self {
            synced: health.gate("caches"),
            heartbeat: health.heartbeat("loops", SILENCE),
        }
    }
}

/// Works on what changes until it is told to stop, and then finishes what is under way.
pub async fn run(
    context: Arc<Context>,
    writers: Writers,
    HealthSignals { synced, heartbeat }: HealthSignals,
    stop: CancellationToken,
) {
    let watches = watch::watch(&context.client, &context.scope, &context.stores, writers);
    let mended = watches.mended.inspect(|work| forget_failures(work, &context));
    let all = watches.all.flat_map(|()| {
        context.helmops.backoff.forget_all();
        let helmops = watch::matching(&context.stores.helmops, |_| true);
        stream::iter(helmops.into_iter().map(Work::HelmOp))
    });
    let triggers = stream::select_all([watches.changes, mended.boxed(), all.boxed()]);
    let opening = async {
        context.stores.wait_until_filled().await;
        join_all(watches.begun).await;
        tracing::info!(
            helmops = context.stores.helmops.len(),
            bundles = context.stores.bundles.len(),
            "caches synced"
        );
        synced.open();
        // Not before: while this replica stands by, HelmOps come and go.
        if context.workers.until_leading().await.is_ok() {
            helmop::prepare(&context).await;
        }
        context.workers.open();
        std::future::pending::<()>().await;
    };
    // In the same task as the work, so that it falls silent with it.
    let beating = async {
        loop {
            heartbeat.beat();
            tokio::time::sleep(BEAT).await;
        }
    };
    let depth = &context.metrics.queue_depth;
    let gather = |work: &Work| moment(work, &context.stores);
    let work = queue::run(triggers, gather, &context.workers, depth, &stop, |work, place| {
        reconcile(work, place, Arc::clone(&context))
    });
    tokio::select! {
        () = work => {}
        () = opening => {}
        () = beating => {}
    }
}

/// How long changes of an object are gathered.
fn moment(work: &Work, stores: &Stores) -> Duration {
    let deployments = match work {
        Work::HelmOp(key) => stores.deployments.number(&watch::named_alike(key)),
        Work::Bundle(key) => stores.deployments.number(key),
        Work::Cluster(_) => return MOMENT_OF_CLUSTER,
    };
    let deployments = u32::try_from(deployments).unwrap_or(u32::MAX);
    MOMENT_OF_ONE
        .saturating_mul(deployments)
        .clamp(MOMENT, LONGEST_MOMENT)
}

/// What failed may be mended: it is tried again at once. That costs no repository more than `RateLimit` allows.
fn forget_failures(work: &Work, context: &Context) {
    match work {
        Work::HelmOp(key) => context.helmops.backoff.forget(key),
        Work::Bundle(key) => context.bundles.backoff.forget(key),
        Work::Cluster(key) => context.clusters.backoff.forget(key),
    }
}

/// Gives an object to the loop of its kind.
async fn reconcile(work: Work, mut place: WorkerPermit, context: Arc<Context>) -> Next {
    let context = &*context;
    match (work, &context.stores.reach) {
        (Work::HelmOp(key), _) => helmop::reconcile(key, place, context).await,
        (Work::Bundle(key), Some(reach)) => {
            let span = tracing::error_span!("reconcile", bundle = named(&key));
            Box::pin(bundle::reconcile(&key, &mut place, reach, context).instrument(span)).await
        }
        (Work::Cluster(key), Some(reach)) => {
            let span = tracing::error_span!("reconcile", cluster = named(&key));
            Box::pin(cluster::reconcile(&key, reach, context).instrument(span)).await
        }
        (Work::Bundle(_) | Work::Cluster(_), None) => None,
    }
}

fn named<K: kube::runtime::reflector::Lookup>(key: &kube::runtime::reflector::ObjectRef<K>) -> String {
    format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name)
}

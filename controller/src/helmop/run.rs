//! The loop itself: what the watches tell of, and what is made of it.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use helmops_shared::runtime::{Gate, Health, Heartbeat};
use tokio_util::sync::CancellationToken;

use super::reconcile;
use crate::{
    context::Context,
    queue,
    watch::{self, Writers},
};

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
    let mended = watches.mended.inspect(|helmop| context.backoff.forget(helmop));
    let all = watches.all.flat_map(|()| {
        context.backoff.forget_all();
        stream::iter(watch::matching(&context.stores.helmops, |_| true))
    });
    let triggers = stream::select_all([watches.helmops, watches.concerned, mended.boxed(), all.boxed()]);
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
    // In the same task as the work, so that it falls silent with it.
    let beating = async {
        loop {
            heartbeat.beat();
            tokio::time::sleep(BEAT).await;
        }
    };
    let depth = &context.metrics.waiting;
    let work = queue::run(triggers, &context.workers, depth, &stop, |key, place| {
        reconcile(key, place, &context)
    });
    tokio::select! {
        () = work => {}
        () = opening => {}
        () = beating => {}
    }
}

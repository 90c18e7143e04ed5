//! The bundle loop: deploys each Bundle to its clusters.
//!
//! ```text
//! observe ─► targets ─► sources ─► check ─► plan ─► deliver, each cluster by itself ─► prune ─► update the status
//! (caches)   which      what is    which    which   copies and the                     clusters that
//!            clusters?  copied?    blocked? next?   BundleDeployment                   are no targets
//! ```
//!
//! An error of one cluster is reported for that cluster and delays no other.

mod apply;
mod copies;
mod deliver;
mod error;
mod observe;
mod round;
mod sources;

use std::time::Instant;

use helmops_shared::{
    api::{Bundle, BundleDeployment, Decoded},
    status::RolloutRound,
};
use kube::Resource;

pub use self::error::DeliveryError;
use self::{copies::CopyManager, error::BundleBlocked, round::BundleReconciliation};
use crate::{
    backoff::BackoffPolicy,
    context::Context,
    error::cut_error,
    error_class::ClassifiedError,
    metrics::Reconciler,
    queue::RequeueAfter,
    retry_state::Done,
    watch::{DeliveryStores, Weight},
    work::BundleKey,
    workers::WorkerPermit,
};

/// Maximum number of clusters of a Bundle that are processed concurrently.
const CONCURRENCY: usize = 10;

/// Deploys one Bundle to its clusters, and reports the progress in its status.
///
/// It is level-triggered: it depends only on the current state, never on the event, so it may be called at any time and any
/// number of times.
pub async fn reconcile(
    key: &BundleKey,
    permit: &mut WorkerPermit,
    stores: &DeliveryStores,
    context: &Context,
) -> RequeueAfter {
    let Some(object) = context.stores.bundles.get(key) else {
        context.bundles.forget(key);
        let result = Box::pin(apply::delete_leftovers(context, key)).await;
        return context
            .bundles
            .requeue_after(key, None, result.map(|()| Done::UNTIL_CHANGE));
    };
    if object.meta().deletion_timestamp.is_some() {
        let result = Box::pin(finalize(key, &object, stores, context)).await;
        return context.bundles.requeue_after(
            key,
            object.meta().generation,
            result.map(|()| Done::UNTIL_CHANGE),
        );
    }
    let bundle = match &*object {
        Decoded::Valid(bundle) => bundle,
        Decoded::Invalid { error, .. } => {
            tracing::error!(error = cut_error(error), "Bundle cannot be decoded; skipping it");
            return None;
        }
    };
    let cached = bundle.metadata.resource_version.as_deref().unwrap_or_default();
    if context.bundles.pending_writes.is_stale(key, cached) {
        return Some(BackoffPolicy::CONFLICT.initial_delay);
    }
    let started = Instant::now();
    let result = Box::pin(sync(key, bundle, permit, stores, context)).await;
    let failure = result.as_ref().err().map(ClassifiedError::reason);
    context
        .metrics
        .reconciled(Reconciler::Bundle, failure, started.elapsed());
    context.bundles.requeue_after(
        key,
        bundle.metadata.generation,
        result.map(|()| Done::UNTIL_CHANGE),
    )
}

/// Deletes the copies and BundleDeployments of a Bundle that is being deleted, whether it decodes or not.
async fn finalize(
    key: &BundleKey,
    bundle: &Decoded<Bundle>,
    stores: &DeliveryStores,
    context: &Context,
) -> Result<(), DeliveryError> {
    let copies = CopyManager {
        context,
        copies: &stores.copies,
    };
    copies.prune_unowned(key).await?;
    apply::finalize(context, key, bundle).await
}

async fn sync(
    key: &BundleKey,
    bundle: &Bundle,
    permit: &mut WorkerPermit,
    stores: &DeliveryStores,
    context: &Context,
) -> Result<(), DeliveryError> {
    permit.declare_size(bundle.weight()).await?;
    let Some(bundle) = apply::with_finalizer(context, bundle).await? else {
        // It does not exist any more.
        return Ok(());
    };
    let reconciliation = BundleReconciliation {
        key,
        bundle: &bundle,
        stores,
        context,
    };
    match reconciliation.roll_out(permit).await? {
        // The most severe error is logged and determines the backoff.
        Ok(errors) => match errors.into_iter().max_by_key(|error| error.class().severity()) {
            Some(error) => Err(error),
            None => Ok(()),
        },
        Err(BundleBlocked { reason, message }) => {
            tracing::info!(reason = reason.as_str(), message, "not deployed");
            apply::status(context, key, &bundle, RolloutRound::Refused(reason, &message)).await
        }
    }
}

fn is_terminating(deployment: &BundleDeployment) -> bool {
    deployment.metadata.deletion_timestamp.is_some()
}

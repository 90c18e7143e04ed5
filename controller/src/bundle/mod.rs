//! The bundle loop: each Bundle to its clusters.
//!
//! ```text
//! observe ─► targets ─► sources ─► check ─► roll-out ─► deliver, each cluster by itself ─► clear away ─► tell: the status
//! what is    which      what is    who can  whose       copies and the                     where it goes
//! there      clusters?  passed on  have it? turn?       BundleDeployment                   no more
//! ```
//!
//! What goes wrong with one cluster is told of that cluster, and holds up no other.

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
use self::{copies::CopiesOf, error::Refusal, round::Run};
use crate::{
    backoff::Pace,
    context::Context,
    error::shown,
    memory::Failure,
    metrics::Reconciler,
    queue::Next,
    watch::{DeliveryStores, Weight},
    work::BundleKey,
    workers::WorkerPermit,
};

/// How many clusters of a Bundle are worked on at a time.
const AT_ONCE: usize = 10;

/// Brings one Bundle to its clusters, and tells in its status how far that is.
///
/// It looks only at how things are, never at what happened, so that it may be called at any time and any number of times.
pub async fn reconcile(
    key: &BundleKey,
    place: &mut WorkerPermit,
    reach: &DeliveryStores,
    context: &Context,
) -> Next {
    let Some(object) = context.stores.bundles.get(key) else {
        context.bundles.forget(key);
        let result = Box::pin(apply::withdraw_leftovers(context, key)).await;
        return context.bundles.ended(key, None, result);
    };
    if object.meta().deletion_timestamp.is_some() {
        let result = Box::pin(withdraw(key, &object, reach, context)).await;
        return context.bundles.ended(key, object.meta().generation, result);
    }
    let bundle = match &*object {
        Decoded::Valid(bundle) => bundle,
        Decoded::Invalid { error, .. } => {
            tracing::error!(error = shown(error), "Bundle cannot be decoded; skipping it");
            return None;
        }
    };
    let seen = bundle.metadata.resource_version.as_deref().unwrap_or_default();
    if context.bundles.written.is_behind(key, seen) {
        return Some(Pace::CONFLICT.first);
    }
    let started = Instant::now();
    let result = Box::pin(sync(key, bundle, place, reach, context)).await;
    let failure = result.as_ref().err().map(Failure::reason);
    context
        .metrics
        .reconciled(Reconciler::Bundle, failure, started.elapsed());
    context.bundles.ended(key, bundle.metadata.generation, result)
}

/// Withdraws a Bundle that is being deleted, whatever else it says.
async fn withdraw(
    key: &BundleKey,
    bundle: &Decoded<Bundle>,
    reach: &DeliveryStores,
    context: &Context,
) -> Result<(), DeliveryError> {
    let copies = CopiesOf {
        context,
        copies: &reach.copies,
    };
    copies.clear_unowned(key).await?;
    apply::withdraw(context, key, bundle).await
}

async fn sync(
    key: &BundleKey,
    bundle: &Bundle,
    place: &mut WorkerPermit,
    reach: &DeliveryStores,
    context: &Context,
) -> Result<(), DeliveryError> {
    place.carry(bundle.weight()).await?;
    let Some(bundle) = apply::with_finalizer(context, bundle).await? else {
        // It is gone.
        return Ok(());
    };
    let run = Run {
        key,
        bundle: &bundle,
        reach,
        context,
    };
    match run.round(place).await? {
        // The worst is told of and decides when to try again.
        Ok(failures) => match failures.into_iter().max_by_key(DeliveryError::weight) {
            Some(error) => Err(error),
            None => Ok(()),
        },
        Err(Refusal { reason, message }) => {
            tracing::info!(reason = reason.as_str(), message, "not deployed");
            apply::status(context, key, &bundle, RolloutRound::Refused(reason, &message)).await
        }
    }
}

fn is_leaving(deployment: &BundleDeployment) -> bool {
    deployment.metadata.deletion_timestamp.is_some()
}

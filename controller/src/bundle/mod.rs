//! The bundle loop: deploys each Bundle to its clusters.
//!
//! ```text
//! observe ─► targets ─► sources ─► blocked ─► plan ───► deliver, each cluster by itself ─► prune ─► update the status
//! (caches)   which      what is    which      which     observe, plan, apply               clusters that
//!            clusters?  copied?    clusters?  is next?  copies and BundleDeployment        are no targets
//! ```
//!
//! What is written for a cluster is decided by [`helmops_core::targeting::delivery`]; `apply` writes it. An error of one cluster
//! is reported for that cluster and delays no other.

mod apply;
mod deliver;
mod error;
mod observe;
mod prune;
mod round;
mod sources;

use std::{cmp::Reverse, sync::Arc};

use helmops_api::{Bundle, BundleDeployment, Condition, Decoded, labels, weight::Weight};
use helmops_core::status::RolloutRound;
use helmops_kube::name_of;
use helmops_process::exit::with_causes;
use helmops_runtime::{
    error_class::ClassifiedError,
    metrics::{Controller, ReconcileMetrics},
    queue::RequeueAfter,
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use helmops_trace::{TraceContext, Tracer};
use kube::core::ObjectMeta;
use tracing::{Span, field::Empty};

pub use self::error::DeliveryError;
use self::{
    error::BundleBlocked,
    round::{BundleReconciliation, Round},
};
use crate::{context::Context, metrics, watch::DeliveryStores, work::BundleKey};

/// Maximum number of clusters of a Bundle that are processed concurrently.
const CONCURRENCY: usize = 10;

/// The reconciler of Bundles.
pub struct Bundles<'c> {
    pub context: &'c Context,
    /// The stores that only this loop and that of Clusters need.
    pub stores: &'c DeliveryStores,
}

impl Reconciler for Bundles<'_> {
    type Object = Bundle;
    type Error = DeliveryError;
    const CONTROLLER: Controller = metrics::BUNDLES;

    fn get(&self, key: &BundleKey) -> Option<Arc<Decoded<Bundle>>> {
        self.context.stores.bundles.get(key)
    }

    fn retry_state(&self) -> &RetryState<BundleKey> {
        &self.context.retries.bundles
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &BundleKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", bundle = name_of(key).to_string(), trace_id = Empty)
    }

    async fn deleted(&self, key: &BundleKey, _: &mut WorkerPermit) -> Result<Done, DeliveryError> {
        prune::delete_leftovers(self.context, &self.stores.copies, key).await?;
        Ok(Done::UNTIL_CHANGE)
    }

    /// Deletes the copies and BundleDeployments.
    async fn finalize(
        &self,
        key: &BundleKey,
        bundle: &Decoded<Bundle>,
        _: &mut WorkerPermit,
    ) -> Result<(), DeliveryError> {
        prune::finalize(self.context, &self.stores.copies, key, bundle).await
    }

    /// The trace of the last change, until all clusters are ready.
    fn trace(&self, _: &BundleKey, bundle: &Bundle) -> Option<(&Tracer, TraceContext)> {
        let annotations = bundle.metadata.annotations.as_ref();
        let traceparent = annotations.and_then(|annotations| annotations.get(labels::TRACEPARENT));
        let tracer = &self.context.tracer;
        let parent = tracer.parent(traceparent.map(String::as_str))?;
        (!is_ready(bundle)).then_some((tracer, parent))
    }

    /// Deploys the Bundle to its clusters, and reports the progress in its status.
    async fn reconcile(
        &self,
        key: &BundleKey,
        bundle: &Bundle,
        permit: &mut WorkerPermit,
    ) -> Result<Done, DeliveryError> {
        permit.declare_size(bundle.weight()).await?;
        let Some(bundle) = apply::with_finalizer(self.context, bundle).await? else {
            // It does not exist any more.
            return Ok(Done::UNTIL_CHANGE);
        };
        let reconciliation = BundleReconciliation {
            key,
            bundle: &bundle,
            stores: self.stores,
            context: self.context,
        };
        let Round { errors, next } = match reconciliation.roll_out(permit).await? {
            Ok(round) => round,
            Err(BundleBlocked { reason, message }) => {
                tracing::info!(reason = reason.as_str(), message, "not deployed");
                let round = RolloutRound::Refused(reason, &message);
                apply::status(self.context, &bundle, round).await?;
                return Ok(Done::UNTIL_CHANGE);
            }
        };
        done(select_error(errors), next)
    }
}

/// How a round ends, with the error that determines the backoff, and when the rollout goes on by itself, or a window begins or ends: that
/// does not wait for the backoff.
fn done(error: Option<DeliveryError>, next: RequeueAfter) -> Result<Done, DeliveryError> {
    match error {
        Some(error) if next.is_none() => Err(error),
        Some(error) => Ok(Done::after(&error, next)),
        None => Ok(Done {
            requeue_after: next,
            ..Done::UNTIL_CHANGE
        }),
    }
}

/// Of the errors of several clusters, the one that determines the backoff. If it is benign, another one is logged: nothing else
/// would show it.
fn select_error(mut errors: Vec<DeliveryError>) -> Option<DeliveryError> {
    errors.sort_by_key(|error| Reverse(error.class().retry_priority()));
    let mut errors = errors.into_iter();
    let selected = errors.next()?;
    let mut failures = errors.filter(|error| !error.is_benign());
    if selected.is_benign()
        && let Some(failure) = failures.next()
    {
        tracing::warn!(
            reason = failure.reason().as_str(),
            error = with_causes(&failure),
            "deployment to a cluster failed; retrying"
        );
    }
    Some(selected)
}

/// Whether the current generation is ready on all clusters.
fn is_ready(bundle: &Bundle) -> bool {
    bundle.status.as_ref().is_some_and(|status| {
        status.observed_generation == bundle.metadata.generation
            && Condition::is_true(&status.conditions, "Ready")
    })
}

fn is_terminating(deployment: &BundleDeployment) -> bool {
    deployment.metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use helmops_runtime::client::{ApiError, CallError};

    #[test]
    fn the_error_that_is_most_likely_gone_soon_determines_the_backoff() {
        let conflict = || DeliveryError::Stale("Secret web".to_owned());
        let absent = || DeliveryError::NameConflict("web".to_owned());
        let transient = || CallError::of("write", "Secret web")(ApiError::Timeout).into();
        let selected = |errors| select_error(errors).map(|error| error.class().retry_priority());
        let priority = |error: DeliveryError| Some(error.class().retry_priority());
        assert_eq!(selected(Vec::new()), None);
        assert_eq!(
            selected(vec![absent(), transient(), absent()]),
            priority(transient())
        );
        assert_eq!(
            selected(vec![transient(), conflict(), absent()]),
            priority(conflict())
        );
    }
}

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
mod gates;
mod observe;
mod prune;
mod round;
mod sources;

use std::sync::Arc;

use helmops_api::{Bundle, BundleDeployment, Condition, Decoded, labels, weight::Weight};
use helmops_core::status::RolloutRound;
use helmops_kube::name_of;
use helmops_runtime::{
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, Failures, RetryState},
    workers::WorkerPermit,
};
use helmops_trace::{TraceContext, Tracer};
use kube::core::ObjectMeta;
use tracing::{Span, field::Empty};

use self::{
    error::BundleBlocked,
    round::{BundleReconciliation, Round},
};
pub use self::{error::DeliveryError, gates::GateResponses};
use crate::{context::Context, metrics, parts, watch::DeliveryStores, work::BundleKey};

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
        self.context.gate_responses.forget(key);
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
        let tracer = &self.context.tracer;
        let parent = tracer.parent(labels::annotation(&bundle.metadata, labels::TRACEPARENT))?;
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
        let round = match reconciliation.roll_out(permit).await? {
            Ok(round) => round,
            Err(BundleBlocked { reason, message }) => {
                tracing::info!(reason = reason.as_str(), message, "not deployed");
                let round = RolloutRound::Refused(reason, &message);
                apply::status(self.context, &bundle, round).await?;
                return Ok(Done::UNTIL_CHANGE);
            }
        };
        done(round)
    }
}

/// How a round ends. One that was not completed goes on with the rest: that is no retry of the clusters that have failed, and no success.
fn done(round: Round) -> Result<Done, DeliveryError> {
    let done = parts::done(round.errors, round.next)?;
    Ok(if round.is_complete {
        done
    } else {
        Done {
            failures: Failures::Kept,
            ..done
        }
    })
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
    use std::time::Duration;

    use helmops_model::reason::Reason;

    use super::*;

    #[test]
    fn a_round_that_goes_on_is_neither_a_failure_nor_a_success() {
        let stale = || DeliveryError::Stale("Secret web".to_owned());
        for (errors, counts_as) in [(vec![], None), (vec![stale()], Some(Reason::Progressing))] {
            let round = Round {
                errors,
                next: Some(Duration::ZERO),
                is_complete: false,
            };
            let done = done(round).unwrap();
            assert_eq!(done.failures, Failures::Kept);
            assert_eq!(done.counts_as, counts_as);
        }
        let errors = vec![stale()];
        let next = Some(Duration::ZERO);
        let is_complete = true;
        let completed = done(Round {
            errors,
            next,
            is_complete,
        })
        .unwrap();
        assert!(
            matches!(completed.failures, Failures::Another(_)),
            "{completed:?}"
        );
    }
}

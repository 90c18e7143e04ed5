//! The HelmOp loop: writes the Bundle of each HelmOp.
//!
//! ```text
//! observe ─► accept ─► poll_plan ─► versions ─► content ─► plan ─► apply the Bundle ─► update the status
//! (caches)   valid?    is a poll    recorded,   stored, if what to
//!                      due?         or resolved that is    write?
//!                                               wanted
//! ```

mod apply;
mod content;
mod error;
mod interest;
mod observe;
mod poll_plan;
mod polls;
mod reconcile;
mod trace;
mod versions;
mod warm_up;

use std::sync::Arc;

use helmops_api::{Decoded, HelmOp, Unusable, labels, weight::Weight};
use helmops_core::status;
use helmops_kube::name_of;
use helmops_runtime::{
    decode_error::cut_error,
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use helmops_trace::{TraceContext, Tracer};
use kube::core::ObjectMeta;
use tracing::{Span, field::Empty};

use self::reconcile::HelmOpReconciliation;
pub use self::{error::ReconcileError, interest::Interest, polls::UnrecordedPolls};
use crate::{context::Context, metrics, work::HelmOpKey};

/// The annotation whose change requests a poll.
const REQUEST_ANNOTATIONS: &[&str] = &[labels::POLL_REQUESTED_AT];

/// The reconciler of HelmOps.
pub struct HelmOps<'c> {
    pub context: &'c Context,
}

impl Reconciler for HelmOps<'_> {
    type Object = HelmOp;
    type Error = ReconcileError;
    const CONTROLLER: Controller = metrics::HELMOPS;

    /// A requested poll is attempted in spite of earlier failures.
    const REQUEST_ANNOTATIONS: &'static [&'static str] = REQUEST_ANNOTATIONS;

    fn get(&self, key: &HelmOpKey) -> Option<Arc<Decoded<HelmOp>>> {
        self.context.stores.helmops.get(key)
    }

    fn retry_state(&self) -> &RetryState<HelmOpKey> {
        &self.context.retries.helmops
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    /// With the name of the HelmOp, and its user if Rancher's label names one.
    fn span(&self, key: &HelmOpKey, metadata: Option<&ObjectMeta>) -> Span {
        let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
        let user = labels.and_then(|labels| labels.get(labels::CREATED_BY));
        // At level `error`, so that every log level includes it.
        tracing::error_span!(
            "reconcile",
            helmop = name_of(key).to_string(),
            userID = user.map(String::as_str),
            trace_id = Empty
        )
    }

    fn forget(&self, key: &HelmOpKey) {
        self.context.interest.forget(key);
        self.context.unrecorded_polls.forget(key);
    }

    async fn finalize(
        &self,
        key: &HelmOpKey,
        helmop: &Decoded<HelmOp>,
        _: &mut WorkerPermit,
    ) -> Result<(), ReconcileError> {
        apply::cleanup(self.context, key, helmop).await
    }

    /// With an Event. The status is not written: it may be the part that does not decode.
    fn report_invalid(&self, metadata: &ObjectMeta, error: &Unusable) {
        let helmop = HelmOp {
            metadata: metadata.clone().into(),
            ..HelmOp::default()
        };
        let events = vec![status::unusable(
            error,
            cut_error(&format!("it {}", error.predicate())),
        )];
        self.context.events.publish(&helmop, events);
    }

    /// The trace of the current generation, until it is ready.
    fn trace(&self, key: &HelmOpKey, helmop: &HelmOp) -> Option<(&Tracer, TraceContext)> {
        let tracer = &self.context.tracer;
        if !tracer.is_enabled() || trace::is_ready(helmop) {
            return None;
        }
        let bundle = observe::cached_bundle(self.context, key);
        let bundle = observe::own_bundle(bundle.as_deref()).ok().flatten();
        Some((tracer, trace::current(tracer, helmop, bundle)?))
    }

    async fn reconcile(
        &self,
        key: &HelmOpKey,
        helmop: &HelmOp,
        permit: &mut WorkerPermit,
    ) -> Result<Done, ReconcileError> {
        let declared = permit.declare_size(helmop.weight()).await;
        declared.map_err(ReconcileError::Interrupted)?;
        let reconciliation = HelmOpReconciliation {
            key,
            name: &name_of(key),
            helmop,
            context: self.context,
        };
        reconciliation.run(permit).await
    }
}

/// Records the charts of all HelmOps, before the first reconciliation.
pub async fn prepare(context: &Context) {
    let helmops = context.stores.helmops.state();
    let policies = |helmop: &HelmOp| {
        let namespace = helmop.metadata.namespace.as_deref()?;
        observe::policies(context, namespace).ok()
    };
    warm_up::record_all(&helmops, policies, &context.interest).await;
}

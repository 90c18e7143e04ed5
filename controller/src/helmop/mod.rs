//! The HelmOp loop: writes the Bundle of each HelmOp.
//!
//! ```text
//! observe ─► accept ─► poll_plan ─► versions ─► plan ─► apply the Bundle ─► update the status
//! (caches)   valid?    is a poll    recorded,   what to
//!                      due?         or resolved write?
//! ```

mod apply;
mod interest;
mod observe;
mod poll_plan;
mod reconcile;
mod versions;
mod warm_up;

use std::time::Instant;

use helmops_shared::{
    api::{Decoded, HelmOp, labels},
    status,
};
use kube::{Resource, core::ObjectMeta};
use tracing::{Instrument, Span};

use self::reconcile::HelmOpReconciliation;
pub use self::{interest::Interest, poll_plan::seconds};
use crate::{
    backoff::BackoffPolicy,
    context::{Context, RetryKey},
    error::{ReconcileError, cut_error},
    error_class::ClassifiedError,
    metrics::Reconciler,
    queue::RequeueAfter,
    retry_state::Done,
    watch::Weight,
    work::{HelmOpKey, name_of},
    workers::WorkerPermit,
};

/// Reconciles one HelmOp, and reports the result in its status.
///
/// It is level-triggered: it depends only on the current state, never on the event, so it may be called at any time and any
/// number of times.
pub async fn reconcile(key: HelmOpKey, mut permit: WorkerPermit, context: &Context) -> RequeueAfter {
    let Some(object) = context.stores.helmops.get(&key) else {
        // It is deleted.
        context.helmops.forget(&key);
        context.interest.forget(&key);
        return None;
    };
    let cached = object.meta().resource_version.as_deref().unwrap_or_default();
    if context.helmops.pending_writes.is_stale(&key, cached) {
        return Some(BackoffPolicy::CONFLICT.initial_delay);
    }
    let span = span(object.meta());
    let helmop = match &*object {
        Decoded::Valid(helmop) => helmop,
        Decoded::Invalid { .. } if object.meta().deletion_timestamp.is_some() => {
            return finalize(&key, &object, context).instrument(span).await;
        }
        Decoded::Invalid { error, .. } => {
            context.interest.forget(&key);
            span.in_scope(|| report_invalid(object.meta(), error, context));
            return None;
        }
    };
    if helmop.metadata.deletion_timestamp.is_some() {
        return finalize(&key, &object, context).instrument(span).await;
    }
    sync_timed(&key, helmop, &mut permit, context)
        .instrument(span)
        .await
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

/// The span of all log lines about a HelmOp: its name, and its user if Rancher's label names one.
fn span(helmop: &ObjectMeta) -> Span {
    let name = |part: &Option<String>| part.clone().unwrap_or_default();
    let user = helmop
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::CREATED_BY));
    // At level `error`, so that every log level includes it.
    tracing::error_span!(
        "reconcile",
        helmop = format!("{}/{}", name(&helmop.namespace), name(&helmop.name)),
        userID = user.map(String::as_str)
    )
}

/// Reports a HelmOp that does not decode. Its status is not written: it may be the part that does not decode.
fn report_invalid(metadata: &ObjectMeta, error: &str, context: &Context) {
    let error = cut_error(error);
    tracing::error!(error, "HelmOp cannot be decoded; skipping it");
    let helmop = HelmOp {
        metadata: metadata.clone().into(),
        ..HelmOp::default()
    };
    context
        .events
        .publish(&helmop, vec![status::decode_failed(error)]);
}

/// Cleans up a HelmOp that is being deleted, whether it decodes or not.
async fn finalize(key: &HelmOpKey, helmop: &Decoded<HelmOp>, context: &Context) -> RequeueAfter {
    context.interest.forget(key);
    let started = Instant::now();
    let result = Box::pin(apply::cleanup(context, key, helmop)).await;
    context.metrics.reconciled(
        Reconciler::HelmOp,
        result.as_ref().err().map(ClassifiedError::reason),
        started.elapsed(),
    );
    let retry_key = RetryKey::of_metadata(helmop.meta());
    let result = result.map(|()| Done::UNTIL_CHANGE);
    context.helmops.requeue_after(key, retry_key, result)
}

async fn sync_timed(
    key: &HelmOpKey,
    helmop: &HelmOp,
    permit: &mut WorkerPermit,
    context: &Context,
) -> RequeueAfter {
    let started = Instant::now();
    let result = sync(key, helmop, context, permit).await;
    context.metrics.reconciled(
        Reconciler::HelmOp,
        result.as_ref().err().map(ClassifiedError::reason),
        started.elapsed(),
    );
    context.helmops.requeue_after(key, RetryKey::of(helmop), result)
}

async fn sync(
    key: &HelmOpKey,
    helmop: &HelmOp,
    context: &Context,
    permit: &mut WorkerPermit,
) -> Result<Done, ReconcileError> {
    permit
        .declare_size(helmop.weight())
        .await
        .map_err(ReconcileError::Interrupted)?;
    let reconciliation = HelmOpReconciliation {
        key,
        name: &name_of(key),
        helmop,
        context,
    };
    reconciliation.run(permit).await
}

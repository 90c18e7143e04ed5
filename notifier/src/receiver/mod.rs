//! Receivers: the token of each, and the pushes that it has accepted.

use std::sync::Arc;

use helmops_api::{Decoded, Receiver};
use helmops_kube::name_of;
use helmops_runtime::{
    client::CallError,
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use kube::api::ObjectMeta;
use tracing::Span;

use crate::{context::Context, metrics, work::ReceiverKey};

/// The reconciler of Receivers.
pub struct Receivers<'c> {
    /// What the loops share.
    pub context: &'c Context,
}

impl Reconciler for Receivers<'_> {
    type Object = Receiver;
    type Error = CallError;
    const CONTROLLER: Controller = metrics::RECEIVERS;

    fn get(&self, key: &ReceiverKey) -> Option<Arc<Decoded<Receiver>>> {
        self.context.stores.receivers.get(key)
    }

    fn retry_state(&self) -> &RetryState<ReceiverKey> {
        &self.context.retries.receivers
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &ReceiverKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", receiver = name_of(key).to_string())
    }

    async fn reconcile(
        &self,
        _: &ReceiverKey,
        _: &Receiver,
        _: &mut WorkerPermit,
    ) -> Result<Done, CallError> {
        Ok(Done::UNTIL_CHANGE)
    }
}

//! Alerts: from the states of the objects that they select to messages.

use std::sync::Arc;

use helmops_api::{Alert, Decoded};
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

use crate::{context::Context, metrics, work::AlertKey};

/// The reconciler of Alerts.
pub struct Alerts<'c> {
    /// What the loops share.
    pub context: &'c Context,
}

impl Reconciler for Alerts<'_> {
    type Object = Alert;
    type Error = CallError;
    const CONTROLLER: Controller = metrics::ALERTS;

    fn get(&self, key: &AlertKey) -> Option<Arc<Decoded<Alert>>> {
        self.context.stores.alerts.get(key)
    }

    fn retry_state(&self) -> &RetryState<AlertKey> {
        &self.context.retries.alerts
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &AlertKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", alert = name_of(key).to_string())
    }

    async fn reconcile(&self, _: &AlertKey, _: &Alert, _: &mut WorkerPermit) -> Result<Done, CallError> {
        Ok(Done::UNTIL_CHANGE)
    }
}

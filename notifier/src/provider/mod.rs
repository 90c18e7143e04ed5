//! AlertProviders: whether messages can be sent to them.

use std::sync::Arc;

use helmops_api::{AlertProvider, Decoded};
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

use crate::{context::Context, metrics, work::ProviderKey};

/// The reconciler of AlertProviders.
pub struct Providers<'c> {
    /// What the loops share.
    pub context: &'c Context,
}

impl Reconciler for Providers<'_> {
    type Object = AlertProvider;
    type Error = CallError;
    const CONTROLLER: Controller = metrics::PROVIDERS;

    fn get(&self, key: &ProviderKey) -> Option<Arc<Decoded<AlertProvider>>> {
        self.context.stores.providers.get(key)
    }

    fn retry_state(&self) -> &RetryState<ProviderKey> {
        &self.context.retries.providers
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &ProviderKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", provider = name_of(key).to_string())
    }

    async fn reconcile(
        &self,
        _: &ProviderKey,
        _: &AlertProvider,
        _: &mut WorkerPermit,
    ) -> Result<Done, CallError> {
        Ok(Done::UNTIL_CHANGE)
    }
}

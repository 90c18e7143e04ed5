//! AlertProviders: whether messages can be sent to them.

mod endpoint;

use std::sync::Arc;

use helmops_api::{AlertProvider, Decoded, timestamp::timestamp};
use helmops_kube::name_of;
use helmops_model::{
    condition::{ConditionState, ConditionType, set as set_condition},
    reason::Reason,
};
use helmops_runtime::{
    client::CallError,
    error_class::ClassifiedError,
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use tracing::Span;

pub use self::endpoint::{Endpoint, EndpointError, endpoint};
use crate::{
    context::{Context, MANAGER},
    failures::Subject,
    metrics,
    work::ProviderKey,
};

/// The reconciler of AlertProviders.
pub struct Providers<'c> {
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

    fn forget(&self, key: &ProviderKey) {
        self.context.failures.forget(&Subject::Provider(key.clone()));
    }

    async fn reconcile(
        &self,
        key: &ProviderKey,
        provider: &AlertProvider,
        _: &mut WorkerPermit,
    ) -> Result<Done, CallError> {
        let state = match self.state(key, provider).await {
            Ok(state) => state,
            Err(EndpointError::Api(error)) => return Err(error),
            Err(error) => ConditionState::False(error.reason(), error.to_string()),
        };
        let before = provider.status.clone().unwrap_or_default();
        let mut next = before.clone();
        let generation = provider.metadata.generation;
        next.observed_generation = generation;
        let now = timestamp(Timestamp::now());
        set_condition(
            &mut next.conditions,
            ConditionType::Ready,
            &state,
            generation,
            &now,
        );
        let (client, pending_writes) = (
            &self.context.client,
            &self.context.retries.providers.pending_writes,
        );
        MANAGER
            .write_status(client, pending_writes, provider, &before, &next)
            .await?;
        Ok(Done::UNTIL_CHANGE)
    }
}

impl Providers<'_> {
    async fn state(
        &self,
        key: &ProviderKey,
        provider: &AlertProvider,
    ) -> Result<ConditionState, EndpointError> {
        endpoint(&self.context.client, provider).await?;
        if provider.spec.suspend {
            let message = "spec.suspend is set: nothing is sent until it is removed".to_owned();
            return Ok(ConditionState::TrueWithMessage(Reason::Suspended, message));
        }
        let failure = self.context.failures.of(&Subject::Provider(key.clone()));
        Ok(match failure {
            Some((message, _)) => ConditionState::False(Reason::DeliveryFailed, message),
            None => ConditionState::True(Reason::Ready),
        })
    }
}

//! AlertProviders: whether messages can be sent to them.

mod endpoint;

use std::sync::Arc;

use helmops_api::{AlertProvider, Decoded, notifications::AlertProviderStatus, timestamp::timestamp};
use helmops_core::{
    reason::Reason,
    status::{ConditionState, ConditionType, change, set_condition},
};
use helmops_kube::name_of;
use helmops_runtime::{
    client::CallError,
    error_class::ClassifiedError,
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, api::ObjectMeta};
use tracing::Span;

pub use self::endpoint::{Endpoint, EndpointError, endpoint};
use crate::{context::Context, metrics, send::Subject, work::ProviderKey, writes::MANAGER};

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
        let mut next = provider.status.clone().unwrap_or_default();
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
        self.write(key, provider, &next).await?;
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
        let failure = self.context.failures.of(&[Subject::Provider(key.clone())]);
        Ok(match failure {
            Some((message, _)) => ConditionState::False(Reason::DeliveryFailed, message),
            None => ConditionState::True(Reason::Ready),
        })
    }

    async fn write(
        &self,
        key: &ProviderKey,
        provider: &AlertProvider,
        next: &AlertProviderStatus,
    ) -> Result<(), CallError> {
        let before = provider.status.clone().unwrap_or_default();
        let Some(change) = change(&before, next) else {
            return Ok(());
        };
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let api = Api::<AlertProvider>::namespaced(self.context.client.clone(), namespace);
        let written = MANAGER.status(&api, provider, &change).await;
        let written = written.map_err(CallError::of("update the status of", "the AlertProvider"))?;
        self.context
            .retries
            .providers
            .pending_writes
            .record(key.clone(), provider, &written);
        Ok(())
    }
}

//! The loop of tokens.

use std::{fmt, sync::Arc};

use helmops_api::{ClusterRegistrationToken, Decoded, NamespacedName, timestamp::until};
use helmops_core::registration::{
    TokenObjects, expiry, is_values, token_objects, token_of, token_status, values_secret,
};
use helmops_kube::name_of;
use helmops_model::{event::Event, reason::Reason};
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    error_class::ClassifiedError,
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
    writes::delete_exactly,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Namespace, Secret},
    jiff::Timestamp,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ObjectMeta, Preconditions},
    runtime::reflector::ObjectRef,
};
use serde::{Serialize, de::DeserializeOwned};
use tracing::Span;

use super::{RegistrationError, requests::SOON};
use crate::{
    context::Context,
    metrics,
    watch::{DeliveryStores, Registrations},
    work::TokenKey,
    writes::MANAGER,
};

/// The reconciler of tokens.
pub struct Tokens<'c> {
    pub context: &'c Context,
    pub stores: &'c DeliveryStores,
    pub registrations: &'c Registrations,
}

impl Reconciler for Tokens<'_> {
    type Object = ClusterRegistrationToken;
    type Error = RegistrationError;
    const CONTROLLER: Controller = metrics::REGISTRATION_TOKENS;

    fn get(&self, key: &TokenKey) -> Option<Arc<Decoded<ClusterRegistrationToken>>> {
        self.registrations.tokens.get(key)
    }

    fn retry_state(&self) -> &RetryState<TokenKey> {
        &self.context.retries.tokens
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &TokenKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", registration_token = name_of(key).to_string())
    }

    async fn reconcile(
        &self,
        _: &TokenKey,
        token: &ClusterRegistrationToken,
        _: &mut WorkerPermit,
    ) -> Result<Done, RegistrationError> {
        let made = self.make(token).await;
        if let Err(error) = &made
            && error.reason() == Reason::RegistrationRefused
        {
            let event = Event {
                is_warning: true,
                reason: Reason::RegistrationRefused.as_str().to_owned(),
                action: "MakeToken",
                note: error.to_string(),
            };
            self.context.events.publish(token, vec![event]);
        }
        made
    }
}

impl Tokens<'_> {
    async fn make(&self, token: &ClusterRegistrationToken) -> Result<Done, RegistrationError> {
        let now = Timestamp::now();
        let end = expiry(token)?;
        if end.is_some_and(|end| end <= now) {
            self.expire(token).await?;
            return Ok(Done::UNTIL_CHANGE);
        }
        self.ensure_namespace().await?;
        let TokenObjects {
            account,
            binding,
            secret,
        } = token_objects(token);
        self.post(&account).await?;
        self.post(&binding).await?;
        self.post(&secret).await?;
        let made = self.read(&secret).await?;
        // Kubernetes has not written it yet.
        let text = made.as_ref().and_then(|secret| token_of(secret, None));
        let text = text.map(|text| String::from_utf8_lossy(text).into_owned());
        if let Some(text) = &text {
            self.write_values(token, text).await?;
        }
        let next = token_status(token, end, text.is_some());
        let (client, pending) = (&self.context.client, &self.context.retries.tokens.pending_writes);
        MANAGER
            .write_status(client, pending, token, &token.status, &next)
            .await?;
        let wait = text.is_none().then_some(SOON);
        Ok(Done {
            requeue_after: end.map(|end| until(now, end)).into_iter().chain(wait).min(),
            ..Done::UNTIL_CHANGE
        })
    }

    /// Ends a token: exactly this version, as its validity may just have been extended. Then its account.
    async fn expire(&self, token: &ClusterRegistrationToken) -> Result<(), RegistrationError> {
        let api = self.api::<ClusterRegistrationToken>(token.namespace());
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: token.uid(),
            resource_version: token.resource_version(),
        });
        let object = format!("ClusterRegistrationToken {}", NamespacedName::of(&token.metadata));
        match bounded(api.delete(&token.name_any(), &params)).await {
            Err(error) if !error.is_not_found() => Err(CallError::of("delete", object)(error).into()),
            _ => {
                // Its owner is gone, so the garbage collector deletes it too. That may be late.
                self.remove(&token_objects(token).account).await?;
                tracing::info!(token = token.name_any(), "deleted the token, which has expired");
                Ok(())
            }
        }
    }

    /// The namespace of the credentials.
    async fn ensure_namespace(&self) -> Result<(), RegistrationError> {
        let name = &self.registrations.options.namespace;
        if self
            .stores
            .clusters
            .namespaces
            .get(&ObjectRef::new(name))
            .is_some()
        {
            return Ok(());
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let api = Api::<Namespace>::all(self.context.client.clone());
        match bounded(api.create(&MANAGER.post(), &namespace)).await {
            Err(error) if !error.exists_already() => {
                Err(CallError::of("create", format!("Namespace {name}"))(error).into())
            }
            _ => Ok(()),
        }
    }

    /// Writes the Secret with the values: one of the same name that is something else is left alone.
    async fn write_values(
        &self,
        token: &ClusterRegistrationToken,
        text: &str,
    ) -> Result<(), RegistrationError> {
        let options = &self.registrations.options;
        let mut desired = values_secret(
            token,
            text,
            &options.server,
            &options.authorities,
            &options.namespace,
        );
        let object = format!("Secret {}", NamespacedName::of(&desired.metadata));
        let Some(found) = self.read(&desired).await? else {
            return self.post(&desired).await;
        };
        if !is_values(&found) {
            return Err(RegistrationError::ForeignSecret(
                object.trim_start_matches("Secret ").to_owned(),
            ));
        }
        if found.data == desired.data {
            return Ok(());
        }
        desired
            .metadata
            .resource_version
            .clone_from(&found.metadata.resource_version);
        let api = self.api::<Secret>(token.namespace());
        let replaced = bounded(api.replace(&desired.name_any(), &MANAGER.post(), &desired)).await;
        Ok(replaced.map(drop).map_err(CallError::of("update", object))?)
    }

    async fn read(&self, secret: &Secret) -> Result<Option<Secret>, CallError> {
        let found = bounded(self.api::<Secret>(secret.namespace()).get_opt(&secret.name_any())).await;
        found.map_err(CallError::of(
            "read",
            format!("Secret {}", NamespacedName::of(&secret.metadata)),
        ))
    }

    /// Creates an object. One that exists has the UID of the token in its name.
    async fn post<K: Owned>(&self, object: &K) -> Result<(), RegistrationError> {
        let api = self.api::<K>(object.meta().namespace.clone());
        match bounded(api.create(&MANAGER.post(), object)).await {
            Err(error) if !error.exists_already() => {
                Err(CallError::of("create", shown(object))(error).into())
            }
            _ => Ok(()),
        }
    }

    async fn remove<K: Owned>(&self, object: &K) -> Result<(), RegistrationError> {
        let api = self.api::<K>(object.meta().namespace.clone());
        let deleted: Result<_, ApiError> =
            bounded(api.delete(&object.name_any(), &delete_exactly(object))).await;
        match deleted {
            Err(error) if !error.is_not_found() => Err(CallError::of("delete", shown(object))(error).into()),
            _ => Ok(()),
        }
    }

    fn api<K>(&self, namespace: Option<String>) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.context.client.clone(), &namespace.unwrap_or_default())
    }
}

/// A kind of what exists for a token or a request.
pub(super) trait Owned:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + Serialize + DeserializeOwned
{
}

impl<K> Owned for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + fmt::Debug
        + Serialize
        + DeserializeOwned
{
}

/// Kind, namespace and name of an object.
pub(super) fn shown<K: Owned>(object: &K) -> String {
    format!("{} {}", K::kind(&()), NamespacedName::of(object.meta()))
}

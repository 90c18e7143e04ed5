//! Receivers: the token of each is published for the process that receives requests, and pushes that it has recorded poll HelmOps.

mod error;
pub mod google;
mod pushes;
mod token;

use std::{sync::Arc, time::Duration};

use futures::future::poll_immediate;
use helmops_api::{
    Decoded, NamespacedName, Receiver,
    notifications::{ReceiverSpec, ReceiverStatus},
    timestamp::timestamp,
};
use helmops_kube::{name_of, path_segment};
use helmops_model::{
    condition::{ConditionState, ConditionType, set as set_condition},
    reason::Reason,
};
use helmops_notify::{
    admit::{Validate, forbidden_receiver_namespaces},
    push::{Entry, ReceiverType, path_digest, webhook_path},
};
use helmops_process::lock;
use helmops_runtime::{
    client::{CallError, bounded},
    error_class::ClassifiedError,
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::{Interrupted, WorkerPermit},
};
use k8s_openapi::{api::core::v1::Secret, jiff::Timestamp};
use kube::{Api, api::ObjectMeta};
use tracing::Span;

use self::{error::ReceiverError, token::SecretContent};
use crate::{
    context::{Context, MANAGER},
    metrics,
    work::ReceiverKey,
};

/// How often a Receiver is compared with what is published, beside changes.
const CHECK: Duration = Duration::from_mins(10);
/// The same for a Receiver that needs the keys of Google: its status says whether they can be fetched.
const CHECK_WITH_KEYS: Duration = Duration::from_mins(1);
/// The same while there are none.
const CHECK_WITHOUT_KEYS: Duration = Duration::from_secs(5);

/// The reconciler of Receivers.
pub struct Receivers<'c> {
    pub context: &'c Context,
}

impl Reconciler for Receivers<'_> {
    type Object = Receiver;
    type Error = ReceiverError;
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

    fn forget(&self, key: &ReceiverKey) {
        lock(&self.context.polled_all).remove(key);
    }

    async fn deleted(&self, key: &ReceiverKey, permit: &mut WorkerPermit) -> Result<Done, ReceiverError> {
        self.withdraw(&name_of(key), permit).await?;
        Ok(Done::UNTIL_CHANGE)
    }

    async fn finalize(
        &self,
        key: &ReceiverKey,
        _: &Decoded<Receiver>,
        permit: &mut WorkerPermit,
    ) -> Result<(), ReceiverError> {
        self.withdraw(&name_of(key), permit).await
    }

    async fn reconcile(
        &self,
        key: &ReceiverKey,
        receiver: &Receiver,
        permit: &mut WorkerPermit,
    ) -> Result<Done, ReceiverError> {
        let name = name_of(key);
        let old = receiver.status.clone().unwrap_or_default();
        let mut status = old.clone();
        // First, because a chart waits. Its errors must not keep an old token valid.
        let handled = pushes::handle(self.context, key, receiver, &mut status).await;
        let published = self.publish(&name, receiver, permit).await;
        let check = self.observe(receiver, &published, &mut status);
        // Based on the version that was read: the receiving process writes pushes into it.
        let (client, pending_writes) = (
            &self.context.client,
            &self.context.retries.receivers.pending_writes,
        );
        MANAGER
            .write_status(client, pending_writes, receiver, &old, &status)
            .await?;
        let next_push = handled?;
        published.map(|_| Done {
            requeue_after: check.into_iter().chain(next_push).min(),
            ..Done::UNTIL_CHANGE
        })
    }
}

impl Receivers<'_> {
    /// Sets path and condition, unless it is not known what is published. Returns when to reconcile the Receiver again.
    fn observe(
        &self,
        receiver: &Receiver,
        published: &Result<String, ReceiverError>,
        status: &mut ReceiverStatus,
    ) -> Option<Duration> {
        let (state, check) = match published {
            Ok(path) => {
                status.webhook_path.clone_from(path);
                self.accepting(&receiver.spec)
            }
            Err(error) if error.is_of_user() => {
                status.webhook_path.clear();
                (ConditionState::False(error.reason(), error.to_string()), CHECK)
            }
            Err(_) => return None,
        };
        let generation = receiver.metadata.generation;
        status.observed_generation = generation;
        let now = timestamp(Timestamp::now());
        set_condition(
            &mut status.conditions,
            ConditionType::Ready,
            &state,
            generation,
            &now,
        );
        Some(check)
    }

    /// The condition of a Receiver that is published, and when to reconcile it again.
    fn accepting(&self, spec: &ReceiverSpec) -> (ConditionState, Duration) {
        if spec.suspend {
            let message = "spec.suspend is set; requests are refused with 503".to_owned();
            return (ConditionState::False(Reason::Suspended, message), CHECK);
        }
        if spec.r#type != ReceiverType::Gcr.as_str() {
            return (ConditionState::True(Reason::Accepted), CHECK);
        }
        let published = &self.context.published;
        let has_keys = published.has_google_keys();
        let check = if has_keys {
            CHECK_WITH_KEYS
        } else {
            CHECK_WITHOUT_KEYS
        };
        (google::condition(has_keys, published.google_error()), check)
    }

    /// Publishes a Receiver, and returns its path. A push is no reason to read the token again.
    async fn publish(
        &self,
        name: &NamespacedName,
        receiver: &Receiver,
        permit: &mut WorkerPermit,
    ) -> Result<String, ReceiverError> {
        let published = &self.context.published;
        let current = published.current(receiver, name, CHECK);
        if let Some(digest) = waiting(permit, current).await?? {
            return Ok(webhook_path(&digest));
        }
        published.reading(name);
        match self.entry(name, receiver).await {
            Ok((digest, entry)) => {
                let set = published.set(receiver, name, &digest, entry);
                waiting(permit, set).await??;
                Ok(webhook_path(&digest))
            }
            Err(error) => {
                if error.is_of_user() {
                    self.withdraw(name, permit).await?;
                }
                Err(error)
            }
        }
    }

    /// What is published of a Receiver, and under which path.
    async fn entry(
        &self,
        name: &NamespacedName,
        receiver: &Receiver,
    ) -> Result<(String, Entry), ReceiverError> {
        let spec = &receiver.spec;
        let errors = receiver.errors();
        if !errors.is_empty() {
            return Err(ReceiverError::Invalid(errors));
        }
        let errors = forbidden_receiver_namespaces(spec, &name.namespace, &self.context.privileged);
        if !errors.is_empty() {
            return Err(ReceiverError::Invalid(errors));
        }
        let secret_name = &spec.secret_ref.name;
        let api = Api::<Secret>::namespaced(self.context.client.clone(), &name.namespace);
        let secret = bounded(api.get_opt(&path_segment(secret_name))).await;
        let secret = secret.map_err(CallError::of("read", format!("the Secret {secret_name}")))?;
        let secret = secret.ok_or_else(|| ReceiverError::NoSecret(secret_name.clone()))?;
        let token = SecretContent::of(&secret, &spec.r#type)
            .map_err(|error| ReceiverError::Secret(secret_name.clone(), error))?;
        let entry = Entry {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            r#type: spec.r#type.clone(),
            events: spec.events.clone(),
            suspended: spec.suspend,
            email: token.email,
            audience: token.audience,
            token: token.token,
        };
        Ok((
            path_digest(entry.token.as_bytes(), &name.namespace, &name.name),
            entry,
        ))
    }

    async fn withdraw(&self, name: &NamespacedName, permit: &mut WorkerPermit) -> Result<(), ReceiverError> {
        Ok(waiting(permit, self.context.published.remove(name)).await??)
    }
}

/// The result of something that may wait for the writes of other Receivers. The permit is released meanwhile, or else a tenant whose
/// Receivers change all the time would hold up all other objects.
async fn waiting<T>(permit: &mut WorkerPermit, work: impl Future<Output = T>) -> Result<T, Interrupted> {
    // Large, since it waits and writes.
    let mut work = Box::pin(work);
    match poll_immediate(&mut work).await {
        Some(done) => Ok(done),
        None => permit.release_while(work).await,
    }
}

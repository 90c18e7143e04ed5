//! The Secret that all replicas share.

use futures::Stream;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use super::api::{CallError, FIELD_MANAGER, bounded};
use super::changes::Changes;
use super::stored::SecretData;

/// Reads and writes the Secret.
pub(crate) struct Store {
    api: Api<Secret>,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Store {
    pub(crate) fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Watches the Secret.
    pub(crate) fn watch(&self) -> impl Stream<Item = watcher::Result<Option<Secret>>> + Send + use<> {
        watcher::watch_object(self.api.clone(), &self.name).default_backoff()
    }

    pub(crate) async fn read(&self) -> Result<Option<Secret>, CallError> {
        bounded(self.api.get_opt(&self.name)).await
    }

    /// Updates the observed Secret. The manifests create it: a process that may create Secrets can create one for the token of another
    /// ServiceAccount.
    pub(crate) async fn write(
        &self,
        observed: Option<&Secret>,
        changes: Changes,
    ) -> Result<Secret, CallError> {
        let Some(observed) = observed else {
            return Err(CallError::Failed(format!(
                "Secret {}/{} does not exist; create it without data: apply manifests/base/rbac.yaml or upgrade the Helm release again",
                self.namespace, self.name
            )));
        };
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        bounded(self.api.replace(&self.name, &params, &changed(observed, changes))).await
    }
}

/// A Secret with these changes; its other data stay.
fn changed(observed: &Secret, changes: Changes) -> Secret {
    let mut secret = observed.clone();
    secret.metadata.managed_fields = None;
    let data = secret.data.get_or_insert_default();
    for (key, value) in changes {
        match value {
            Some(value) => data.insert(key.to_owned(), ByteString(value)),
            None => data.remove(key),
        };
    }
    secret
}

pub(crate) fn data(secret: &Secret) -> SecretData {
    let data = secret.data.iter().flatten();
    data.map(|(key, ByteString(value))| (key.clone(), value.clone()))
        .collect()
}

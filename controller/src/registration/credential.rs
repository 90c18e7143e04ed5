//! The credentials of agents, in the namespace where they look for them.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use futures::{TryStreamExt, pin_mut};
use helmops_api::{ClusterRegistration, Decoded, MetadataOnly, NamespacedName, labels, timestamp::until};
use helmops_core::{
    agents::Registration,
    registration::{
        CREDENTIAL_LIFETIME, Credential, Waiting, credential, credential_name, credential_owner, reader,
        registration_of, token_of, token_secret,
    },
};
use helmops_model::names::registered_account;
use helmops_process::Throttle;
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    pages::pages,
    writes::delete_exactly,
};
use k8s_openapi::{
    api::{
        core::v1::Secret,
        rbac::v1::{Role, RoleBinding},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta},
};

use super::{
    RegistrationError,
    requests::Round,
    tokens::{Owned, shown},
};
use crate::writes::MANAGER;

/// Between two looks at the credentials of all workspaces: those of a workspace that is gone have no other.
static SWEEP: LazyLock<Throttle> = LazyLock::new(|| Throttle::new(Duration::from_hours(1)));

/// Writes credentials, and deletes them when no agent needs them any more.
pub(super) struct Credentials<'r> {
    client: &'r Client,
    /// The namespace of the credentials.
    namespace: &'r str,
    workspace: &'r str,
    now: Timestamp,
}

/// What was made of a credential.
pub(super) enum Made {
    Complete,
    Waits(Waiting),
    /// The Secret of this name belongs to another request.
    Taken(String),
}

impl<'r> Credentials<'r> {
    pub(super) fn of(round: &'r Round<'_>) -> Self {
        Self {
            client: &round.context.client,
            namespace: &round.registrations.options.namespace,
            workspace: round.workspace,
            now: round.now,
        }
    }

    /// Whether the name of the credential is that of another request.
    pub(super) async fn is_taken(&self, request: &ClusterRegistration) -> Result<bool, RegistrationError> {
        let found = self.read(self.namespace, &credential_name(request)).await?;
        Ok(found.is_some_and(|found| credential_owner(&found.metadata) != Some(registration_of(request))))
    }

    /// Makes the token of the account, the credential with it, and the permission to read that, as far as possible now.
    pub(super) async fn make(
        &self,
        request: &ClusterRegistration,
        cluster: &NamespacedName,
        namespace: &str,
        account: &str,
        readers: &[String],
    ) -> Result<Made, RegistrationError> {
        let secret = token_secret(&registration_of(request), account, namespace);
        let made = match self.post(&secret).await? {
            Some(made) => made,
            None => self
                .read(namespace, &secret.name_any())
                .await?
                .unwrap_or_default(),
        };
        let Some(token) = token_of(&made, Some(account)) else {
            return Ok(Made::Waits(Waiting::NoCredential(shown(&secret))));
        };
        let of = Credential {
            cluster,
            namespace,
            token,
            registration_namespace: self.namespace,
        };
        let desired = credential(request, &of);
        // Created and never overwritten: everyone who knows both texts of a request can make another one with them, in any workspace.
        if self.post(&desired).await?.is_none() {
            let Some(found) = self.read(self.namespace, &desired.name_any()).await? else {
                return Ok(Made::Waits(Waiting::NoCredential(shown(&desired))));
            };
            if credential_owner(&found.metadata) != Some(registration_of(request)) {
                return Ok(Made::Taken(desired.name_any()));
            }
            if found.data != desired.data {
                // Of an earlier account: it is created again.
                self.delete::<Secret>(self.namespace, &found.name_any(), &delete_exactly(&found))
                    .await?;
                return Ok(Made::Waits(Waiting::NoCredential(shown(&desired))));
            }
        }
        let (role, binding) = reader(request, readers, self.namespace);
        self.post(&role).await?;
        self.post(&binding).await?;
        Ok(Made::Complete)
    }

    /// Deletes the credentials whose agents have had time to read them, and those of requests of this workspace that are gone. Returns when
    /// the next one is due.
    pub(super) async fn collect(
        &self,
        requests: &[Decoded<ClusterRegistration>],
    ) -> Result<Option<Duration>, RegistrationError> {
        let api = &Api::<MetadataOnly<Secret>>::namespaced(self.client.clone(), self.namespace);
        let selector = match SWEEP.allow(Instant::now().into()) {
            Some(_) => labels::REGISTERED_IN.to_owned(),
            None => format!("{}={}", labels::REGISTERED_IN, self.workspace),
        };
        let pages = pages(ListParams::default().labels(&selector), |params| async move {
            api.list(&params).await
        });
        pin_mut!(pages);
        let object = || format!("the Secrets of namespace {}", self.namespace);
        let is_alive = |uid: &str| {
            requests.iter().any(|request| {
                let metadata = request.meta();
                metadata.uid.as_deref() == Some(uid) && metadata.deletion_timestamp.is_none()
            })
        };
        let mut next: Option<Duration> = None;
        while let Some(page) = pages.try_next().await.map_err(CallError::of("list", object()))? {
            for secret in page {
                let Some(owner) = credential_owner(&secret.metadata) else {
                    continue;
                };
                let left = left(&secret.metadata, self.now);
                let is_own = owner.name.namespace == self.workspace;
                // The list of requests may not have all of them.
                if left.is_zero() || is_own && !is_alive(&owner.uid) && self.is_gone(&owner).await? {
                    self.end(&secret, &owner).await?;
                } else if is_own {
                    next = next.into_iter().chain([left]).min();
                }
            }
        }
        Ok(next)
    }

    /// Whether a request does not exist any more, or is being deleted.
    async fn is_gone(&self, owner: &Registration) -> Result<bool, RegistrationError> {
        let api = Api::<ClusterRegistration>::namespaced(self.client.clone(), self.workspace);
        let found = bounded(api.get_metadata_opt(&owner.name.name)).await;
        let object = format_args!("ClusterRegistration {}", owner.name).to_string();
        let found = found.map_err(CallError::of("read", object))?;
        Ok(found.is_none_or(|found| {
            found.metadata.uid.as_deref() != Some(&*owner.uid) || found.metadata.deletion_timestamp.is_some()
        }))
    }

    /// Deletes a credential, and the permission to read it.
    async fn end(
        &self,
        secret: &MetadataOnly<Secret>,
        owner: &Registration,
    ) -> Result<(), RegistrationError> {
        let (name, params) = (registered_account(&owner.uid), DeleteParams::default());
        self.delete::<RoleBinding>(self.namespace, &name, &params).await?;
        self.delete::<Role>(self.namespace, &name, &params).await?;
        self.delete::<Secret>(self.namespace, &secret.name_any(), &delete_exactly(secret))
            .await
    }

    async fn read(&self, namespace: &str, name: &str) -> Result<Option<Secret>, RegistrationError> {
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let found = bounded(api.get_opt(name)).await;
        Ok(found.map_err(CallError::of("read", format_args!("Secret {namespace}/{name}")))?)
    }

    /// Creates an object; `None` if one of its name exists.
    async fn post<K: Owned>(&self, object: &K) -> Result<Option<K>, RegistrationError> {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        match bounded(api.create(&MANAGER.post(), object)).await {
            Ok(created) => Ok(Some(created)),
            Err(error) if error.exists_already() => Ok(None),
            Err(error) => Err(CallError::of("create", shown(object))(error).into()),
        }
    }

    async fn delete<K: Owned>(
        &self,
        namespace: &str,
        name: &str,
        params: &DeleteParams,
    ) -> Result<(), RegistrationError> {
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        let deleted: Result<_, ApiError> = bounded(api.delete(name, params)).await;
        match deleted {
            Err(error) if !error.is_not_found() => {
                let object = format_args!("{} {namespace}/{name}", K::kind(&())).to_string();
                Err(CallError::of("delete", object)(error).into())
            }
            _ => Ok(()),
        }
    }
}

/// The time that its agent still has to read a credential.
fn left(metadata: &ObjectMeta, now: Timestamp) -> Duration {
    let created = metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let end = created.saturating_add(CREDENTIAL_LIFETIME);
    until(now, end.unwrap_or(Timestamp::MAX))
}

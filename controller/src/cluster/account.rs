//! Writes the accounts of agents.

use std::fmt;

use helmops_api::{Cluster, ClusterRegistration, MetadataOnly, NamespacedName};
use helmops_core::agents::{AccountObject, Kind, ObjectId, Registration, Write, account, plan, registered};
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    writes::delete_uid,
};
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    watch::{Accounts, Registrations},
    writes::MANAGER,
};

/// Writes accounts, and records the results in the cache.
pub struct AccountWriter<'c> {
    pub client: &'c Client,
    pub accounts: &'c Accounts,
    /// The registrations whose agents have accounts of their own; `None` if this process registers no clusters.
    pub registrations: Option<&'c Registrations>,
}

impl AccountWriter<'_> {
    /// Gives the agent of a Cluster its account. `namespace` is that of its BundleDeployments.
    ///
    /// # Errors
    /// If a write fails.
    pub async fn ensure(&self, cluster: &Cluster, namespace: &str) -> Result<(), CallError> {
        let name = NamespacedName::of(&cluster.metadata);
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        let mut desired = account(&name, uid, namespace);
        let registrations = self.registrations.map(|known| known.of_cluster(cluster));
        for registration in registrations.into_iter().flatten() {
            desired.extend(registered(&name, uid, namespace, &registration));
        }
        self.execute(&name, desired).await
    }

    /// Deletes the account of a Cluster that is not in the cache, unless the API server still has the Cluster: without its account an
    /// agent has to be joined again.
    ///
    /// # Errors
    /// If a request fails.
    pub async fn delete(&self, cluster: &NamespacedName) -> Result<(), CallError> {
        if self.accounts.select([], cluster).is_empty() {
            return Ok(());
        }
        let api = Api::<MetadataOnly<Cluster>>::namespaced(self.client.clone(), &cluster.namespace);
        let found = bounded(api.get_opt(&cluster.name)).await;
        let found = found.map_err(CallError::of("read", format!("Cluster {cluster}")))?;
        if found.is_some() {
            return Ok(());
        }
        self.execute(cluster, Vec::new()).await
    }

    async fn execute(&self, cluster: &NamespacedName, desired: Vec<AccountObject>) -> Result<(), CallError> {
        let ids: Vec<_> = desired.iter().map(AccountObject::id).collect();
        let observed = self.accounts.select(ids.clone(), cluster);
        for write in plan(cluster, desired, &observed) {
            match write {
                Write::Create(object) => self.create(&object).await?,
                Write::Apply(object) => self.apply(&object).await?,
                Write::Delete(id, uid) => {
                    let is_surplus = !ids.is_empty() && !ids.contains(&id);
                    let registration = observed.get(&id).and_then(|found| found.registration.as_ref());
                    if let (true, Some(registration)) = (is_surplus, registration)
                        && !self.has_ended(registration).await?
                    {
                        continue;
                    }
                    self.remove(&id, uid).await?;
                }
            }
        }
        Ok(())
    }

    /// Whether the account of a registration is not needed any more, as the API server has it: with its account, an agent loses its access for
    /// good, and a cache without the registration may be incomplete. A process that registers no clusters ends no account.
    async fn has_ended(&self, registration: &Registration) -> Result<bool, CallError> {
        if self.registrations.is_none() {
            return Ok(false);
        }
        let name = &registration.name;
        let api = Api::<MetadataOnly<ClusterRegistration>>::namespaced(self.client.clone(), &name.namespace);
        match bounded(api.get(&name.name)).await {
            Ok(found) => {
                let metadata = &found.metadata;
                Ok(metadata.uid.as_ref() != Some(&registration.uid) || metadata.deletion_timestamp.is_some())
            }
            // Not so without its CRD.
            Err(error) if error.is_missing_object() => Ok(true),
            Err(error) => Err(CallError::of("read", format_args!("ClusterRegistration {name}"))(
                error,
            )),
        }
    }

    /// Creates an object. One without the label of accounts is in no cache; it is given the desired content.
    async fn create(&self, object: &AccountObject) -> Result<(), CallError> {
        let id = object.id();
        let created = match object {
            AccountObject::ServiceAccount(object) => self.post(&id, object).await,
            AccountObject::Role(object) => self.post(&id, object).await,
            AccountObject::RoleBinding(object) => self.post(&id, object).await,
            AccountObject::ClusterRoleBinding(object) => self.post(&id, object).await,
        };
        match created {
            Err(error) if error.exists_already() => self.apply(object).await,
            created => created.map_err(CallError::of("create", id)),
        }
    }

    async fn apply(&self, object: &AccountObject) -> Result<(), CallError> {
        let id = object.id();
        let applied = match object {
            AccountObject::ServiceAccount(object) => self.patch(&id, object).await,
            AccountObject::Role(object) => self.patch(&id, object).await,
            AccountObject::RoleBinding(object) => self.patch(&id, object).await,
            AccountObject::ClusterRoleBinding(object) => self.patch(&id, object).await,
        };
        applied.map_err(CallError::of("apply", id))
    }

    async fn remove(&self, id: &ObjectId, uid: Option<String>) -> Result<(), CallError> {
        let params = delete_uid(uid);
        let deleted = match id.kind {
            Kind::ServiceAccount => self.delete_object::<ServiceAccount>(id, &params).await,
            Kind::Role => self.delete_object::<Role>(id, &params).await,
            Kind::RoleBinding => self.delete_object::<RoleBinding>(id, &params).await,
            Kind::ClusterRoleBinding => self.delete_object::<ClusterRoleBinding>(id, &params).await,
        };
        match deleted {
            Err(error) if !error.is_not_found() => Err(CallError::of("delete", id)(error)),
            _ => {
                self.accounts.deleted(id);
                Ok(())
            }
        }
    }

    async fn post<K: Permissions>(&self, id: &ObjectId, object: &K) -> Result<(), ApiError> {
        let created: K = bounded(K::api(self.client, id).create(&MANAGER.post(), object)).await?;
        self.accounts.wrote(id, created.into().observed());
        Ok(())
    }

    async fn patch<K: Permissions>(&self, id: &ObjectId, object: &K) -> Result<(), ApiError> {
        let params = MANAGER.patch().force();
        let applied: K =
            bounded(K::api(self.client, id).patch(&id.name.name, &params, &Patch::Apply(object))).await?;
        self.accounts.wrote(id, applied.into().observed());
        Ok(())
    }

    async fn delete_object<K: Permissions>(
        &self,
        id: &ObjectId,
        params: &DeleteParams,
    ) -> Result<(), ApiError> {
        bounded(K::api(self.client, id).delete(&id.name.name, params))
            .await
            .map(drop)
    }
}

/// A kind of an account.
trait Permissions:
    Resource<DynamicType = ()> + Clone + fmt::Debug + Serialize + DeserializeOwned + Into<AccountObject>
{
    /// Where an object of it is.
    fn api(client: &Client, id: &ObjectId) -> Api<Self>;
}

macro_rules! namespaced {
    ($($kind:ty),*) => {
        $(impl Permissions for $kind {
            fn api(client: &Client, id: &ObjectId) -> Api<Self> {
                Api::namespaced(client.clone(), &id.name.namespace)
            }
        })*
    };
}

namespaced!(ServiceAccount, Role, RoleBinding);

impl Permissions for ClusterRoleBinding {
    fn api(client: &Client, _: &ObjectId) -> Api<Self> {
        Api::all(client.clone())
    }
}

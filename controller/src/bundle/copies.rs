//! Copies in the namespaces of clusters: written, mended and cleared away.

use std::collections::BTreeSet;

use helmops_shared::{
    api::{BundleDeployment, labels},
    targeting::copies::{Copy, Kind, Object, Role, downstream, owner},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

use super::DeliveryError;
use crate::{
    client::{ApiError, bounded},
    context::{Context, FIELD_MANAGER},
    watch::{Copies, Place},
};

/// Why a copy is not there.
pub enum CopyError {
    /// The name is taken by something that must stay.
    Taken(String),
    /// It could not be written.
    Failed(DeliveryError),
}

/// The copies of a deployment's namespace.
pub struct CopiesOf<'c> {
    /// The API server and so on.
    pub context: &'c Context,
    /// As they were last seen.
    pub copies: &'c Copies,
}

impl CopiesOf<'_> {
    /// Brings a copy to what it is to be. `deployment` is what it is for, as it is stored, or is to be.
    pub async fn ensure(&self, copy: &Copy, deployment: &BundleDeployment) -> Result<(), CopyError> {
        let place = place(copy);
        self.check(copy, &place, deployment)?;
        let owners = self.owners(copy, deployment);
        if let Some(known) = self.copies.get(&place) {
            let uids: BTreeSet<_> = known.owners.iter().map(|(_, uid)| uid).collect();
            let is_owned = owners.iter().all(|owner| uids.contains(&owner.uid)) && uids.len() == owners.len();
            if is_owned && known.is(&copy.made_from, copy.object.keys()) {
                return Ok(());
            }
        }
        let (kind, _, name) = &place;
        let written = self.write(&copy.object, owners).await;
        let metadata = written.map_err(|error| {
            CopyError::Failed(DeliveryError::of("write", format_args!("{kind} {name}"))(error))
        })?;
        self.copies.wrote(*kind, &metadata);
        Ok(())
    }

    /// Two that have the same name would overwrite one another again and again.
    fn check(&self, copy: &Copy, place: &Place, deployment: &BundleDeployment) -> Result<(), CopyError> {
        if copy.role != Role::Downstream {
            return Ok(());
        }
        let (kind, namespace, name) = place;
        let of_values = *kind == Kind::Secret && deployment.metadata.name.as_ref() == Some(name);
        let known = self.copies.get(place);
        let other = known.filter(|known| {
            let own = deployment
                .metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(labels::BUNDLE_NAMESPACE));
            known.role != Role::Downstream || Some(&known.bundle_namespace) != own
        });
        match other {
            Some(_) | None if of_values => Err(CopyError::Taken(format!(
                "spec.downstreamResources: Secret {name} has the name of the Bundle, whose values are in a Secret of that \
                 name on the cluster; rename one of them"
            ))),
            Some(other) => Err(CopyError::Taken(format!(
                "spec.downstreamResources: the cluster's namespace {namespace} has a {kind} {name} for Bundles of namespace \
                 {} already; rename one of them",
                other.bundle_namespace
            ))),
            None => Ok(()),
        }
    }

    /// A downstream resource belongs to all deployments of the cluster that name it.
    fn owners(&self, copy: &Copy, deployment: &BundleDeployment) -> Vec<OwnerReference> {
        let own = owner(deployment, copy.role);
        if copy.role != Role::Downstream {
            return own.into_iter().collect();
        }
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let (kind, name) = (copy.object.kind(), copy.object.metadata().name.clone());
        let names_it = |other: &BundleDeployment| {
            [&other.spec.options, &other.spec.staged_options]
                .into_iter()
                .any(|options| {
                    let mut sources = downstream(options).unwrap_or_default().into_iter();
                    sources.any(|source| source.kind == kind && Some(&source.name) == name.as_ref())
                })
        };
        let others = self.context.stores.deployments.in_namespace(namespace);
        let others = others.iter().filter_map(|other| other.good()).filter(|other| {
            other.metadata.uid != deployment.metadata.uid
                && other.metadata.deletion_timestamp.is_none()
                && names_it(other)
        });
        others
            .filter_map(|other| owner(other, copy.role))
            .chain(own)
            .collect()
    }

    async fn write(&self, object: &Object, owners: Vec<OwnerReference>) -> Result<ObjectMeta, ApiError> {
        match object {
            Object::Secret(secret) => {
                let mut secret = secret.clone();
                secret.metadata.owner_references = Some(owners);
                let same = |one: &Secret, other: &Secret| one.data == other.data;
                self.put(secret, same).await
            }
            Object::ConfigMap(map) => {
                let mut map = map.clone();
                map.metadata.owner_references = Some(owners);
                let same = |one: &ConfigMap, other: &ConfigMap| {
                    (&one.data, &one.binary_data) == (&other.data, &other.binary_data)
                };
                self.put(map, same).await
            }
        }
    }

    /// Applies it. Keys that somebody else has put beside ours go with a second write, and what cannot be changed, such as
    /// the type of a Secret, is made anew.
    async fn put<K>(&self, object: K, is_same: fn(&K, &K) -> bool) -> Result<ObjectMeta, ApiError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let (name, namespace) = (
            object.meta().name.clone().unwrap_or_default(),
            object.meta().namespace.clone().unwrap_or_default(),
        );
        let api = Api::<K>::namespaced(self.context.client.clone(), &namespace);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        let applied = match bounded(api.patch(&name, &params, &patch)).await {
            Err(error) if error.is_invalid() => {
                bounded(api.delete(&name, &DeleteParams::default())).await?;
                bounded(api.patch(&name, &params, &patch)).await?
            }
            other => other?,
        };
        if is_same(&applied, &object) {
            return Ok(applied.meta().clone());
        }
        let mut whole = object;
        whole
            .meta_mut()
            .resource_version
            .clone_from(&applied.meta().resource_version);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let replaced = bounded(api.replace(&name, &params, &whole)).await?;
        Ok(replaced.meta().clone())
    }

    /// Clears away copies that a deployment owns and needs no more. `needed` are those that it does.
    pub async fn clear(
        &self,
        deployment: &BundleDeployment,
        needed: &BTreeSet<Place>,
    ) -> Result<(), DeliveryError> {
        let (Some(uid), Some(namespace)) = (&deployment.metadata.uid, &deployment.metadata.namespace) else {
            return Ok(());
        };
        for (place, copy) in self.copies.owned_by(namespace, uid) {
            if needed.contains(&place) {
                continue;
            }
            let is_shared = copy.owners.iter().any(|(_, owner)| owner != uid);
            let (kind, _, name) = &place;
            let cleared = match (kind, is_shared) {
                (Kind::Secret, true) => self.disown::<Secret>(&place, uid).await,
                (Kind::ConfigMap, true) => self.disown::<ConfigMap>(&place, uid).await,
                (Kind::Secret, false) => self.delete::<Secret>(&place).await,
                (Kind::ConfigMap, false) => self.delete::<ConfigMap>(&place).await,
            };
            cleared.map_err(DeliveryError::of(
                "clear away",
                format_args!("{kind} {namespace}/{name}"),
            ))?;
        }
        Ok(())
    }

    async fn delete<K>(&self, place: &Place) -> Result<(), ApiError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let (_, namespace, name) = place;
        let api = Api::<K>::namespaced(self.context.client.clone(), namespace);
        match bounded(api.delete(name, &DeleteParams::default())).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => {
                self.copies.deleted(place);
                Ok(())
            }
        }
    }

    /// Leaves it to its other owners.
    async fn disown<K>(&self, place: &Place, uid: &str) -> Result<(), ApiError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let (kind, namespace, name) = place;
        let api = Api::<kube::core::PartialObjectMeta<K>>::namespaced(self.context.client.clone(), namespace);
        let Some(found) = bounded(api.get_opt(name)).await? else {
            return Ok(());
        };
        let owners = found.metadata.owner_references.unwrap_or_default();
        let others: Vec<_> = owners.into_iter().filter(|owner| owner.uid != uid).collect();
        let patch = serde_json::json!({ "metadata": {
            "resourceVersion": found.metadata.resource_version, "ownerReferences": others
        } });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = bounded(api.patch(name, &params, &Patch::Merge(patch))).await?;
        self.copies.wrote(*kind, &patched.metadata);
        Ok(())
    }
}

/// Where a copy is.
pub fn place(copy: &Copy) -> Place {
    let metadata = copy.object.metadata();
    (
        copy.object.kind(),
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

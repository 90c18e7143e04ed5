//! Copies in the namespaces of clusters: written, mended and cleared away.

use std::collections::BTreeSet;

use helmops_shared::{
    api::{Bundle, BundleDeployment, labels},
    targeting::copies::{Copy, Kind, Object, Role, Source, owner},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{DeliveryError, deliver::named};
use crate::{
    client::{ApiError, bounded},
    context::Context,
    watch::{self, Copies, CopyPlace},
    work::BundleKey,
    writes,
};

/// The copies of a deployment's namespace.
pub struct CopiesOf<'c> {
    /// The API server and so on.
    pub context: &'c Context,
    /// As they were last seen.
    pub copies: &'c Copies,
}

impl CopiesOf<'_> {
    /// Brings a copy to what it is to be. `deployment` is what it is for, as it is stored, or is to be.
    pub async fn ensure(&self, copy: &Copy, deployment: &BundleDeployment) -> Result<(), DeliveryError> {
        let place = place(copy);
        let owners = self.owners(copy, deployment);
        let known = self.copies.get(&place);
        if let Some(known) = &known {
            let is_owned = owners
                .iter()
                .all(|owner| known.owners.iter().any(|(_, uid)| *uid == owner.uid));
            if is_owned && known.is(&copy.made_from, copy.object.keys()) {
                return Ok(());
            }
        }
        let (kind, namespace, name) = &place;
        let metadata = self.write(&copy.object, owners, known.is_some()).await?;
        let Some(metadata) = metadata else {
            return Err(DeliveryError::Taken(format!(
                "the cluster's namespace {namespace} has a {kind} {name} of somebody else's; rename or delete it"
            )));
        };
        self.copies.wrote(*kind, &metadata);
        Ok(())
    }

    /// Why a downstream resource cannot have a copy: two that have the same name would overwrite one another again and again.
    pub fn taken(&self, bundle: &Bundle, namespace: &str, source: &Source) -> Option<String> {
        let Source { kind, name } = source;
        if *kind == Kind::Secret && bundle.metadata.name.as_ref() == Some(name) {
            return Some(format!(
                "spec.downstreamResources: Secret {name} has the name of the Bundle, whose values are in a Secret of that \
                 name on the cluster; rename one of them"
            ));
        }
        let known = self.copies.get(&(*kind, namespace.to_owned(), name.clone()))?;
        let is_other = known.role != Role::Downstream
            || Some(&known.bundle_namespace) != bundle.metadata.namespace.as_ref();
        is_other.then(|| {
            format!(
                "spec.downstreamResources: the cluster's namespace {namespace} has a {kind} {name} for Bundles of \
                 namespace {} already; rename one of them",
                known.bundle_namespace
            )
        })
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
            named(other)
                .iter()
                .any(|source| source.kind == kind && Some(&source.name) == name.as_ref())
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

    /// Writes it; nothing where somebody else's has its name.
    async fn write(
        &self,
        object: &Object,
        owners: Vec<OwnerReference>,
        is_known: bool,
    ) -> Result<Option<ObjectMeta>, DeliveryError> {
        let metadata = object.metadata();
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let what = format!(
            "{} {}/{}",
            object.kind(),
            text(&metadata.namespace),
            text(&metadata.name)
        );
        let written = match object {
            Object::Secret(secret) => {
                let mut secret = secret.clone();
                secret.metadata.owner_references = Some(owners);
                self.put(secret, is_known).await
            }
            Object::ConfigMap(map) => {
                let mut map = map.clone();
                map.metadata.owner_references = Some(owners);
                self.put(map, is_known).await
            }
        };
        written.map_err(DeliveryError::of("write", what))
    }

    /// Creates or applies it. Keys that somebody else has put beside ours go with a second write, and a Secret of another type
    /// is made anew.
    async fn put<K: Copyable>(&self, object: K, is_known: bool) -> Result<Option<ObjectMeta>, ApiError> {
        let (name, namespace) = (
            object.meta().name.clone().unwrap_or_default(),
            object.meta().namespace.clone().unwrap_or_default(),
        );
        let api = Api::<K>::namespaced(self.context.client.clone(), &namespace);
        let create = writes::post();
        if !is_known {
            match bounded(api.create(&create, &object)).await {
                Err(error) if error.exists_already() => {}
                created => return Ok(Some(created?.meta().clone())),
            }
            let Some(found) = bounded(api.get_opt(&name)).await? else {
                return Err(ApiError::gone(&name));
            };
            if !is_ours(&found) {
                return Ok(None);
            }
            if !found.has_type_of(&object) {
                bounded(api.delete(&name, &writes::delete(&found))).await?;
                return Ok(Some(bounded(api.create(&create, &object)).await?.meta().clone()));
            }
        }
        let params = writes::patch().force();
        let applied = bounded(api.patch(&name, &params, &Patch::Apply(&object))).await?;
        if applied.has_data_of(&object) {
            return Ok(Some(applied.meta().clone()));
        }
        let mut whole = object;
        whole
            .meta_mut()
            .resource_version
            .clone_from(&applied.meta().resource_version);
        let replaced = bounded(api.replace(&name, &create, &whole)).await?;
        Ok(Some(replaced.meta().clone()))
    }

    /// Clears away copies that a deployment owns and needs no more. `needed` are those that it does.
    pub async fn clear(
        &self,
        deployment: &BundleDeployment,
        needed: &BTreeSet<CopyPlace>,
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

    /// Clears away what was made for deployments of a Bundle that never came to be.
    pub async fn clear_unowned(&self, bundle: &BundleKey) -> Result<(), DeliveryError> {
        for place in self.copies.without_owner(bundle) {
            let cleared = match place.0 {
                Kind::Secret => self.delete::<Secret>(&place).await,
                Kind::ConfigMap => self.delete::<ConfigMap>(&place).await,
            };
            let (kind, namespace, name) = &place;
            cleared.map_err(DeliveryError::of(
                "clear away",
                format_args!("{kind} {namespace}/{name}"),
            ))?;
        }
        Ok(())
    }

    async fn delete<K>(&self, place: &CopyPlace) -> Result<(), ApiError>
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
    async fn disown<K>(&self, place: &CopyPlace, uid: &str) -> Result<(), ApiError>
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
        let patched = bounded(api.patch(name, &writes::patch(), &Patch::Merge(patch))).await?;
        self.copies.wrote(*kind, &patched.metadata);
        Ok(())
    }
}

/// A kind that copies are of.
trait Copyable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
{
    /// Whether it holds the same.
    fn has_data_of(&self, other: &Self) -> bool;
    /// Whether it is of the same type, which cannot be changed.
    fn has_type_of(&self, other: &Self) -> bool;
    /// Whether its type says that Fleet made it.
    fn is_of_fleet(&self) -> bool;
}

impl Copyable for Secret {
    fn has_data_of(&self, other: &Self) -> bool {
        self.data == other.data
    }

    fn has_type_of(&self, other: &Self) -> bool {
        self.type_ == other.type_ || other.type_.is_none()
    }

    fn is_of_fleet(&self) -> bool {
        let told = self.type_.as_deref().unwrap_or_default();
        told.starts_with("fleet.cattle.io/")
    }
}

impl Copyable for ConfigMap {
    fn has_data_of(&self, other: &Self) -> bool {
        (&self.data, &self.binary_data) == (&other.data, &other.binary_data)
    }

    fn has_type_of(&self, _: &Self) -> bool {
        true
    }

    fn is_of_fleet(&self) -> bool {
        false
    }
}

/// Whether something was made for a deployment, here or by Fleet's own controller.
fn is_ours(found: &impl Copyable) -> bool {
    let metadata = found.meta();
    let kind = BundleDeployment::kind(&());
    let mut owners = metadata.owner_references.iter().flatten();
    let is_labelled = metadata
        .labels
        .as_ref()
        .is_some_and(|own| own.contains_key(labels::COPY));
    is_labelled || found.is_of_fleet() || owners.any(|owner| owner.kind == kind)
}

/// Where a copy is.
pub fn place(copy: &Copy) -> CopyPlace {
    watch::place(copy.object.kind(), copy.object.metadata())
}

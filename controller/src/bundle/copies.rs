//! Copies in the namespaces of clusters: written, mended and cleared away.

use std::collections::BTreeSet;

use helmops_shared::{
    api::{Bundle, BundleDeployment, MetadataWithManagers, labels},
    targeting::copies::{Copy, Kind, Object, Role, Source, owner},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Api, Resource, api::Patch};
use serde::{Serialize, de::DeserializeOwned};

use super::{DeliveryError, deliver::named};
use crate::{
    client::{ApiError, bounded},
    context::Context,
    watch::{self, Copies, CopyPlace},
    work::BundleKey,
    writes,
};

/// The UID of no deployment.
const NOBODY: &str = "";

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

    /// Creates or applies it. A Secret of another type is made anew.
    async fn put<K: Copyable>(&self, object: K, is_known: bool) -> Result<Option<ObjectMeta>, ApiError> {
        let (name, namespace) = (
            object.meta().name.clone().unwrap_or_default(),
            object.meta().namespace.clone().unwrap_or_default(),
        );
        let api = Api::<K>::namespaced(self.context.client.clone(), &namespace);
        if is_known {
            match apply(&api, &name, &object).await {
                // Perhaps for its type, of which the metadata tell nothing.
                Err(error) if error.is_invalid() => {}
                applied => return applied.map(Some),
            }
        } else {
            match bounded(api.create(&writes::post(), &object)).await {
                Err(error) if error.exists_already() => {}
                created => return Ok(Some(created?.meta().clone())),
            }
        }
        let Some(found) = bounded(api.get_opt(&name)).await? else {
            return Err(ApiError::gone(&name));
        };
        if !is_ours(&found) {
            return Ok(None);
        }
        if found.has_type_of(&object) {
            return apply(&api, &name, &object).await.map(Some);
        }
        bounded(api.delete(&name, &writes::delete(&found))).await?;
        let created = bounded(api.create(&writes::post(), &object)).await?;
        Ok(Some(created.meta().clone()))
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
        for place in self.copies.owned_by(namespace, uid) {
            if !needed.contains(&place) {
                self.leave(&place, uid).await?;
            }
        }
        Ok(())
    }

    /// Clears away what was made for deployments of a Bundle that never came to be.
    pub async fn clear_unowned(&self, bundle: &BundleKey) -> Result<(), DeliveryError> {
        for place in self.copies.without_owner(bundle) {
            self.leave(&place, NOBODY).await?;
        }
        Ok(())
    }

    /// Leaves a copy to its other owners, or deletes it where there are none.
    async fn leave(&self, place: &CopyPlace, uid: &str) -> Result<(), DeliveryError> {
        let (kind, namespace, name) = place;
        let left = match kind {
            Kind::Secret => self.disown::<Secret>(place, uid).await,
            Kind::ConfigMap => self.disown::<ConfigMap>(place, uid).await,
        };
        left.map_err(DeliveryError::of(
            "clear away",
            format_args!("{kind} {namespace}/{name}"),
        ))
    }

    /// Somebody may become an owner at the same time: what is not as it was read stays as it is, and is looked at again.
    async fn disown<K: Copyable>(&self, place: &CopyPlace, uid: &str) -> Result<(), ApiError> {
        let (kind, namespace, name) = place;
        let api = Api::<MetadataWithManagers<K>>::namespaced(self.context.client.clone(), namespace);
        let Some(found) = bounded(api.get_opt(name)).await? else {
            self.copies.deleted(place);
            return Ok(());
        };
        let owners = found.meta().owner_references.iter().flatten();
        let others: Vec<_> = owners.filter(|owner| owner.uid != uid).collect();
        if others.is_empty() {
            bounded(api.delete(name, &writes::delete_unchanged(&found))).await?;
            self.copies.deleted(place);
            return Ok(());
        }
        let patch = serde_json::json!({ "metadata": {
            "resourceVersion": found.meta().resource_version, "ownerReferences": others
        } });
        let patched = bounded(api.patch(name, &writes::patch(), &Patch::Merge(patch))).await?;
        self.copies.wrote(*kind, patched.meta());
        Ok(())
    }
}

/// Applies it. Keys that somebody else has put beside ours go with a second write.
async fn apply<K: Copyable>(api: &Api<K>, name: &str, object: &K) -> Result<ObjectMeta, ApiError> {
    let params = writes::patch().force();
    let applied = bounded(api.patch(name, &params, &Patch::Apply(object))).await?;
    if applied.has_data_of(object) {
        return Ok(applied.meta().clone());
    }
    let mut whole = object.clone();
    whole
        .meta_mut()
        .resource_version
        .clone_from(&applied.meta().resource_version);
    let replaced = bounded(api.replace(name, &writes::post(), &whole)).await?;
    Ok(replaced.meta().clone())
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

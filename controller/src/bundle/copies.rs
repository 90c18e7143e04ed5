//! Copies in the namespaces of clusters: creates, repairs and prunes them.

use std::{collections::BTreeSet, sync::Arc};

use helmops_api::{Bundle, BundleDeployment, Decoded, MetadataWithManagers, NamespacedName};
use helmops_core::targeting::{
    copies::{Copy, CopyKind, CopyPurpose, CopyRole, ExistingObject, Object, SourceRef, owner},
    deployment::CopyState,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Api, Resource, api::Patch};
use serde::{Serialize, de::DeserializeOwned};

use super::{DeliveryError, deliver::referenced_sources};
use crate::{
    client::{ApiError, bounded},
    context::Context,
    watch::{self, Copies, CopyRef, Deployment, ObservedCopy},
    work::BundleKey,
    writes,
};

/// The UID of no deployment.
const NO_UID: &str = "";

/// Writes and deletes copies.
pub struct CopyManager<'c> {
    /// Clients and caches.
    pub context: &'c Context,
    /// The cache of copies.
    pub copies: &'c Copies,
}

impl CopyManager<'_> {
    /// Creates or repairs a copy. `deployment` is the stored or desired deployment that needs it.
    pub async fn ensure(&self, copy: &Copy, deployment: &BundleDeployment) -> Result<(), DeliveryError> {
        let reference = reference(copy);
        let owners = self.owners(copy, deployment);
        let known = self.copies.get(&reference).filter(|known| known.is_for(copy));
        let is_up_to_date = known.as_ref().is_some_and(|known| is_up_to_date(known, copy));
        if let Some(known) = &known {
            let is_owned = owners
                .iter()
                .all(|owner| known.owners.iter().any(|(_, uid)| *uid == owner.uid));
            if is_owned && (is_up_to_date || known.has_data_of(&copy.copied_from)) {
                return Ok(());
            }
        }
        let desired = DesiredCopy {
            copy,
            deployment,
            is_known: known.is_some(),
            // The agent redeploys when anything of the object changes, even a label.
            may_keep: copy.role == CopyRole::Downstream && !is_up_to_date,
        };
        let CopyRef { kind, name } = &reference;
        match self.write(&desired, owners).await? {
            WriteResult::Written(metadata) => self.copies.wrote(*kind, &metadata),
            WriteResult::Kept(metadata) => self.copies.record_unchanged(copy, &metadata),
            WriteResult::Foreign => {
                return Err(DeliveryError::NameConflict(format!(
                    "the cluster's namespace {namespace} has a {kind} {name} that helmops does not manage and that was not \
                     made from {source}; rename or delete it",
                    namespace = name.namespace,
                    name = name.name,
                    source = source_of(copy),
                )));
            }
        }
        Ok(())
    }

    /// Compares the copy of a downstream resource with its source.
    pub async fn state(&self, copy: &Copy) -> Result<CopyState, DeliveryError> {
        let reference = reference(copy);
        if let Some(known) = self.copies.get(&reference)
            && known.is_for(copy)
            && (is_up_to_date(&known, copy) || known.has_data_of(&copy.copied_from))
        {
            return Ok(same_content(copy, known.copied_from));
        }
        let CopyRef { kind, name } = &reference;
        let state = match &copy.object {
            Object::Secret(secret) => self.compare(copy, secret).await,
            Object::ConfigMap(map) => self.compare(copy, map).await,
        };
        state.map_err(DeliveryError::api("read", format_args!("{kind} {name}")))
    }

    async fn compare<K: Copyable>(&self, copy: &Copy, object: &K) -> Result<CopyState, ApiError> {
        let CopyRef { name, .. } = reference(copy);
        let api = Api::<K>::namespaced(self.context.client.clone(), &name.namespace);
        let Some(found) = bounded(api.get_opt(&name.name)).await? else {
            return Ok(CopyState::Missing);
        };
        if !found.has_same_content(object) {
            return Ok(CopyState::Different);
        }
        let has_same_purpose = CopyPurpose::of(found.meta()) == CopyPurpose::of(object.meta());
        Ok(same_content(
            copy,
            watch::copied_from(found.meta()).filter(|_| has_same_purpose),
        ))
    }

    /// The deployments in the namespace of a deployment, and the desired deployment itself.
    fn deployments(&self, deployment: &BundleDeployment) -> Vec<Deployment> {
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let own = Decoded::Valid(Arc::new(deployment.clone()));
        let mut all = self.context.stores.deployments.in_namespace(namespace);
        all.push(Arc::new(own));
        all
    }

    /// Why a downstream resource cannot be copied: two copies with the same name would overwrite each other again and again.
    pub fn name_conflict(&self, bundle: &Bundle, namespace: &str, source: &SourceRef) -> Option<String> {
        let SourceRef { kind, name } = source;
        if *kind == CopyKind::Secret && bundle.metadata.name.as_ref() == Some(name) {
            return Some(format!(
                "spec.downstreamResources: Secret {name} has the name of the Bundle, whose values are in a Secret of that \
                 name on the cluster; rename one of them"
            ));
        }
        let known = self.copies.get(&CopyRef {
            kind: *kind,
            name: NamespacedName::new(namespace, name),
        })?;
        if known.same_data_as.is_some() && !self.is_owned(&known, namespace) {
            // It was deleted with its deployment: no watch shows what another controller created.
            return None;
        }
        let purpose = &known.purpose;
        let is_other = purpose.role != CopyRole::Downstream
            || Some(&purpose.bundle_namespace) != bundle.metadata.namespace.as_ref();
        is_other.then(|| {
            format!(
                "spec.downstreamResources: the cluster's namespace {namespace} already has a {kind} {name} for Bundles of \
                 namespace {}; rename one of them",
                purpose.bundle_namespace
            )
        })
    }

    fn is_owned(&self, known: &ObservedCopy, namespace: &str) -> bool {
        let deployments = self.context.stores.deployments.in_namespace(namespace);
        deployments.iter().any(|deployment| {
            let uid = deployment.meta().uid.as_ref();
            known.owners.iter().any(|(_, owner)| Some(owner) == uid)
        })
    }

    /// The owners of a copy. A downstream resource is owned by all deployments of the cluster that reference it.
    fn owners(&self, copy: &Copy, deployment: &BundleDeployment) -> Vec<OwnerReference> {
        let own = owner(deployment, copy.role);
        if copy.role != CopyRole::Downstream {
            return own.into_iter().collect();
        }
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let (kind, name) = (copy.object.kind(), copy.object.metadata().name.clone());
        let references_it = |other: &BundleDeployment| {
            referenced_sources(other)
                .iter()
                .any(|source| source.kind == kind && Some(&source.name) == name.as_ref())
        };
        let others = self.context.stores.deployments.in_namespace(namespace);
        let others = others.iter().filter_map(|other| other.valid()).filter(|other| {
            other.metadata.uid != deployment.metadata.uid
                && other.metadata.deletion_timestamp.is_none()
                && references_it(other)
        });
        others
            .filter_map(|other| owner(other, copy.role))
            .chain(own)
            .collect()
    }

    /// Writes a copy, unless an object that this controller does not manage has the name, or the existing object may be kept.
    async fn write(
        &self,
        desired: &DesiredCopy<'_>,
        owners: Vec<OwnerReference>,
    ) -> Result<WriteResult, DeliveryError> {
        let object = &desired.copy.object;
        let metadata = object.metadata();
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let object_name = format!(
            "{} {}/{}",
            object.kind(),
            text(&metadata.namespace),
            text(&metadata.name)
        );
        let written = match object {
            Object::Secret(secret) => {
                let mut secret = secret.clone();
                secret.metadata.owner_references = Some(owners);
                self.put(secret, desired).await
            }
            Object::ConfigMap(map) => {
                let mut map = map.clone();
                map.metadata.owner_references = Some(owners);
                self.put(map, desired).await
            }
        };
        written.map_err(DeliveryError::api("write", object_name))
    }

    /// Creates or applies a copy. A Secret of another type is deleted and created again.
    async fn put<K: Copyable>(&self, object: K, desired: &DesiredCopy<'_>) -> Result<WriteResult, ApiError> {
        let (name, namespace) = (
            object.meta().name.clone().unwrap_or_default(),
            object.meta().namespace.clone().unwrap_or_default(),
        );
        let api = Api::<K>::namespaced(self.context.client.clone(), &namespace);
        if !desired.is_known {
            match bounded(api.create(&writes::post(), &object)).await {
                Err(error) if error.exists_already() => {}
                created => return Ok(WriteResult::Written(created?.meta().clone())),
            }
        } else if !desired.may_keep {
            match apply(&api, &name, &object).await {
                // Perhaps because of the type, which the metadata do not contain.
                Err(error) if error.is_invalid() => {}
                applied => return applied.map(WriteResult::Written),
            }
        }
        let Some(found) = bounded(api.get_opt(&name)).await? else {
            if desired.is_known {
                let created = bounded(api.create(&writes::post(), &object)).await?;
                return Ok(WriteResult::Written(created.meta().clone()));
            }
            return Err(ApiError::deleted(&name));
        };
        if !self.has_same_purpose(desired, &found) {
            return Ok(WriteResult::Foreign);
        }
        if desired.may_keep && found.has_same_content(&object) {
            return add_owners(&api, &found, &object).await.map(WriteResult::Kept);
        }
        if found.has_same_type(&object) {
            return apply(&api, &name, &object).await.map(WriteResult::Written);
        }
        bounded(api.delete(&name, &writes::delete(&found))).await?;
        let created = bounded(api.create(&writes::post(), &object)).await?;
        Ok(WriteResult::Written(created.meta().clone()))
    }

    /// Whether an existing object of this name was created for the same purpose, by this controller or by Fleet's own.
    fn has_same_purpose(&self, desired: &DesiredCopy<'_>, found: &impl Copyable) -> bool {
        let deployments = self.deployments(desired.deployment);
        let deployments: Vec<_> = deployments
            .iter()
            .filter_map(|deployment| deployment.valid())
            .collect();
        let found = ExistingObject {
            metadata: found.meta(),
            type_: found.secret_type(),
        };
        desired.copy.is_same(found, &deployments)
    }

    /// Prunes the copies that a deployment owns, except those that it needs (`needed`).
    pub async fn prune(
        &self,
        deployment: &BundleDeployment,
        needed: &BTreeSet<CopyRef>,
    ) -> Result<(), DeliveryError> {
        let (Some(uid), Some(namespace)) = (&deployment.metadata.uid, &deployment.metadata.namespace) else {
            return Ok(());
        };
        for reference in self.copies.owned_by(namespace, uid) {
            if !needed.contains(&reference) {
                self.release(&reference, uid).await?;
            }
        }
        Ok(())
    }

    /// Prunes the copies for deployments of a Bundle that were never created.
    pub async fn prune_unowned(&self, bundle: &BundleKey) -> Result<(), DeliveryError> {
        for reference in self.copies.without_owner(bundle) {
            self.release(&reference, NO_UID).await?;
        }
        Ok(())
    }

    /// Removes a deployment from the owners of a copy, and deletes the copy if there is no other owner.
    async fn release(&self, reference: &CopyRef, uid: &str) -> Result<(), DeliveryError> {
        let CopyRef { kind, name } = reference;
        let released = match kind {
            CopyKind::Secret => self.remove_owner::<Secret>(reference, uid).await,
            CopyKind::ConfigMap => self.remove_owner::<ConfigMap>(reference, uid).await,
        };
        released.map_err(DeliveryError::api("prune", format_args!("{kind} {name}")))
    }

    /// Another deployment may become an owner at the same time: a copy that changed since it was read is kept, and the error is
    /// retried.
    async fn remove_owner<K: Copyable>(&self, reference: &CopyRef, uid: &str) -> Result<(), ApiError> {
        let CopyRef { kind, name } = reference;
        let api = Api::<MetadataWithManagers<K>>::namespaced(self.context.client.clone(), &name.namespace);
        let Some(found) = bounded(api.get_opt(&name.name)).await? else {
            self.copies.deleted(reference);
            return Ok(());
        };
        let owners = found.meta().owner_references.iter().flatten();
        let others: Vec<_> = owners.filter(|owner| owner.uid != uid).collect();
        if others.is_empty() {
            bounded(api.delete(&name.name, &writes::delete_unchanged(&found))).await?;
            self.copies.deleted(reference);
            return Ok(());
        }
        let others: Vec<_> = others.into_iter().cloned().collect();
        let updated = writes::owners(&api, &found, &others).await?;
        self.copies.wrote(*kind, updated.meta());
        Ok(())
    }
}

/// Applies a copy. A second write removes the keys that another client has added.
async fn apply<K: Copyable>(api: &Api<K>, name: &str, object: &K) -> Result<ObjectMeta, ApiError> {
    let params = writes::patch().force();
    let applied = bounded(api.patch(name, &params, &Patch::Apply(object))).await?;
    if applied.has_same_data(object) {
        return Ok(applied.meta().clone());
    }
    let mut replacement = object.clone();
    replacement
        .meta_mut()
        .resource_version
        .clone_from(&applied.meta().resource_version);
    let replaced = bounded(api.replace(name, &writes::post(), &replacement)).await?;
    Ok(replaced.meta().clone())
}

/// A kind that is copied.
trait Copyable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
{
    /// Whether the data are the same.
    fn has_same_data(&self, other: &Self) -> bool;
    /// Whether the type, which is immutable, is the same.
    fn has_same_type(&self, other: &Self) -> bool;
    /// The type, if it is a Secret.
    fn secret_type(&self) -> Option<&str>;
    /// Whether data and type are the same.
    fn has_same_content(&self, other: &Self) -> bool {
        self.has_same_data(other) && self.has_same_type(other)
    }
}

impl Copyable for Secret {
    fn has_same_data(&self, other: &Self) -> bool {
        self.data == other.data
    }

    fn has_same_type(&self, other: &Self) -> bool {
        self.type_ == other.type_ || other.type_.is_none()
    }

    fn secret_type(&self) -> Option<&str> {
        self.type_.as_deref()
    }
}

impl Copyable for ConfigMap {
    fn has_same_data(&self, other: &Self) -> bool {
        (&self.data, &self.binary_data) == (&other.data, &other.binary_data)
    }

    fn has_same_type(&self, _: &Self) -> bool {
        true
    }

    fn secret_type(&self) -> Option<&str> {
        None
    }
}

/// A copy that should exist.
struct DesiredCopy<'d> {
    copy: &'d Copy,
    /// The stored or desired deployment that needs it.
    deployment: &'d BundleDeployment,
    /// The cache has it as a copy of this controller.
    is_known: bool,
    /// An existing object with the same content is kept as it is, no matter which client wrote it.
    may_keep: bool,
}

/// The result of writing a copy.
enum WriteResult {
    /// It was written, and has these metadata.
    Written(ObjectMeta),
    /// It was kept as another controller wrote it, because its content is the same.
    Kept(ObjectMeta),
    /// An object that this controller does not manage has the name.
    Foreign,
}

/// Adds the missing owners to an object, and changes nothing else.
async fn add_owners<K: Copyable>(api: &Api<K>, found: &K, desired: &K) -> Result<ObjectMeta, ApiError> {
    let mut owners = found.meta().owner_references.clone().unwrap_or_default();
    let desired = desired.meta().owner_references.iter().flatten();
    let missing: Vec<_> = desired
        .filter(|owner| owners.iter().all(|known| known.uid != owner.uid))
        .cloned()
        .collect();
    if missing.is_empty() {
        return Ok(found.meta().clone());
    }
    owners.extend(missing);
    let updated = writes::owners(api, found, &owners).await?;
    Ok(updated.meta().clone())
}

/// Whether a cached copy is exactly as this controller writes it.
fn is_up_to_date(known: &ObservedCopy, copy: &Copy) -> bool {
    known.is_current(&copy.copied_from, copy.object.keys())
}

/// The state of a copy with the content of its source, and the version that it was made from.
fn same_content(copy: &Copy, made_from: Option<String>) -> CopyState {
    let kind = copy.object.kind();
    CopyState::Same {
        copied_from: made_from.map(|version| format!("{kind} {version}")),
    }
}

/// The source of a copy, for a message.
fn source_of(copy: &Copy) -> String {
    match CopyPurpose::of(copy.object.metadata()).and_then(|purpose| purpose.source) {
        Some(source) => format!("{} {source}", copy.object.kind()),
        None => "the values of this Bundle".to_owned(),
    }
}

/// Kind, namespace and name of a copy.
pub fn reference(copy: &Copy) -> CopyRef {
    CopyRef::of(copy.object.kind(), copy.object.metadata())
}

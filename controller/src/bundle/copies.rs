//! Copies in the namespaces of clusters: written, mended and cleared away.

use std::{collections::BTreeSet, sync::Arc};

use helmops_shared::{
    api::{Bundle, BundleDeployment, Decoded, MetadataWithManagers, NamespacedName},
    targeting::{
        copies::{Copy, Found, Kind, Object, Purpose, Role, Source, owner},
        deployment::CopyState,
    },
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
    watch::{self, Copied, Copies, CopyRef, Deployment},
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
        let reference = reference(copy);
        let owners = self.owners(copy, deployment);
        let known = self.copies.get(&reference).filter(|known| known.is_for(copy));
        let is_written = known.as_ref().is_some_and(|known| is_written(known, copy));
        if let Some(known) = &known {
            let is_owned = owners
                .iter()
                .all(|owner| known.owners.iter().any(|(_, uid)| *uid == owner.uid));
            if is_owned && (is_written || known.was_left_for(&copy.made_from)) {
                return Ok(());
            }
        }
        let wanted = Wanted {
            copy,
            deployment,
            is_known: known.is_some(),
            // Its agent deploys anew when anything of it changes, a label included.
            may_stay: copy.role == Role::Downstream && !is_written,
        };
        let CopyRef { kind, name } = &reference;
        match self.write(&wanted, owners).await? {
            Put::Written(metadata) => self.copies.wrote(*kind, &metadata),
            Put::Left(metadata) => self.copies.left(copy, &metadata),
            Put::Foreign => {
                return Err(DeliveryError::Taken(format!(
                    "the cluster's namespace {namespace} has a {kind} {name} of somebody else's, which was not made from \
                     {source}; rename or delete it",
                    namespace = name.namespace,
                    name = name.name,
                    source = made_from(copy),
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
            && (is_written(&known, copy) || known.was_left_for(&copy.made_from))
        {
            return Ok(same(copy, known.made_from));
        }
        let CopyRef { kind, name } = &reference;
        let compared = match &copy.object {
            Object::Secret(secret) => self.compare(copy, secret).await,
            Object::ConfigMap(map) => self.compare(copy, map).await,
        };
        compared.map_err(DeliveryError::of("read", format_args!("{kind} {name}")))
    }

    async fn compare<K: Copyable>(&self, copy: &Copy, object: &K) -> Result<CopyState, ApiError> {
        let CopyRef { name, .. } = reference(copy);
        let api = Api::<K>::namespaced(self.context.client.clone(), &name.namespace);
        let Some(found) = bounded(api.get_opt(&name.name)).await? else {
            return Ok(CopyState::Missing);
        };
        if !found.holds_same(object) {
            return Ok(CopyState::Different);
        }
        let is_own = Purpose::of(found.meta()) == Purpose::of(object.meta());
        Ok(same(copy, watch::made_from(found.meta()).filter(|_| is_own)))
    }

    /// The deployments in the namespace of one, and that one as it is to be.
    fn deployments(&self, deployment: &BundleDeployment) -> Vec<Deployment> {
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let own = Decoded::Valid(Arc::new(deployment.clone()));
        let mut all = self.context.stores.deployments.in_namespace(namespace);
        all.push(Arc::new(own));
        all
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
        let known = self.copies.get(&CopyRef {
            kind: *kind,
            name: NamespacedName::new(namespace, name),
        })?;
        if known.left_for.is_some() && !self.is_owned(&known, namespace) {
            // It went with its deployment: no watch shows what another controller made.
            return None;
        }
        let purpose = &known.purpose;
        let is_other = purpose.role != Role::Downstream
            || Some(&purpose.bundle_namespace) != bundle.metadata.namespace.as_ref();
        is_other.then(|| {
            format!(
                "spec.downstreamResources: the cluster's namespace {namespace} has a {kind} {name} for Bundles of \
                 namespace {} already; rename one of them",
                purpose.bundle_namespace
            )
        })
    }

    fn is_owned(&self, known: &Copied, namespace: &str) -> bool {
        let deployments = self.context.stores.deployments.in_namespace(namespace);
        deployments.iter().any(|deployment| {
            let uid = deployment.meta().uid.as_ref();
            known.owners.iter().any(|(_, owner)| Some(owner) == uid)
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

    /// Writes it, unless what has its name is somebody else's, or may stay.
    async fn write(&self, wanted: &Wanted<'_>, owners: Vec<OwnerReference>) -> Result<Put, DeliveryError> {
        let object = &wanted.copy.object;
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
                self.put(secret, wanted).await
            }
            Object::ConfigMap(map) => {
                let mut map = map.clone();
                map.metadata.owner_references = Some(owners);
                self.put(map, wanted).await
            }
        };
        written.map_err(DeliveryError::of("write", what))
    }

    /// Creates or applies it. A Secret of another type is deleted and created.
    async fn put<K: Copyable>(&self, object: K, wanted: &Wanted<'_>) -> Result<Put, ApiError> {
        let (name, namespace) = (
            object.meta().name.clone().unwrap_or_default(),
            object.meta().namespace.clone().unwrap_or_default(),
        );
        let api = Api::<K>::namespaced(self.context.client.clone(), &namespace);
        if !wanted.is_known {
            match bounded(api.create(&writes::post(), &object)).await {
                Err(error) if error.exists_already() => {}
                created => return Ok(Put::Written(created?.meta().clone())),
            }
        } else if !wanted.may_stay {
            match apply(&api, &name, &object).await {
                // Perhaps for its type, of which the metadata tell nothing.
                Err(error) if error.is_invalid() => {}
                applied => return applied.map(Put::Written),
            }
        }
        let Some(found) = bounded(api.get_opt(&name)).await? else {
            if wanted.is_known {
                let created = bounded(api.create(&writes::post(), &object)).await?;
                return Ok(Put::Written(created.meta().clone()));
            }
            return Err(ApiError::gone(&name));
        };
        if !self.is_same(wanted, &found) {
            return Ok(Put::Foreign);
        }
        if wanted.may_stay && found.holds_same(&object) {
            return own(&api, &found, &object).await.map(Put::Left);
        }
        if found.has_type_of(&object) {
            return apply(&api, &name, &object).await.map(Put::Written);
        }
        bounded(api.delete(&name, &writes::delete(&found))).await?;
        let created = bounded(api.create(&writes::post(), &object)).await?;
        Ok(Put::Written(created.meta().clone()))
    }

    /// Whether something under its name was made for the same, here or by Fleet's own controller.
    fn is_same(&self, wanted: &Wanted<'_>, found: &impl Copyable) -> bool {
        let deployments = self.deployments(wanted.deployment);
        let deployments: Vec<_> = deployments
            .iter()
            .filter_map(|deployment| deployment.good())
            .collect();
        let found = Found {
            metadata: found.meta(),
            type_: found.secret_type(),
        };
        wanted.copy.is_same(found, &deployments)
    }

    /// Clears away copies that a deployment owns and needs no more. `needed` are those that it does.
    pub async fn clear(
        &self,
        deployment: &BundleDeployment,
        needed: &BTreeSet<CopyRef>,
    ) -> Result<(), DeliveryError> {
        let (Some(uid), Some(namespace)) = (&deployment.metadata.uid, &deployment.metadata.namespace) else {
            return Ok(());
        };
        for reference in self.copies.owned_by(namespace, uid) {
            if !needed.contains(&reference) {
                self.leave(&reference, uid).await?;
            }
        }
        Ok(())
    }

    /// Clears away what was made for deployments of a Bundle that never came to be.
    pub async fn clear_unowned(&self, bundle: &BundleKey) -> Result<(), DeliveryError> {
        for reference in self.copies.without_owner(bundle) {
            self.leave(&reference, NOBODY).await?;
        }
        Ok(())
    }

    /// Leaves a copy to its other owners, or deletes it where there are none.
    async fn leave(&self, reference: &CopyRef, uid: &str) -> Result<(), DeliveryError> {
        let CopyRef { kind, name } = reference;
        let left = match kind {
            Kind::Secret => self.disown::<Secret>(reference, uid).await,
            Kind::ConfigMap => self.disown::<ConfigMap>(reference, uid).await,
        };
        left.map_err(DeliveryError::of("clear away", format_args!("{kind} {name}")))
    }

    /// Somebody may become an owner at the same time: what is not as it was read stays as it is, and is looked at again.
    async fn disown<K: Copyable>(&self, reference: &CopyRef, uid: &str) -> Result<(), ApiError> {
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
        let disowned = writes::owners(&api, &found, &others).await?;
        self.copies.wrote(*kind, disowned.meta());
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
    /// Its type, if it is a Secret.
    fn secret_type(&self) -> Option<&str>;
    /// Whether it holds the same, and is of the same type.
    fn holds_same(&self, other: &Self) -> bool {
        self.has_data_of(other) && self.has_type_of(other)
    }
}

impl Copyable for Secret {
    fn has_data_of(&self, other: &Self) -> bool {
        self.data == other.data
    }

    fn has_type_of(&self, other: &Self) -> bool {
        self.type_ == other.type_ || other.type_.is_none()
    }

    fn secret_type(&self) -> Option<&str> {
        self.type_.as_deref()
    }
}

impl Copyable for ConfigMap {
    fn has_data_of(&self, other: &Self) -> bool {
        (&self.data, &self.binary_data) == (&other.data, &other.binary_data)
    }

    fn has_type_of(&self, _: &Self) -> bool {
        true
    }

    fn secret_type(&self) -> Option<&str> {
        None
    }
}

/// A copy that is to be there.
struct Wanted<'w> {
    copy: &'w Copy,
    /// What it is for, as it is stored, or is to be.
    deployment: &'w BundleDeployment,
    /// It was seen as a copy of this controller's.
    is_known: bool,
    /// What holds the same may stay as it is, whoever wrote it.
    may_stay: bool,
}

/// What came of a write.
enum Put {
    /// It was written, and has these metadata.
    Written(ObjectMeta),
    /// It holds what it should, and was left as another controller wrote it.
    Left(ObjectMeta),
    /// Something of somebody else's has its name.
    Foreign,
}

/// Adds owners that an object lacks, and changes nothing else of it.
async fn own<K: Copyable>(api: &Api<K>, found: &K, wanted: &K) -> Result<ObjectMeta, ApiError> {
    let mut owners = found.meta().owner_references.clone().unwrap_or_default();
    let wanted = wanted.meta().owner_references.iter().flatten();
    let missing: Vec<_> = wanted
        .filter(|owner| owners.iter().all(|known| known.uid != owner.uid))
        .cloned()
        .collect();
    if missing.is_empty() {
        return Ok(found.meta().clone());
    }
    owners.extend(missing);
    let owned = writes::owners(api, found, &owners).await?;
    Ok(owned.meta().clone())
}

/// Whether a copy is as this controller writes it.
fn is_written(known: &Copied, copy: &Copy) -> bool {
    known.is(&copy.made_from, copy.object.keys())
}

/// A copy that holds the same as its source, and what it was made from.
fn same(copy: &Copy, made_from: Option<String>) -> CopyState {
    let kind = copy.object.kind();
    CopyState::Same {
        made_from: made_from.map(|version| format!("{kind} {version}")),
    }
}

/// What a copy is made from, for a message.
fn made_from(copy: &Copy) -> String {
    match Purpose::of(copy.object.metadata()).and_then(|purpose| purpose.source) {
        Some(source) => format!("{} {source}", copy.object.kind()),
        None => "the values of this Bundle".to_owned(),
    }
}

/// Where a copy is.
pub fn reference(copy: &Copy) -> CopyRef {
    CopyRef::of(copy.object.kind(), copy.object.metadata())
}

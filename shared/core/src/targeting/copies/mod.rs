//! Secrets and ConfigMaps in the namespace of a cluster, where its agent can read them.
//!
//! | role | source | name | the agent reads it |
//! |---|---|---|---|
//! | `values` | the Helm values of a deployment | the name of the deployment | as the values of its release |
//! | `access` | the Secret for the chart's repository or registry | see [`access_secret`](helmops_model::names::access_secret) | to fetch the chart |
//! | `downstream` | an object in `downstreamResources` | the name of the source | to copy it into the cluster |
//!
//! Each copy records what it was made from in its metadata, which shows whether the copy is up to date. The record is the
//! resource version of the source, or the hash of the values, which the deployment contains as well: neither discloses the
//! content of a Secret.

mod object;
mod observed;
mod purpose;
mod source;

use std::collections::BTreeMap;

use helmops_api::{BundleDeployment, labels};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube_core::Resource;

pub use self::{
    object::{ForbiddenType, Object, check_type},
    observed::{CopyRef, ObservedCopy, copied_from},
    purpose::{CopyPurpose, CopyRole},
    source::{CopyKind, SourceRef, UnsupportedKind, access_source, downstream, referenced_sources},
};
use super::{deployment::SecretValues, identity::values_hash};

/// Prefix of the types of Secrets that Fleet's controller creates for its agents.
const FLEET_TYPE_PREFIX: &str = "fleet.cattle.io/";
/// Type of Secrets with values.
const VALUES_TYPE: &str = "fleet.cattle.io/bundle-deployment/v1alpha1";
/// Type of copies of access Secrets.
const ACCESS_TYPE: &str = "fleet.cattle.io/bundle-helmops-access/v1alpha1";

/// Where a copy is, and which Bundle it is for.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The namespace of the cluster.
    pub namespace: &'a str,
    /// Namespace of the Bundle.
    pub bundle_namespace: &'a str,
    /// Name of the Bundle, and of its deployment.
    pub bundle: &'a str,
}

/// The desired state of a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// What it is for.
    pub role: CopyRole,
    /// The object, without owner references.
    pub object: Object,
    /// What it is made from.
    pub copied_from: String,
}

impl Copy {
    /// The Secret with the values of a deployment.
    pub fn of_values(destination: Destination<'_>, values: &SecretValues) -> Self {
        let ids = values.ids.clone().unwrap_or_default().join(" ");
        let (values, staged) = (&values.values, &values.staged);
        let made_from = values_hash(values.as_bytes(), staged.as_bytes());
        let data = [("values", values), ("stagedValues", staged)];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
        let name = destination.bundle.to_owned();
        let mut metadata = metadata(destination, CopyRole::Values, name, &made_from);
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(labels::VALUES_FOR.to_owned(), ids);
        Self {
            role: CopyRole::Values,
            object: Object::Secret(Secret {
                metadata,
                type_: Some(VALUES_TYPE.to_owned()),
                data: Some(data.into()),
                ..Secret::default()
            }),
            copied_from: made_from,
        }
    }

    /// The values in such a Secret.
    pub fn values_of(secret: &Secret) -> Option<SecretValues> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let ids = labels::annotation(&secret.metadata, labels::VALUES_FOR);
        let ids = ids.and_then(|ids| ids.split_once(' '));
        Some(SecretValues {
            values: text("values")?,
            staged: text("stagedValues")?,
            ids: ids.map(|(deployment, staged)| [deployment.to_owned(), staged.to_owned()]),
        })
    }

    /// The copy of an access Secret, with its own name. [`check_type`] has accepted the source.
    pub fn of_access(destination: Destination<'_>, name: String, source: &Secret) -> Self {
        let made_from = Object::Secret(source.clone()).version();
        let mut metadata = metadata(destination, CopyRole::Access, name, &made_from);
        metadata
            .labels
            .get_or_insert_default()
            .insert(labels::INTERNAL_SECRET.to_owned(), "true".to_owned());
        Self {
            role: CopyRole::Access,
            object: Object::Secret(Secret {
                metadata,
                type_: Some(ACCESS_TYPE.to_owned()),
                data: source.data.clone(),
                ..Secret::default()
            }),
            copied_from: made_from,
        }
    }

    /// The copy of a downstream resource. [`check_type`] has accepted the source.
    pub fn of_downstream(destination: Destination<'_>, source: &Object) -> Self {
        let made_from = source.version();
        let name = source.metadata().name.clone().unwrap_or_default();
        let metadata = metadata(destination, CopyRole::Downstream, name, &made_from);
        let object = match source {
            Object::Secret(secret) => Object::Secret(Secret {
                metadata,
                type_: secret.type_.clone(),
                data: secret.data.clone(),
                ..Secret::default()
            }),
            Object::ConfigMap(map) => Object::ConfigMap(ConfigMap {
                metadata,
                data: map.data.clone(),
                binary_data: map.binary_data.clone(),
                ..ConfigMap::default()
            }),
        };
        Self {
            role: CopyRole::Downstream,
            object,
            copied_from: made_from,
        }
    }

    /// Whether an existing object of this name was created for the same purpose: by this controller, according to its labels, or
    /// by Fleet's controller. `deployments` are those in the namespace that may own such a copy. Any other object belongs to
    /// another owner.
    pub fn is_same(&self, found: ExistingObject<'_>, deployments: &[&BundleDeployment]) -> bool {
        let purpose = CopyPurpose::of(found.metadata);
        if purpose.is_some() && purpose == CopyPurpose::of(self.object.metadata()) {
            return true;
        }
        if self.role == CopyRole::Downstream
            && found
                .type_
                .is_some_and(|type_| type_.starts_with(FLEET_TYPE_PREFIX))
        {
            // Values or access Secret of another Bundle: Fleet does not label them.
            return false;
        }
        let kind = BundleDeployment::kind(&());
        let owners = found.metadata.owner_references.iter().flatten();
        let mut owners = owners
            .filter(|owner| owner.kind == kind && owner.api_version.starts_with("fleet.cattle.io/"))
            .peekable();
        if owners.peek().is_none() {
            // Fleet sets the owner reference only after the deployment was created.
            return purpose.is_none() && self.role == CopyRole::Values && found.type_ == Some(VALUES_TYPE);
        }
        owners.any(|owner| {
            deployments.iter().any(|deployment| {
                let metadata = &deployment.metadata;
                metadata.name.as_ref() == Some(&owner.name)
                    && metadata.uid.as_ref() == Some(&owner.uid)
                    && self.may_be_of(deployment)
            })
        })
    }

    /// Whether a deployment may own it: the one that it is for. Downstream resources may be owned by any deployment of the same
    /// Bundle namespace.
    fn may_be_of(&self, deployment: &BundleDeployment) -> bool {
        let metadata = self.object.metadata();
        let is_equal = |label: &str| labels::of(metadata, label) == labels::of(&deployment.metadata, label);
        is_equal(labels::BUNDLE_NAMESPACE)
            && (self.role == CopyRole::Downstream || is_equal(labels::BUNDLE_NAME))
    }
}

/// An existing object with the name of a copy.
#[derive(Clone, Copy, Debug)]
pub struct ExistingObject<'a> {
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// Its type, if it is a Secret.
    pub type_: Option<&'a str>,
}

fn metadata(destination: Destination<'_>, role: CopyRole, name: String, made_from: &str) -> ObjectMeta {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let mut own = BTreeMap::from([
        label(labels::COPY_TYPE, role.as_str()),
        label(labels::BUNDLE_NAMESPACE, destination.bundle_namespace),
    ]);
    if role != CopyRole::Downstream {
        // Downstream resources are shared by the Bundles of a namespace.
        own.extend([label(labels::BUNDLE_NAME, destination.bundle)]);
    }
    ObjectMeta {
        name: Some(name),
        namespace: Some(destination.namespace.to_owned()),
        labels: Some(own),
        annotations: Some([(labels::COPIED_FROM.to_owned(), made_from.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

/// The owner reference that deletes a copy together with a deployment. `None` if the deployment is not stored yet.
///
/// A resource that several Bundles of a namespace name is owned by all of their deployments, and controlled by none.
pub fn owner(deployment: &BundleDeployment, role: CopyRole) -> Option<OwnerReference> {
    let owner = deployment.controller_owner_ref(&())?;
    Some(match role {
        CopyRole::Values | CopyRole::Access => owner,
        CopyRole::Downstream => OwnerReference {
            controller: None,
            ..owner
        },
    })
}

#[cfg(test)]
mod tests;

//! The content of a Secret or ConfigMap that is copied.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::source::CopyKind;

/// Types of Secrets that are never copied: each is a credential for its cluster, and its copy may become one for the target
/// cluster.
const CREDENTIAL_TYPES: [&str; 2] = [
    "bootstrap.kubernetes.io/token",
    "kubernetes.io/service-account-token",
];

/// A Secret is a credential for a cluster, and is never copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Secret {namespace}/{name}: type: Unsupported value: {type_:?}: a Secret of this type is a credential for a Kubernetes \
     cluster and is never copied; name a Secret of another type in spec.downstreamResources or spec.helmSecretName"
)]
pub struct ForbiddenType {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_: String,
}

/// Checks that an object may be copied.
///
/// # Errors
/// If it is a credential for a cluster.
pub fn check_type(object: &Object) -> Result<(), ForbiddenType> {
    let Object::Secret(secret) = object else {
        return Ok(());
    };
    let type_ = secret.type_.as_deref().unwrap_or_default();
    if !CREDENTIAL_TYPES.contains(&type_) {
        return Ok(());
    }
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    Err(ForbiddenType {
        namespace: part(&secret.metadata.namespace),
        name: part(&secret.metadata.name),
        type_: type_.to_owned(),
    })
}

/// A Secret or ConfigMap.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A Secret.
    Secret(Secret),
    /// A ConfigMap.
    ConfigMap(ConfigMap),
}

impl Object {
    /// Its kind.
    pub const fn kind(&self) -> CopyKind {
        match self {
            Self::Secret(_) => CopyKind::Secret,
            Self::ConfigMap(_) => CopyKind::ConfigMap,
        }
    }

    /// Its metadata.
    pub const fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Secret(secret) => &secret.metadata,
            Self::ConfigMap(map) => &map.metadata,
        }
    }

    /// Namespace, name and resource version, as its copies record it.
    pub fn version(&self) -> String {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let metadata = self.metadata();
        format!(
            "{}/{}@{}",
            text(&metadata.namespace),
            text(&metadata.name),
            text(&metadata.resource_version)
        )
    }

    /// Its type, if it is a Secret.
    pub fn type_(&self) -> Option<&str> {
        match self {
            Self::Secret(secret) => secret.type_.as_deref(),
            Self::ConfigMap(_) => None,
        }
    }

    /// Whether it can become `desired` by an update: the type of a Secret is immutable.
    pub fn can_become(&self, desired: &Self) -> bool {
        self.kind() == desired.kind() && (desired.type_().is_none() || self.type_() == desired.type_())
    }

    /// Whether it has the data and the type of `desired`.
    pub fn has_content_of(&self, desired: &Self) -> bool {
        let has_same_data = match (self, desired) {
            (Self::Secret(one), Self::Secret(other)) => one.data == other.data,
            (Self::ConfigMap(one), Self::ConfigMap(other)) => {
                (&one.data, &one.binary_data) == (&other.data, &other.binary_data)
            }
            _ => false,
        };
        has_same_data && self.can_become(desired)
    }

    /// Number of its keys.
    pub fn keys(&self) -> usize {
        let len = |map: &Option<BTreeMap<_, _>>| map.as_ref().map_or(0, BTreeMap::len);
        match self {
            Self::Secret(secret) => len(&secret.data),
            Self::ConfigMap(map) => map.data.as_ref().map_or(0, BTreeMap::len) + len(&map.binary_data),
        }
    }
}

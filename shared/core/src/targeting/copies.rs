//! Secrets and ConfigMaps in the namespace of a cluster, where its agent can read them.
//!
//! | role | source | name | the agent reads it |
//! |---|---|---|---|
//! | `values` | the Helm values of a deployment | the name of the deployment | as the values of its release |
//! | `access` | the Secret for the chart's repository or registry | see [`access_secret`](super::names::access_secret) | to fetch the chart |
//! | `downstream` | an object in `downstreamResources` | the name of the source | to copy it into the cluster |
//!
//! Each copy records what it was made from in its metadata, which shows whether the copy is up to date. The record is the
//! resource version of the source, or the hash of the values, which the deployment contains as well: neither discloses the
//! content of a Secret.

use std::{collections::BTreeMap, fmt};

use helmops_api::{BundleDeployment, BundleDeploymentOptions, labels, options::DownstreamResource};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube_core::Resource;

use super::{deployment::SecretValues, identity::values_hash};

/// Prefix of the types of Secrets that Fleet's controller creates for its agents.
const FLEET_TYPE_PREFIX: &str = "fleet.cattle.io/";
/// Type of Secrets with values.
const VALUES_TYPE: &str = "fleet.cattle.io/bundle-deployment/v1alpha1";
/// Type of copies of access Secrets.
const ACCESS_TYPE: &str = "fleet.cattle.io/bundle-helmops-access/v1alpha1";

/// Types of Secrets that are never copied: each is a credential for its cluster, and its copy may become one for the target
/// cluster.
const CREDENTIAL_TYPES: [&str; 2] = [
    "bootstrap.kubernetes.io/token",
    "kubernetes.io/service-account-token",
];

/// What a copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyRole {
    /// Values of a deployment.
    Values,
    /// Access to the chart.
    Access,
    /// A resource to copy into the cluster.
    Downstream,
}

impl CopyRole {
    const ALL: [Self; 3] = [Self::Values, Self::Access, Self::Downstream];

    /// The value of the label [`labels::COPY_TYPE`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Access => "access",
            Self::Downstream => "downstream",
        }
    }

    /// Parses the value of the label.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// Kind of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyKind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl fmt::Display for CopyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        })
    }
}

/// Kind and name of an object to copy, in the namespace of the Bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceRef {
    /// Its kind.
    pub kind: CopyKind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// A downstream resource is neither a Secret nor a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported kind for object to copy to downstream: {0:?}; use Secret or ConfigMap")]
pub struct UnsupportedKind(pub String);

/// The objects that the options of a deployment copy into the cluster.
///
/// # Errors
/// If one of them is neither a Secret nor a ConfigMap.
pub fn downstream(options: &BundleDeploymentOptions) -> Result<Vec<SourceRef>, UnsupportedKind> {
    options.downstream_resources.iter().map(source).collect()
}

fn source(resource: &DownstreamResource) -> Result<SourceRef, UnsupportedKind> {
    let kind = [CopyKind::Secret, CopyKind::ConfigMap]
        .into_iter()
        .find(|kind| kind.to_string().eq_ignore_ascii_case(&resource.kind));
    Ok(SourceRef {
        kind: kind.ok_or_else(|| UnsupportedKind(resource.kind.clone()))?,
        name: resource.name.clone(),
    })
}

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

    /// Number of its keys.
    pub fn keys(&self) -> usize {
        let len = |map: &Option<BTreeMap<_, _>>| map.as_ref().map_or(0, BTreeMap::len);
        match self {
            Self::Secret(secret) => len(&secret.data),
            Self::ConfigMap(map) => map.data.as_ref().map_or(0, BTreeMap::len) + len(&map.binary_data),
        }
    }
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
    pub fn of_values(deployment: &BundleDeployment, values: &SecretValues) -> Self {
        let ids = values.ids.clone().unwrap_or_default().join(" ");
        let (values, staged) = (&values.values, &values.staged);
        let made_from = values_hash(values.as_bytes(), staged.as_bytes());
        let data = [("values", values), ("stagedValues", staged)];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
        let name = deployment.metadata.name.clone().unwrap_or_default();
        let mut metadata = metadata(deployment, CopyRole::Values, name, &made_from);
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
        let annotations = secret.metadata.annotations.as_ref();
        let ids = annotations.and_then(|annotations| annotations.get(labels::VALUES_FOR)?.split_once(' '));
        Some(SecretValues {
            values: text("values")?,
            staged: text("stagedValues")?,
            ids: ids.map(|(deployment, staged)| [deployment.to_owned(), staged.to_owned()]),
        })
    }

    /// The copy of an access Secret, with its own name. [`check_type`] has accepted the source.
    pub fn of_access(deployment: &BundleDeployment, name: String, source: &Secret) -> Self {
        let made_from = Object::Secret(source.clone()).version();
        let mut metadata = metadata(deployment, CopyRole::Access, name, &made_from);
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
    pub fn of_downstream(deployment: &BundleDeployment, source: &Object) -> Self {
        let made_from = source.version();
        let name = source.metadata().name.clone().unwrap_or_default();
        let metadata = metadata(deployment, CopyRole::Downstream, name, &made_from);
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

/// What a copy is for, according to its labels and annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPurpose {
    /// Its role.
    pub role: CopyRole,
    /// Namespace of the Bundles that it is for.
    pub bundle_namespace: String,
    /// Name of the Bundle that it is for, if it is for a single one.
    pub bundle: Option<String>,
    /// Namespace and name of its source; `None` for values, which have none.
    pub source: Option<String>,
}

impl CopyPurpose {
    /// Reads the metadata; `None` if the object is not a copy.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let role = CopyRole::parse(metadata.labels.as_ref()?.get(labels::COPY_TYPE)?)?;
        let annotations = metadata.annotations.as_ref();
        let made_from = annotations.and_then(|annotations| annotations.get(labels::COPIED_FROM));
        let source = made_from.and_then(|made_from| made_from.split_once('@'));
        Some(Self {
            role,
            bundle_namespace: labels::of(metadata, labels::BUNDLE_NAMESPACE)
                .unwrap_or_default()
                .to_owned(),
            bundle: labels::of(metadata, labels::BUNDLE_NAME).map(str::to_owned),
            source: source
                .filter(|_| role != CopyRole::Values)
                .map(|(source, _)| source.to_owned()),
        })
    }
}

fn metadata(deployment: &BundleDeployment, role: CopyRole, name: String, made_from: &str) -> ObjectMeta {
    let of_deployment = |label: &str| {
        let value = deployment.metadata.labels.as_ref()?.get(label)?;
        Some((label.to_owned(), value.clone()))
    };
    let mut own = BTreeMap::from([(labels::COPY_TYPE.to_owned(), role.as_str().to_owned())]);
    own.extend(of_deployment(labels::BUNDLE_NAMESPACE));
    if role != CopyRole::Downstream {
        // Downstream resources are shared by the Bundles of a namespace.
        own.extend(of_deployment(labels::BUNDLE_NAME));
    }
    ObjectMeta {
        name: Some(name),
        namespace: deployment.metadata.namespace.clone(),
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
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment() -> BundleDeployment {
        let labels = json!({ labels::BUNDLE_NAME: "web", labels::BUNDLE_NAMESPACE: "fleet", "app": "web" });
        let metadata = json!({ "name": "web", "namespace": "cluster-c1", "uid": "u-1", "labels": labels });
        serde_json::from_str(&json!({ "metadata": metadata }).to_string()).unwrap()
    }

    fn secret() -> Secret {
        let object = json!({
            "metadata": { "name": "access", "namespace": "fleet", "resourceVersion": "7", "labels": { "mine": "" } },
            "type": "Opaque",
            "data": { "username": "dQ==", "password": "cA==" }
        });
        serde_json::from_value(object).unwrap()
    }

    fn json(copy: &Copy) -> Value {
        match &copy.object {
            Object::Secret(secret) => json!(secret),
            Object::ConfigMap(map) => json!(map),
        }
    }

    #[test]
    fn values_are_in_a_secret_with_the_name_of_the_deployment() {
        let values = SecretValues {
            values: r#"{"a":1}"#.to_owned(),
            staged: "null".to_owned(),
            ids: Some([":a".to_owned(), ":b".to_owned()]),
        };
        let copy = Copy::of_values(&deployment(), &values);
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "fleet.cattle.io/bundle-deployment/v1alpha1",
            "metadata": {
                "name": "web", "namespace": "cluster-c1",
                "annotations": {
                    labels::COPIED_FROM: values_hash(b"{\"a\":1}", b"null"), labels::VALUES_FOR: ":a :b"
                },
                "labels": { labels::COPY_TYPE: "values", labels::BUNDLE_NAME: "web", labels::BUNDLE_NAMESPACE: "fleet" }
            },
            "data": { "values": "eyJhIjoxfQ==", "stagedValues": "bnVsbA==" }
        });
        assert_eq!(json(&copy), expected);
        assert_eq!(copy.object.keys(), 2);
        let Object::Secret(secret) = &copy.object else {
            panic!("{copy:?}");
        };
        assert_eq!(Copy::values_of(secret), Some(values));
    }

    #[test]
    fn the_copy_of_an_access_secret_has_only_its_data() {
        let copy = Copy::of_access(&deployment(), "access-1".to_owned(), &secret());
        let stored = json(&copy);
        assert_eq!(stored["type"], "fleet.cattle.io/bundle-helmops-access/v1alpha1");
        assert_eq!(stored["data"], json!({ "username": "dQ==", "password": "cA==" }));
        assert_eq!(stored["metadata"]["name"], "access-1");
        assert_eq!(stored["metadata"]["labels"][labels::INTERNAL_SECRET], "true");
        assert_eq!(stored["metadata"]["labels"].get("mine"), None);
        assert_eq!(copy.copied_from, "fleet/access@7");
    }

    #[test]
    fn downstream_resources_keep_name_and_type() {
        let map = json!({
            "metadata": { "name": "settings", "namespace": "fleet", "resourceVersion": "8" },
            "data": { "a": "1" }, "binaryData": { "b": "Yg==" }
        });
        let map = Object::ConfigMap(serde_json::from_value(map).unwrap());
        let copy = Copy::of_downstream(&deployment(), &map);
        assert_eq!((copy.object.keys(), &*copy.copied_from), (2, "fleet/settings@8"));
        let stored = json(&copy);
        assert_eq!(
            [&stored["kind"], &stored["metadata"]["namespace"]],
            ["ConfigMap", "cluster-c1"]
        );
        assert_eq!(
            stored["metadata"]["labels"].get(labels::BUNDLE_NAME),
            None,
            "other Bundles may share it"
        );
        let copy = Copy::of_downstream(&deployment(), &Object::Secret(secret()));
        assert_eq!(json(&copy)["type"], "Opaque");
    }

    #[test]
    fn credentials_for_a_cluster_are_never_copied() {
        for type_ in [
            "bootstrap.kubernetes.io/token",
            "kubernetes.io/service-account-token",
        ] {
            let credential = Secret {
                type_: Some(type_.to_owned()),
                ..secret()
            };
            let message = check_type(&Object::Secret(credential)).unwrap_err().to_string();
            assert!(
                message.contains("Secret fleet/access") && message.contains(type_),
                "{message}"
            );
        }
        assert_eq!(check_type(&Object::Secret(secret())), Ok(()));
    }

    /// A downstream copy of a Secret, shared by the Bundles of a namespace.
    fn shared(namespace: &str) -> (Copy, BundleDeployment) {
        let mut deployment = deployment();
        let own = deployment.metadata.labels.get_or_insert_default();
        own.insert(labels::BUNDLE_NAMESPACE.to_owned(), namespace.to_owned());
        let mut source = secret();
        source.metadata.namespace = Some(namespace.to_owned());
        let copy = Copy::of_downstream(&deployment, &Object::Secret(source));
        (copy, deployment)
    }

    fn found(copy: &Copy) -> ExistingObject<'_> {
        ExistingObject {
            metadata: copy.object.metadata(),
            type_: Some("Opaque"),
        }
    }

    /// Fleet does not label the Secret with the values of a deployment, which has the name of its Bundle.
    #[test]
    fn the_values_of_another_bundle_are_not_a_downstream_copy() {
        let (copy, mut other) = shared("fleet");
        other.metadata.name = copy.object.metadata().name.clone();
        let owner = owner(&other, CopyRole::Values).unwrap();
        let metadata = ObjectMeta {
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        for (type_, expected) in [("Opaque", true), (VALUES_TYPE, false), (ACCESS_TYPE, false)] {
            let found = ExistingObject {
                metadata: &metadata,
                type_: Some(type_),
            };
            assert_eq!(copy.is_same(found, &[&other]), expected, "{type_}");
        }
    }

    #[test]
    fn a_copy_for_another_namespace_belongs_to_another_owner() {
        let ((copy, deployment), (other, _)) = (shared("fleet"), shared("other"));
        assert!(copy.is_same(found(&copy), &[&deployment]));
        assert!(!copy.is_same(found(&other), &[&deployment]));
        let mut forged = copy.clone();
        let Object::Secret(secret) = &mut forged.object else {
            panic!("{forged:?}");
        };
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::COPIED_FROM.to_owned(), "fleet/other@1".to_owned());
        assert!(
            !copy.is_same(found(&forged), &[&deployment]),
            "copied from another source"
        );
    }

    #[test]
    fn a_copy_created_by_fleet_is_adopted() {
        let (copy, deployment) = shared("fleet");
        let metadata = |uid: &str| {
            let owner = json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment", "name": "web", "uid": uid,
                "controller": true, "blockOwnerDeletion": true
            });
            serde_json::from_value::<ObjectMeta>(json!({ "name": "access", "ownerReferences": [owner] }))
                .unwrap()
        };
        let is_same = |copy: &Copy, metadata: &ObjectMeta, type_: &str, of: &[&BundleDeployment]| {
            let type_ = Some(type_);
            copy.is_same(ExistingObject { metadata, type_ }, of)
        };
        assert!(is_same(&copy, &metadata("u-1"), "Opaque", &[&deployment]));
        assert!(
            !is_same(&copy, &metadata("u-2"), "Opaque", &[&deployment]),
            "no deployment with this UID"
        );
        let (_, other) = shared("other");
        assert!(
            !is_same(&copy, &metadata("u-1"), "Opaque", &[&other]),
            "of another namespace"
        );
        let bare = ObjectMeta::default();
        assert!(!is_same(&copy, &bare, VALUES_TYPE, &[&deployment]));
        let values = Copy::of_values(&deployment, &SecretValues::default());
        assert!(is_same(&values, &bare, VALUES_TYPE, &[&deployment]));
        assert!(is_same(&values, &metadata("u-1"), VALUES_TYPE, &[&deployment]));
        assert!(!is_same(&values, &metadata("u-2"), VALUES_TYPE, &[&deployment]));
        assert!(
            !is_same(&values, &bare, "Opaque", &[&deployment]),
            "created by another client"
        );
    }

    #[test]
    fn kinds_are_case_insensitive() {
        let options = |kind: &str| -> BundleDeploymentOptions {
            let options = json!({ "downstreamResources": [{ "kind": kind, "name": "a" }] });
            serde_json::from_str(&options.to_string()).unwrap()
        };
        let kind = |text: &str| downstream(&options(text)).map(|sources| sources[0].kind);
        assert_eq!(kind("secret"), Ok(CopyKind::Secret));
        assert_eq!(kind("CONFIGMAP"), Ok(CopyKind::ConfigMap));
        assert_eq!(kind("Pod"), Err(UnsupportedKind("Pod".to_owned())));
    }

    #[test]
    fn a_copy_is_owned_by_its_deployment() {
        let owner_of = |role| owner(&deployment(), role).unwrap();
        assert_eq!(
            (
                owner_of(CopyRole::Access).controller,
                &*owner_of(CopyRole::Access).uid
            ),
            (Some(true), "u-1")
        );
        assert_eq!(owner_of(CopyRole::Downstream).controller, None);
        assert_eq!(owner(&BundleDeployment::default(), CopyRole::Values), None);
        for role in CopyRole::ALL {
            assert_eq!(CopyRole::parse(role.as_str()), Some(role));
        }
    }
}

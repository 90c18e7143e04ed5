//! Secrets and ConfigMaps in the namespace of a cluster, where its agent can read them.
//!
//! | role | of | name | read by the agent |
//! |---|---|---|---|
//! | `values` | the Helm values of a deployment | that of the deployment | as the values of its release |
//! | `access` | the Secret for the chart's repository or registry | one of its own, see [`access_secret`](super::names::access_secret) | to fetch the chart |
//! | `downstream` | what `downstreamResources` name | that of the source | to copy it into the cluster |
//!
//! Each names what it was made from, so that one look at its metadata tells whether it is up to date. That is the
//! resource version of the source, or the hash of the values, which the deployment tells anyhow: nothing that says anything
//! of what is in a Secret.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube_core::Resource;

use super::{deployment::SecretValues, identity::values_hash};
use crate::api::{BundleDeployment, BundleDeploymentOptions, labels, options::DownstreamResource};

/// Type of Secrets with values.
const VALUES_TYPE: &str = "fleet.cattle.io/bundle-deployment/v1alpha1";
/// Type of copies of access Secrets.
const ACCESS_TYPE: &str = "fleet.cattle.io/bundle-helmops-access/v1alpha1";

/// What a copy is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Values of a deployment.
    Values,
    /// Access to the chart.
    Access,
    /// To be copied into the cluster.
    Downstream,
}

impl Role {
    const ALL: [Self; 3] = [Self::Values, Self::Access, Self::Downstream];

    /// The word, as in the label [`labels::COPY`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Access => "access",
            Self::Downstream => "downstream",
        }
    }

    /// Reads the label.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// Kind of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        })
    }
}

/// Names what is to be copied, in the namespace of the Bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// A downstream resource is neither a Secret nor a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported kind for object to copy to downstream: {0:?}; use Secret or ConfigMap")]
pub struct UnsupportedKind(pub String);

/// What the options of a deployment have copied into the cluster.
///
/// # Errors
/// Where one of them is of another kind.
pub fn downstream(options: &BundleDeploymentOptions) -> Result<Vec<Source>, UnsupportedKind> {
    options.downstream_resources.iter().map(source).collect()
}

fn source(resource: &DownstreamResource) -> Result<Source, UnsupportedKind> {
    let kind = [Kind::Secret, Kind::ConfigMap]
        .into_iter()
        .find(|kind| kind.to_string().eq_ignore_ascii_case(&resource.kind));
    Ok(Source {
        kind: kind.ok_or_else(|| UnsupportedKind(resource.kind.clone()))?,
        name: resource.name.clone(),
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
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Secret(_) => Kind::Secret,
            Self::ConfigMap(_) => Kind::ConfigMap,
        }
    }

    /// Its metadata.
    pub const fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Secret(secret) => &secret.metadata,
            Self::ConfigMap(map) => &map.metadata,
        }
    }

    /// What a copy of it says it was made from.
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

    /// How many keys it has.
    pub fn keys(&self) -> usize {
        let len = |map: &Option<BTreeMap<_, _>>| map.as_ref().map_or(0, BTreeMap::len);
        match self {
            Self::Secret(secret) => len(&secret.data),
            Self::ConfigMap(map) => map.data.as_ref().map_or(0, BTreeMap::len) + len(&map.binary_data),
        }
    }
}

/// A copy as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// What it is there for.
    pub role: Role,
    /// The object, with everything but owners.
    pub object: Object,
    /// What it is made from.
    pub made_from: String,
}

impl Copy {
    /// The Secret with a deployment's values.
    pub fn of_values(deployment: &BundleDeployment, values: &SecretValues) -> Self {
        let ids = values.ids.clone().unwrap_or_default().join(" ");
        let (values, staged) = (&values.values, &values.staged);
        let made_from = values_hash(values.as_bytes(), staged.as_bytes());
        let data = [("values", values), ("stagedValues", staged)];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
        let name = deployment.metadata.name.clone().unwrap_or_default();
        let mut metadata = metadata(deployment, Role::Values, name, &made_from);
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(labels::VALUES_OF.to_owned(), ids);
        Self {
            role: Role::Values,
            object: Object::Secret(Secret {
                metadata,
                type_: Some(VALUES_TYPE.to_owned()),
                data: Some(data.into()),
                ..Secret::default()
            }),
            made_from,
        }
    }

    /// What such a Secret holds.
    pub fn values_of(secret: &Secret) -> Option<SecretValues> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let annotations = secret.metadata.annotations.as_ref();
        let ids = annotations.and_then(|annotations| annotations.get(labels::VALUES_OF)?.split_once(' '));
        Some(SecretValues {
            values: text("values")?,
            staged: text("stagedValues")?,
            ids: ids.map(|(deployment, staged)| [deployment.to_owned(), staged.to_owned()]),
        })
    }

    /// The copy of an access Secret, under a name of its own.
    pub fn of_access(deployment: &BundleDeployment, name: String, source: &Secret) -> Self {
        let made_from = Object::Secret(source.clone()).version();
        let mut metadata = metadata(deployment, Role::Access, name, &made_from);
        metadata
            .labels
            .get_or_insert_default()
            .insert(labels::INTERNAL_SECRET.to_owned(), "true".to_owned());
        Self {
            role: Role::Access,
            object: Object::Secret(Secret {
                metadata,
                type_: Some(ACCESS_TYPE.to_owned()),
                data: source.data.clone(),
                ..Secret::default()
            }),
            made_from,
        }
    }

    /// The copy of a downstream resource.
    pub fn of_downstream(deployment: &BundleDeployment, source: &Object) -> Self {
        let made_from = source.version();
        let name = source.metadata().name.clone().unwrap_or_default();
        let metadata = metadata(deployment, Role::Downstream, name, &made_from);
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
            role: Role::Downstream,
            object,
            made_from,
        }
    }
}

fn metadata(deployment: &BundleDeployment, role: Role, name: String, made_from: &str) -> ObjectMeta {
    let of_deployment = |label: &str| {
        let value = deployment.metadata.labels.as_ref()?.get(label)?;
        Some((label.to_owned(), value.clone()))
    };
    let mut own = BTreeMap::from([(labels::COPY.to_owned(), role.as_str().to_owned())]);
    own.extend(of_deployment(labels::BUNDLE_NAMESPACE));
    if role != Role::Downstream {
        // Those are shared by the Bundles of a namespace.
        own.extend(of_deployment(labels::BUNDLE_NAME));
    }
    ObjectMeta {
        name: Some(name),
        namespace: deployment.metadata.namespace.clone(),
        labels: Some(own),
        annotations: Some([(labels::MADE_FROM.to_owned(), made_from.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

/// Says that a copy goes when a deployment does. Nothing where the deployment is not stored yet.
///
/// A resource that several Bundles of a namespace name is owned by all of their deployments, and controlled by none.
pub fn owner(deployment: &BundleDeployment, role: Role) -> Option<OwnerReference> {
    let owner = deployment.controller_owner_ref(&())?;
    Some(match role {
        Role::Values | Role::Access => owner,
        Role::Downstream => OwnerReference {
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
    fn values_are_in_a_secret_of_the_deployments_name() {
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
                    labels::MADE_FROM: values_hash(b"{\"a\":1}", b"null"), labels::VALUES_OF: ":a :b"
                },
                "labels": { labels::COPY: "values", labels::BUNDLE_NAME: "web", labels::BUNDLE_NAMESPACE: "fleet" }
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
    fn an_access_secret_keeps_its_data_alone() {
        let copy = Copy::of_access(&deployment(), "access-1".to_owned(), &secret());
        let told = json(&copy);
        assert_eq!(told["type"], "fleet.cattle.io/bundle-helmops-access/v1alpha1");
        assert_eq!(told["data"], json!({ "username": "dQ==", "password": "cA==" }));
        assert_eq!(told["metadata"]["name"], "access-1");
        assert_eq!(told["metadata"]["labels"][labels::INTERNAL_SECRET], "true");
        assert_eq!(told["metadata"]["labels"].get("mine"), None);
        assert_eq!(copy.made_from, "fleet/access@7");
    }

    #[test]
    fn downstream_resources_keep_name_and_type() {
        let map = json!({
            "metadata": { "name": "settings", "namespace": "fleet", "resourceVersion": "8" },
            "data": { "a": "1" }, "binaryData": { "b": "Yg==" }
        });
        let map = Object::ConfigMap(serde_json::from_value(map).unwrap());
        let copy = Copy::of_downstream(&deployment(), &map);
        assert_eq!((copy.object.keys(), &*copy.made_from), (2, "fleet/settings@8"));
        let told = json(&copy);
        assert_eq!(
            [&told["kind"], &told["metadata"]["namespace"]],
            ["ConfigMap", "cluster-c1"]
        );
        assert_eq!(
            told["metadata"]["labels"].get(labels::BUNDLE_NAME),
            None,
            "others may share it"
        );
        let copy = Copy::of_downstream(&deployment(), &Object::Secret(secret()));
        assert_eq!(json(&copy)["type"], "Opaque");
    }

    #[test]
    fn kinds_are_read_in_any_case() {
        let options = |kind: &str| -> BundleDeploymentOptions {
            let options = json!({ "downstreamResources": [{ "kind": kind, "name": "a" }] });
            serde_json::from_str(&options.to_string()).unwrap()
        };
        let kind = |text: &str| downstream(&options(text)).map(|sources| sources[0].kind);
        assert_eq!(kind("secret"), Ok(Kind::Secret));
        assert_eq!(kind("CONFIGMAP"), Ok(Kind::ConfigMap));
        assert_eq!(kind("Pod"), Err(UnsupportedKind("Pod".to_owned())));
    }

    #[test]
    fn a_copy_goes_with_what_needs_it() {
        let owner_of = |role| owner(&deployment(), role).unwrap();
        assert_eq!(
            (owner_of(Role::Access).controller, &*owner_of(Role::Access).uid),
            (Some(true), "u-1")
        );
        assert_eq!(owner_of(Role::Downstream).controller, None);
        assert_eq!(owner(&BundleDeployment::default(), Role::Values), None);
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
    }
}

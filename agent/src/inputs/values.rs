//! The values of a release: those of the BundleDeployment, and those of `valuesFrom`.

use helmops_api::{
    BundleDeployment,
    helm::{HelmOptions, KeySelector, ValuesFrom},
};
use helmops_core::targeting::{
    copies::{self, CopyKind, SourceRef},
    identity::values_hash,
};
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};

use crate::error::{AgentError, Lacking};
use helmops_release::report::Blocked;

/// The key of an entry of `valuesFrom` that has none.
const DEFAULT_KEY: &str = "values.yaml";

/// The values in the order in which Helm merges them: later ones override earlier ones.
///
/// `upstream` reads the Secret of the BundleDeployment, and `deployer` the objects of `valuesFrom`, with the permissions of the
/// deployment.
///
/// # Errors
/// If one of them is missing or cannot be read.
pub async fn values(
    upstream: &Client,
    deployer: &Client,
    deployment: &BundleDeployment,
    release_namespace: &str,
) -> Result<Vec<Vec<u8>>, AgentError> {
    let mut values = Vec::new();
    values.extend(own_values(upstream, deployment).await?);
    let none = HelmOptions::default();
    let options = &deployment.spec.options;
    let helm = options.helm.as_ref().unwrap_or(&none);
    let place = Place {
        release_namespace,
        copies: copies::downstream(options).unwrap_or_default(),
    };
    for (index, entry) in helm.values_from.iter().enumerate() {
        let field = format!("helm.valuesFrom[{index}]");
        values.extend(referenced(deployer, entry, &field, &place).await?);
    }
    Ok(values)
}

/// The values of the BundleDeployment: in its Secret, or in itself.
async fn own_values(upstream: &Client, deployment: &BundleDeployment) -> Result<Option<Vec<u8>>, AgentError> {
    let spec = &deployment.spec;
    if spec.values_hash.is_empty() {
        let helm = spec.options.helm.as_ref();
        let values = helm.and_then(|helm| helm.values.as_ref());
        return Ok(values.map(|values| values.as_str().as_bytes().to_vec()));
    }
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let api = Api::<Secret>::namespaced(upstream.clone(), namespace);
    let found = bounded(api.get_opt(name)).await;
    let found = found.map_err(CallError::of("read", format_args!("Secret {namespace}/{name}")))?;
    let Some(secret) = found else {
        return Err(Lacking::Blocked(Blocked::ValuesMissing {
            secret: name.to_owned(),
        })
        .into());
    };
    let data = secret.data.unwrap_or_default();
    let key = |key| data.get(key).map_or(&[][..], |value| &value.0);
    let actual = values_hash(key("values"), key("stagedValues"));
    if actual != spec.values_hash {
        let expected = spec.values_hash.clone();
        return Err(Lacking::Blocked(Blocked::ValuesChanged { actual, expected }).into());
    }
    Ok(Some(key("values").to_vec()))
}

/// The values of an entry: of its ConfigMap, then of its Secret.
async fn referenced(
    deployer: &Client,
    entry: &ValuesFrom,
    field: &str,
    place: &Place<'_>,
) -> Result<Vec<Vec<u8>>, AgentError> {
    let mut values = Vec::new();
    if let Some(reference) = &entry.config_map_key_ref {
        let found = Reference::of(
            reference,
            CopyKind::ConfigMap,
            format!("{field}.configMapKeyRef"),
            place,
        );
        let api = Api::<ConfigMap>::namespaced(deployer.clone(), &found.namespace);
        let object = found.existing(bounded(api.get_opt(&reference.name)).await)?;
        let text = object.data.as_ref().and_then(|data| data.get(&found.key));
        let bytes = object.binary_data.as_ref().and_then(|data| data.get(&found.key));
        let value = text.map(|text| text.as_bytes().to_vec());
        let value = value.or_else(|| bytes.map(|bytes| bytes.0.clone()));
        values.push(value.ok_or_else(|| found.missing_key())?);
    }
    if let Some(reference) = &entry.secret_key_ref {
        let found = Reference::of(
            reference,
            CopyKind::Secret,
            format!("{field}.secretKeyRef"),
            place,
        );
        let api = Api::<Secret>::namespaced(deployer.clone(), &found.namespace);
        let object = found.existing(bounded(api.get_opt(&reference.name)).await)?;
        let value = object.data.as_ref().and_then(|data| data.get(&found.key));
        values.push(value.ok_or_else(|| found.missing_key())?.0.clone());
    }
    Ok(values)
}

/// Where the objects of `valuesFrom` are.
struct Place<'r> {
    release_namespace: &'r str,
    /// The downstream resources of the deployment.
    copies: Vec<SourceRef>,
}

impl<'r> Place<'r> {
    /// The namespace of an object. Copies are next to the release, whatever namespace the reference has: it may be that of the
    /// source.
    fn namespace(&self, reference: &'r KeySelector, kind: CopyKind) -> &'r str {
        let is_copy = |copy: &SourceRef| copy.kind == kind && copy.name == reference.name;
        if reference.namespace.is_empty() || self.copies.iter().any(is_copy) {
            self.release_namespace
        } else {
            &reference.namespace
        }
    }
}

/// A key of an object on this cluster.
struct Reference {
    kind: CopyKind,
    namespace: String,
    name: String,
    key: String,
    /// The field that refers to it.
    field: String,
}

impl Reference {
    fn of(reference: &KeySelector, kind: CopyKind, field: String, place: &Place<'_>) -> Self {
        let or = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        Self {
            kind,
            namespace: place.namespace(reference, kind).to_owned(),
            name: reference.name.clone(),
            key: or(&reference.key, DEFAULT_KEY),
            field,
        }
    }

    fn existing<K>(
        &self,
        found: Result<Option<K>, helmops_runtime::client::ApiError>,
    ) -> Result<K, AgentError> {
        let found = found.map_err(CallError::of("read", self.object()))?;
        found.ok_or_else(|| {
            Lacking::ValuesFrom(format!(
                "{}: {} does not exist on this cluster; create it",
                self.field,
                self.object()
            ))
            .into()
        })
    }

    fn missing_key(&self) -> AgentError {
        let Self { field, key, .. } = self;
        Lacking::ValuesFrom(format!("{field}: {} has no key {key:?}", self.object())).into()
    }

    fn object(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_read_next_to_the_release_and_another_object_where_its_reference_says() {
        let place = Place {
            release_namespace: "shop",
            copies: vec![SourceRef {
                kind: CopyKind::ConfigMap,
                name: "copied".to_owned(),
            }],
        };
        for (kind, name, namespace, expected) in [
            (CopyKind::ConfigMap, "copied", "tenant", "shop"),
            (CopyKind::ConfigMap, "copied", "", "shop"),
            (CopyKind::Secret, "copied", "tenant", "tenant"),
            (CopyKind::ConfigMap, "other", "tenant", "tenant"),
            (CopyKind::ConfigMap, "other", "", "shop"),
        ] {
            let reference = KeySelector {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                ..KeySelector::default()
            };
            assert_eq!(
                place.namespace(&reference, kind),
                expected,
                "{kind} {namespace}/{name}"
            );
        }
    }
}

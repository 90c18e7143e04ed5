//! The values of `helm.valuesFrom`: of ConfigMaps and Secrets on the cluster of the release.

use go_formats::yaml::{self, Quota};
use helmops_api::{
    BundleDeploymentOptions,
    helm::{HelmOptions, KeySelector, ValuesFrom},
};
use helmops_core::targeting::copies::{self, CopyKind, SourceRef};
use helmops_kube::path_segment;
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use serde_json::Value;
use thiserror::Error;

use super::outcome::SecretTexts;

/// Bytes of all values of a release. Helm keeps them in the record, a Secret of at most 1 MiB, so no release has as many.
const MAX_BYTES: usize = 4 << 20;
/// The key of an entry that has none.
const DEFAULT_KEY: &str = "values.yaml";

/// Why values cannot be read.
#[derive(Debug, Error)]
pub enum ValuesFromError {
    /// The API server could not be called.
    #[error(transparent)]
    Call(#[from] CallError),
    /// An object or a key does not exist.
    #[error("{0}")]
    Missing(String),
    /// There are too many bytes.
    #[error(
        "{field}: the values of helm.valuesFrom have more than {} MiB up to this entry; remove entries, or what is not used of them",
        MAX_BYTES >> 20
    )]
    TooLarge {
        /// The field with the entry.
        field: String,
    },
}

/// The values of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferencedValues {
    /// JSON or YAML.
    pub document: Vec<u8>,
    /// Whether they are those of a Secret.
    pub is_secret: bool,
}

/// All texts of Secrets, which messages do not show. What is no YAML is refused by Helm, which quotes lines of it.
pub fn secret_texts(values: &[ReferencedValues], names: &[&str]) -> SecretTexts {
    let secrets = values.iter().filter(|values| values.is_secret);
    let mut texts = Vec::new();
    for secret in secrets {
        let text = String::from_utf8_lossy(&secret.document);
        match yaml::read(&text, &mut Quota::default()) {
            Ok(values) => add_texts(values, &mut texts),
            Err(_) => texts.push(text.into_owned()),
        }
    }
    SecretTexts::of(texts.iter().map(|text| &**text), names)
}

fn add_texts(values: Value, texts: &mut Vec<String>) {
    match values {
        Value::String(text) => texts.push(text),
        Value::Number(number) => texts.push(number.to_string()),
        Value::Array(items) => items.into_iter().for_each(|item| add_texts(item, texts)),
        Value::Object(fields) => fields.into_iter().for_each(|(_, value)| add_texts(value, texts)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The values in the order in which Helm merges them: later ones override earlier ones.
///
/// # Errors
/// If one of them is missing or cannot be read.
pub async fn values_from(
    deployer: &Client,
    options: &BundleDeploymentOptions,
    release_namespace: &str,
) -> Result<Vec<ReferencedValues>, ValuesFromError> {
    let none = HelmOptions::default();
    let helm = options.helm.as_ref().unwrap_or(&none);
    let place = Place {
        release_namespace,
        copies: copies::downstream(options).unwrap_or_default(),
    };
    let (mut values, mut bytes) = (Vec::new(), 0);
    for (index, entry) in helm.values_from.iter().enumerate() {
        let field = format!("helm.valuesFrom[{index}]");
        let found = referenced(deployer, entry, &field, &place).await?;
        bytes += found.iter().map(|values| values.document.len()).sum::<usize>();
        if bytes > MAX_BYTES {
            return Err(ValuesFromError::TooLarge { field });
        }
        values.extend(found);
    }
    Ok(values)
}

/// The values of an entry: of its ConfigMap, then of its Secret.
async fn referenced(
    deployer: &Client,
    entry: &ValuesFrom,
    field: &str,
    place: &Place<'_>,
) -> Result<Vec<ReferencedValues>, ValuesFromError> {
    let mut values = Vec::new();
    if let Some(reference) = &entry.config_map_key_ref {
        let found = Reference::of(
            reference,
            CopyKind::ConfigMap,
            format!("{field}.configMapKeyRef"),
            place,
        );
        let api = Api::<ConfigMap>::namespaced(deployer.clone(), &path_segment(&found.namespace));
        let object = found.existing(bounded(api.get_opt(&path_segment(&reference.name))).await)?;
        let text = object.data.as_ref().and_then(|data| data.get(&found.key));
        let bytes = object.binary_data.as_ref().and_then(|data| data.get(&found.key));
        let value = text.map(|text| text.as_bytes().to_vec());
        let value = value.or_else(|| bytes.map(|bytes| bytes.0.clone()));
        values.push(ReferencedValues {
            document: value.ok_or_else(|| found.missing_key())?,
            is_secret: false,
        });
    }
    if let Some(reference) = &entry.secret_key_ref {
        let found = Reference::of(
            reference,
            CopyKind::Secret,
            format!("{field}.secretKeyRef"),
            place,
        );
        let api = Api::<Secret>::namespaced(deployer.clone(), &path_segment(&found.namespace));
        let object = found.existing(bounded(api.get_opt(&path_segment(&reference.name))).await)?;
        let value = object.data.as_ref().and_then(|data| data.get(&found.key));
        values.push(ReferencedValues {
            document: value.ok_or_else(|| found.missing_key())?.0.clone(),
            is_secret: true,
        });
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

    fn existing<K>(&self, found: Result<Option<K>, ApiError>) -> Result<K, ValuesFromError> {
        let found = found.map_err(CallError::of("read", self.object()))?;
        found.ok_or_else(|| {
            ValuesFromError::Missing(format!(
                "{}: {} does not exist on this cluster; create it",
                self.field,
                self.object()
            ))
        })
    }

    fn missing_key(&self) -> ValuesFromError {
        let Self { field, key, .. } = self;
        ValuesFromError::Missing(format!("{field}: {} has no key {key:?}", self.object()))
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

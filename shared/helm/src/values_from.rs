//! The values of `helm.valuesFrom` and `lifecycle.valuesFrom`: of ConfigMaps and Secrets on the cluster of the release.
//!
//! ```text
//! options ─► sources ─► read ─► layers, with the values of the options ─► helmops_release::values
//! ```

use std::collections::{BTreeMap, btree_map::Entry};

use go_formats::yaml::{self, Quota};
use helmops_api::{BundleDeploymentOptions, Lifecycle, helm::KeySelector, lifecycle::ValuesReference};
use helmops_core::targeting::copies::{self, CopyKind, SourceRef};
use helmops_kube::path_segment;
use helmops_model::chart::digest::sha256_hex;
use helmops_release::values::{self, LayerContent, ValuesLayer};
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
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
        "{field}: the values of valuesFrom have more than {} MiB up to this entry; remove entries, or what is not used of them",
        MAX_BYTES >> 20
    )]
    TooLarge {
        /// The field with the entry.
        field: String,
    },
}

/// A key of a ConfigMap or Secret on the cluster with values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesSource {
    /// The field that refers to it.
    pub field: String,
    /// The kind of the object.
    pub kind: CopyKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key.
    pub key: String,
    /// Whether the object and the key may be missing.
    pub is_optional: bool,
    /// What its values override.
    pub rank: Rank,
}

/// Which values those of a source override. Those of the same rank override each other in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Those of the chart: `lifecycle.valuesFrom`, as in Flux.
    Chart,
    /// Those of the options as well: `helm.valuesFrom`, as in Fleet.
    Options,
    /// All others, at a path: `lifecycle.valuesFrom` with a `targetPath`.
    All {
        /// The path.
        path: String,
        /// Whether the value is a text as it is.
        is_literal: bool,
    },
}

impl ValuesSource {
    /// The object, for messages.
    pub fn object(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The sources that options name, in the order in which they are read.
pub fn sources(
    options: &BundleDeploymentOptions,
    lifecycle: Option<&Lifecycle>,
    release_namespace: &str,
) -> Vec<ValuesSource> {
    let place = Place {
        release_namespace,
        copies: copies::downstream(options).unwrap_or_default(),
    };
    let of_lifecycle = lifecycle.into_iter().flat_map(|lifecycle| &lifecycle.values_from);
    let of_lifecycle = of_lifecycle.enumerate().filter_map(|(index, reference)| {
        let field = format!("lifecycle.valuesFrom[{index}]");
        of_reference(reference, field, &place)
    });
    let of_helm = options.helm.iter().flat_map(|helm| &helm.values_from).enumerate();
    let of_helm = of_helm.flat_map(|(index, entry)| {
        let keys = [
            (&entry.config_map_key_ref, CopyKind::ConfigMap, "configMapKeyRef"),
            (&entry.secret_key_ref, CopyKind::Secret, "secretKeyRef"),
        ];
        let place = &place;
        keys.into_iter().filter_map(move |(selector, kind, name)| {
            let field = format!("helm.valuesFrom[{index}].{name}");
            Some(of_selector(selector.as_ref()?, kind, field, place))
        })
    });
    of_lifecycle.chain(of_helm).collect()
}

/// `None` for a kind that there is not: admission denies it.
fn of_reference(reference: &ValuesReference, field: String, place: &Place<'_>) -> Option<ValuesSource> {
    let kind = match &*reference.kind {
        "ConfigMap" => CopyKind::ConfigMap,
        "Secret" => CopyKind::Secret,
        _ => return None,
    };
    let rank = if reference.target_path.is_empty() {
        Rank::Chart
    } else {
        Rank::All {
            path: reference.target_path.clone(),
            is_literal: reference.literal,
        }
    };
    Some(ValuesSource {
        field,
        kind,
        namespace: place.namespace(kind, &reference.name, &reference.namespace),
        name: reference.name.clone(),
        key: key_of(&reference.values_key),
        is_optional: reference.optional,
        rank,
    })
}

fn of_selector(selector: &KeySelector, kind: CopyKind, field: String, place: &Place<'_>) -> ValuesSource {
    ValuesSource {
        field,
        kind,
        namespace: place.namespace(kind, &selector.name, &selector.namespace),
        name: selector.name.clone(),
        key: key_of(&selector.key),
        is_optional: false,
        rank: Rank::Options,
    }
}

fn key_of(key: &str) -> String {
    if key.is_empty() { DEFAULT_KEY } else { key }.to_owned()
}

/// The values of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferencedValues {
    /// What they override.
    rank: Rank,
    /// The values.
    layer: ValuesLayer,
    /// Whether they are those of a Secret.
    is_secret: bool,
}

impl ReferencedValues {
    fn text(&self) -> &[u8] {
        match &self.layer.content {
            LayerContent::Document(text) | LayerContent::Value { text, .. } => text,
        }
    }
}

/// Reads the values of sources, each object once.
///
/// # Errors
/// If one of them is missing or cannot be read.
pub async fn read(
    deployer: &Client,
    sources: &[ValuesSource],
) -> Result<Vec<ReferencedValues>, ValuesFromError> {
    let mut objects = BTreeMap::new();
    let (mut values, mut bytes) = (Vec::new(), 0);
    for source in sources {
        let id = (source.kind, &source.namespace, &source.name);
        let data = match objects.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(data(deployer, source).await?),
        };
        let Some(text) = of_key(data.as_ref(), source)? else {
            continue;
        };
        bytes += text.len();
        if bytes > MAX_BYTES {
            return Err(ValuesFromError::TooLarge {
                field: source.field.clone(),
            });
        }
        values.push(ReferencedValues {
            rank: source.rank.clone(),
            layer: ValuesLayer {
                source: source.field.clone(),
                content: content(&source.rank, text.clone()),
            },
            is_secret: source.kind == CopyKind::Secret,
        });
    }
    Ok(values)
}

fn content(rank: &Rank, text: Vec<u8>) -> LayerContent {
    match rank {
        Rank::Chart | Rank::Options => LayerContent::Document(text),
        Rank::All { path, is_literal } => LayerContent::Value {
            path: path.clone(),
            text,
            is_literal: *is_literal,
        },
    }
}

type Data = BTreeMap<String, Vec<u8>>;

/// The data of the object of a source; `None` if there is no object.
async fn data(deployer: &Client, source: &ValuesSource) -> Result<Option<Data>, ValuesFromError> {
    let (namespace, name) = (path_segment(&source.namespace), path_segment(&source.name));
    let bytes = |data: Option<BTreeMap<String, ByteString>>| {
        data.unwrap_or_default()
            .into_iter()
            .map(|(key, value)| (key, value.0))
    };
    let unable = CallError::of("read", source.object());
    Ok(match source.kind {
        CopyKind::ConfigMap => {
            let api = Api::<ConfigMap>::namespaced(deployer.clone(), &namespace);
            let object = bounded(api.get_opt(&name)).await.map_err(unable)?;
            object.map(|object| {
                let texts = object.data.unwrap_or_default().into_iter();
                bytes(object.binary_data)
                    .chain(texts.map(|(key, text)| (key, text.into_bytes())))
                    .collect()
            })
        }
        CopyKind::Secret => {
            let api = Api::<Secret>::namespaced(deployer.clone(), &namespace);
            let object = bounded(api.get_opt(&name)).await.map_err(unable)?;
            object.map(|object| bytes(object.data).collect())
        }
    })
}

/// The value of the key; `None` if it is missing, and may be.
fn of_key<'d>(data: Option<&'d Data>, source: &ValuesSource) -> Result<Option<&'d Vec<u8>>, ValuesFromError> {
    let ValuesSource { field, key, .. } = source;
    let missing = match data.map(|data| data.get(key)) {
        Some(Some(value)) => return Ok(Some(value)),
        _ if source.is_optional => return Ok(None),
        Some(None) => format!("{field}: {} has no key {key:?}", source.object()),
        None => format!(
            "{field}: {} does not exist on this cluster; create it",
            source.object()
        ),
    };
    Err(ValuesFromError::Missing(missing))
}

/// The sources of all values in their order, with the values of the options.
pub fn layers(own: Option<Vec<u8>>, referenced: Vec<ReferencedValues>) -> Vec<ValuesLayer> {
    let own = own.map(|own| ValuesLayer {
        source: "helm.values".to_owned(),
        content: LayerContent::Document(own),
    });
    let (mut below, mut above, mut at_paths) = (Vec::new(), Vec::new(), Vec::new());
    for ReferencedValues { rank, layer, .. } in referenced {
        match rank {
            Rank::Chart => below.push(layer),
            Rank::Options => above.push(layer),
            Rank::All { .. } => at_paths.push(layer),
        }
    }
    below.extend(own);
    below.append(&mut above);
    below.append(&mut at_paths);
    below
}

/// The digest of values, to notice a change. Of those that are missing, too.
pub fn digest(values: &[ReferencedValues]) -> String {
    let mut all = Vec::new();
    for values in values {
        for part in [values.layer.source.as_bytes(), values.text()] {
            all.extend(part.len().to_be_bytes());
            all.extend(part);
        }
    }
    sha256_hex(&all)
}

/// All texts of Secrets, which messages do not show. What is no YAML is refused, in a message that could quote it.
pub fn secret_texts(values: &[ReferencedValues], names: &[&str]) -> SecretTexts {
    let secrets = values.iter().filter(|values| values.is_secret);
    let mut texts = Vec::new();
    for secret in secrets {
        let text = String::from_utf8_lossy(secret.text());
        match &secret.layer.content {
            LayerContent::Document(_) => match yaml::read(&text, &mut Quota::default()) {
                Ok(values) => add_texts(values, &mut texts),
                Err(_) => texts.push(text.into_owned()),
            },
            // It may be several values, or a list.
            LayerContent::Value { .. } => {
                if let Ok(values) = values::merged(std::slice::from_ref(&secret.layer)) {
                    add_texts(values.into(), &mut texts);
                }
                texts.push(text.into_owned());
            }
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

/// Where the objects of `valuesFrom` are.
struct Place<'r> {
    release_namespace: &'r str,
    /// The downstream resources of the deployment.
    copies: Vec<SourceRef>,
}

impl Place<'_> {
    /// The namespace of an object. Copies are next to the release, whatever namespace the reference has: it may be that of the
    /// source.
    fn namespace(&self, kind: CopyKind, name: &str, namespace: &str) -> String {
        let is_copy = |copy: &SourceRef| copy.kind == kind && copy.name == name;
        if namespace.is_empty() || self.copies.iter().any(is_copy) {
            self.release_namespace.to_owned()
        } else {
            namespace.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(options: Value) -> BundleDeploymentOptions {
        serde_json::from_value(options).unwrap()
    }

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
            assert_eq!(
                place.namespace(kind, name, namespace),
                expected,
                "{kind} {namespace}/{name}"
            );
        }
    }

    /// Below the values of the options as in Flux, above them as in Fleet, and paths above all.
    #[test]
    fn sources_override_as_where_they_are_from() {
        let options = options(json!({
            "helm": { "valuesFrom": [
                { "secretKeyRef": { "name": "fleet", "key": "a" }, "configMapKeyRef": { "name": "fleet" } },
            ]},
            "lifecycle": { "valuesFrom": [
                { "kind": "Secret", "name": "token", "valuesKey": "token", "targetPath": "auth.token", "literal": true },
                { "kind": "ConfigMap", "name": "flux", "namespace": "base", "optional": true },
                { "kind": "Bucket", "name": "none" },
            ]},
        }));
        let sources = sources(&options, options.lifecycle.as_deref(), "shop");
        let shown: Vec<_> = sources
            .iter()
            .map(|source| (&*source.field, source.object(), &*source.key, source.is_optional))
            .collect();
        let expected = [
            (
                "lifecycle.valuesFrom[0]",
                "Secret shop/token".to_owned(),
                "token",
                false,
            ),
            (
                "lifecycle.valuesFrom[1]",
                "ConfigMap base/flux".to_owned(),
                "values.yaml",
                true,
            ),
            (
                "helm.valuesFrom[0].configMapKeyRef",
                "ConfigMap shop/fleet".to_owned(),
                "values.yaml",
                false,
            ),
            (
                "helm.valuesFrom[0].secretKeyRef",
                "Secret shop/fleet".to_owned(),
                "a",
                false,
            ),
        ];
        assert_eq!(shown, expected);

        let values = sources.iter().map(|source| ReferencedValues {
            rank: source.rank.clone(),
            layer: ValuesLayer {
                source: source.field.clone(),
                content: content(&source.rank, b"a: 1".to_vec()),
            },
            is_secret: source.kind == CopyKind::Secret,
        });
        let layers = layers(Some(b"{}".to_vec()), values.collect());
        let order: Vec<_> = layers.iter().map(|layer| &*layer.source).collect();
        let expected = [
            "lifecycle.valuesFrom[1]",
            "helm.values",
            "helm.valuesFrom[0].configMapKeyRef",
            "helm.valuesFrom[0].secretKeyRef",
            "lifecycle.valuesFrom[0]",
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn what_may_be_missing_is_left_out() {
        let data = Data::from([("values.yaml".to_owned(), b"a: 1".to_vec())]);
        let source = |key: &str, is_optional| ValuesSource {
            field: "lifecycle.valuesFrom[0]".to_owned(),
            kind: CopyKind::Secret,
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            key: key.to_owned(),
            is_optional,
            rank: Rank::Chart,
        };
        let found = |data: Option<&Data>, source: ValuesSource| {
            let found = of_key(data, &source);
            found
                .map(|found| found.is_some())
                .map_err(|error| error.to_string())
        };
        assert_eq!(found(Some(&data), source("values.yaml", false)), Ok(true));
        assert_eq!(found(Some(&data), source("other", true)), Ok(false));
        assert_eq!(found(None, source("values.yaml", true)), Ok(false));
        let error = found(Some(&data), source("other", false)).unwrap_err();
        assert_eq!(
            error,
            "lifecycle.valuesFrom[0]: Secret shop/web has no key \"other\""
        );
        let error = found(None, source("other", false)).unwrap_err();
        assert_eq!(
            error,
            "lifecycle.valuesFrom[0]: Secret shop/web does not exist on this cluster; create it"
        );
    }
}

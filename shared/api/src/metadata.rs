//! Object metadata without `managedFields`.

use std::{
    borrow::Cow,
    ops::{Deref, DerefMut},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

use super::{labels, wire::FieldValue};

/// The maximum number of finalizers that an object without content keeps. Each has less than 400 bytes, and most objects have one or two.
const FINALIZERS: usize = 16;
/// The labels that an object without content keeps: they name its owner. Their values have at most 63 bytes.
const LABELS: [&str; 7] = [
    labels::BUNDLE_NAMESPACE,
    labels::BUNDLE_NAME,
    labels::CLUSTER_NAMESPACE,
    labels::CLUSTER,
    labels::HELM_NAME,
    labels::SHARD,
    labels::CREATED_BY,
];

/// Metadata of an object. `managedFields`, often the largest part of an object, are skipped when it is decoded: they are not
/// used here, and a write without them does not change them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Metadata(ObjectMeta);

impl Metadata {
    /// Of the metadata of an object what identifies it, its version and its owner, and the finalizers, unless there are many. The rest may
    /// be large.
    pub fn identifying(metadata: &ObjectMeta) -> Self {
        let labels = metadata.labels.as_ref().map(|labels| {
            let kept = LABELS.iter().filter_map(|label| labels.get_key_value(*label));
            kept.map(|(label, value)| (label.clone(), value.clone()))
                .collect()
        });
        let finalizers = metadata.finalizers.as_ref();
        Self(ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            generation: metadata.generation,
            deletion_timestamp: metadata.deletion_timestamp.clone(),
            finalizers: finalizers.filter(|all| all.len() <= FINALIZERS).cloned(),
            labels,
            ..ObjectMeta::default()
        })
    }
}

impl From<ObjectMeta> for Metadata {
    fn from(metadata: ObjectMeta) -> Self {
        Self(metadata)
    }
}

impl From<Metadata> for ObjectMeta {
    fn from(Metadata(metadata): Metadata) -> Self {
        metadata
    }
}

impl Deref for Metadata {
    type Target = ObjectMeta;

    fn deref(&self) -> &ObjectMeta {
        &self.0
    }
}

impl DerefMut for Metadata {
    fn deref_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

impl FieldValue<'_> for Metadata {}

impl JsonSchema for Metadata {
    fn schema_name() -> Cow<'static, str> {
        "Metadata".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

impl AsRef<ObjectMeta> for Metadata {
    fn as_ref(&self) -> &ObjectMeta {
        &self.0
    }
}

impl AsMut<ObjectMeta> for Metadata {
    fn as_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields { managed: None }).map(Self)
    }
}

/// Decodes metadata with `managedFields`, from JSON only. If one of their entries does not decode, none is kept.
///
/// # Errors
/// If any other field does not decode.
pub fn with_managed_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut managed = None;
    let mut metadata = deserializer.deserialize_map(Fields {
        managed: Some(&mut managed),
    })?;
    metadata.managed_fields = managed.as_deref().and_then(entries);
    Ok(metadata)
}

fn entries(text: &RawValue) -> Option<Vec<ManagedFieldsEntry>> {
    serde_json::from_str(text.get()).ok()
}

/// Visits the fields of metadata. Stores the text of `managedFields` in `managed`, if that is set.
struct Fields<'m> {
    managed: Option<&'m mut Option<Box<RawValue>>>,
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ObjectMeta;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object's metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ObjectMeta, A::Error> {
        let map = WithoutManagedFields {
            map,
            managed: self.managed,
        };
        let mut metadata = ObjectMeta::deserialize(MapAccessDeserializer::new(map))?;
        metadata.finalizers.iter_mut().for_each(Vec::shrink_to_fit);
        metadata.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
        Ok(metadata)
    }
}

/// A map without `managedFields`. They may be nested to any depth: they are skipped, or kept as text.
struct WithoutManagedFields<'m, A> {
    map: A,
    managed: Option<&'m mut Option<Box<RawValue>>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutManagedFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        loop {
            let Some(key) = self.map.next_key::<Cow<'de, str>>()? else {
                return Ok(None);
            };
            if key != "managedFields" {
                return seed
                    .deserialize(serde::de::value::CowStrDeserializer::new(key))
                    .map(Some);
            }
            match &mut self.managed {
                Some(managed) => **managed = Some(self.map.next_value()?),
                None => _ = self.map.next_value::<IgnoredAny>()?,
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields_except_managed_fields_are_decoded() {
        let text =
            r#"{"name":"web","managedFields":[{"fieldsV1":{"f:a":{}}}],"labels":{"a":"b"},"generation":2}"#;
        let metadata: Metadata = serde_json::from_str(text).unwrap();
        let kept = r#"{"generation":2,"labels":{"a":"b"},"name":"web"}"#;
        let kept: serde_json::Value = serde_json::from_str(kept).unwrap();
        assert_eq!(serde_json::to_value(metadata).unwrap(), kept);
    }

    #[test]
    fn identifying_metadata_name_the_owner_and_little_more() {
        let kept: std::collections::BTreeMap<_, _> =
            LABELS.map(|label| (label.to_owned(), "a".to_owned())).into();
        let mut labels = kept.clone();
        labels.insert("other".to_owned(), "x".repeat(10_000));
        let mut metadata = ObjectMeta {
            name: Some("web".to_owned()),
            uid: Some("1".to_owned()),
            annotations: Some(labels.clone()),
            labels: Some(labels),
            finalizers: Some(vec!["f".to_owned()]),
            ..ObjectMeta::default()
        };
        let found = Metadata::identifying(&metadata);
        let expected = ObjectMeta {
            annotations: None,
            labels: Some(kept),
            ..metadata.clone()
        };
        assert_eq!(found, Metadata(expected));
        metadata.finalizers = Some(vec!["f".to_owned(); 1_000]);
        assert_eq!(Metadata::identifying(&metadata).finalizers, None);
    }

    #[test]
    fn lists_have_no_spare_capacity() {
        let metadata: Metadata = serde_json::from_str(r#"{"finalizers":["a"]}"#).unwrap();
        assert_eq!(metadata.finalizers.as_ref().map(Vec::capacity), Some(1));
    }
}

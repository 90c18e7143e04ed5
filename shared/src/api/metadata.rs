//! Object metadata without what only the API server has use for.

use std::{
    borrow::Cow,
    ops::{Deref, DerefMut},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::wire::Value;

/// Metadata of an object. `managedFields`, often the largest part of an object, are passed over when it is decoded:
/// nothing here reads them, and a write that leaves them out leaves them as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Metadata(ObjectMeta);

impl From<ObjectMeta> for Metadata {
    fn from(metadata: ObjectMeta) -> Self {
        Self(metadata)
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

impl Value<'_> for Metadata {}

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

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = ObjectMeta;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object's metadata")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ObjectMeta, A::Error> {
                let mut metadata =
                    ObjectMeta::deserialize(MapAccessDeserializer::new(WithoutManagedFields(map)))?;
                metadata.finalizers.iter_mut().for_each(Vec::shrink_to_fit);
                metadata.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
                Ok(metadata)
            }
        }

        deserializer.deserialize_map(Fields).map(Self)
    }
}

/// A map as it is, but for one key.
struct WithoutManagedFields<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutManagedFields<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        loop {
            let Some(key) = self.0.next_key::<Cow<'de, str>>()? else {
                return Ok(None);
            };
            if key != "managedFields" {
                return seed
                    .deserialize(serde::de::value::CowStrDeserializer::new(key))
                    .map(Some);
            }
            self.0.next_value::<IgnoredAny>()?;
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_managed_fields() {
        let text =
            r#"{"name":"web","managedFields":[{"fieldsV1":{"f:a":{}}}],"labels":{"a":"b"},"generation":2}"#;
        let metadata: Metadata = serde_json::from_str(text).unwrap();
        let kept = r#"{"generation":2,"labels":{"a":"b"},"name":"web"}"#;
        let kept: serde_json::Value = serde_json::from_str(kept).unwrap();
        assert_eq!(serde_json::to_value(metadata).unwrap(), kept);
    }

    #[test]
    fn no_more_memory_than_is_used() {
        let metadata: Metadata = serde_json::from_str(r#"{"finalizers":["a"]}"#).unwrap();
        assert_eq!(metadata.finalizers.as_ref().map(Vec::capacity), Some(1));
    }
}

//! Objects whose metadata alone is requested and decoded.
//!
//! `kube` has `PartialObjectMeta` for this. It decodes `managedFields` too, and every client with write access to an object can
//! nest them deeper than the JSON parser accepts: with one such Secret, no list of Secrets decodes.

use std::{fmt, marker::PhantomData};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Deserializer};

use super::{
    metadata::{self, Metadata},
    same_resource::same_resource_as,
};

/// The metadata of an object of kind `K` without `managedFields`. An `Api` of this type requests only metadata.
pub type MetadataOnly<K> = PartialObject<K, Metadata>;

/// The metadata of an object of kind `K`, with `managedFields` if all of them decode.
pub type MetadataWithManagers<K> = PartialObject<K, ManagedMetadata>;

/// An object of kind `K` of which only the metadata `M` is decoded.
#[derive(Deserialize)]
#[serde(bound = "M: Deserialize<'de> + Default")]
pub struct PartialObject<K, M> {
    /// The metadata.
    #[serde(default)]
    pub metadata: M,
    #[serde(skip)]
    kind: PhantomData<K>,
}

/// Metadata with `managedFields`; without them if an entry does not decode.
#[derive(Clone, Debug, Default)]
pub struct ManagedMetadata(pub ObjectMeta);

impl<'de> Deserialize<'de> for ManagedMetadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        metadata::with_managed_fields(deserializer).map(Self)
    }
}

impl<K> From<ObjectMeta> for MetadataOnly<K> {
    fn from(metadata: ObjectMeta) -> Self {
        Self {
            metadata: metadata.into(),
            kind: PhantomData,
        }
    }
}

impl<K> From<ObjectMeta> for MetadataWithManagers<K> {
    fn from(metadata: ObjectMeta) -> Self {
        Self {
            metadata: ManagedMetadata(metadata),
            kind: PhantomData,
        }
    }
}

impl<K, M: Clone> Clone for PartialObject<K, M> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            kind: PhantomData,
        }
    }
}

impl<K, M: fmt::Debug> fmt::Debug for PartialObject<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialObject")
            .field("metadata", &self.metadata)
            .finish()
    }
}

impl AsRef<ObjectMeta> for ManagedMetadata {
    fn as_ref(&self) -> &ObjectMeta {
        &self.0
    }
}

impl AsMut<ObjectMeta> for ManagedMetadata {
    fn as_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

impl<K: Resource, M: AsRef<ObjectMeta> + AsMut<ObjectMeta>> Resource for PartialObject<K, M> {
    same_resource_as!(K);

    fn metadata_api() -> bool {
        true
    }

    fn meta(&self) -> &ObjectMeta {
        self.metadata.as_ref()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use kube_core::ObjectList;
    use serde::de::DeserializeOwned;

    use super::*;

    /// Nested fields. The API server stores and serves a thousand levels, more than the JSON parser accepts.
    fn deep(levels: usize) -> String {
        format!("{}{}", r#"{"f:a":"#.repeat(levels), "{}") + &"}".repeat(levels)
    }

    fn list(fields: &str) -> String {
        let hostile = format!(
            r#"{{"metadata":{{"name":"hostile","managedFields":[{{"manager":"a"}},{{"manager":"b","fieldsV1":{fields}}}]}}}}"#
        );
        let regular = r#"{"metadata":{"name":"regular","managedFields":[{"manager":"c"}]}}"#;
        format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{hostile},{regular}]}}"#)
    }

    fn managers<K: Resource + Clone + DeserializeOwned>(text: &str) -> Vec<(String, Option<usize>)> {
        let list: ObjectList<K> = serde_json::from_str(text).unwrap();
        let meta = list.items.iter().map(Resource::meta);
        meta.map(|meta| {
            let count = meta.managed_fields.as_ref().map(Vec::len);
            (meta.name.clone().unwrap(), count)
        })
        .collect()
    }

    #[test]
    fn a_list_with_deeply_nested_managed_fields_decodes() {
        for levels in [1, 150, 1000] {
            let found = managers::<MetadataOnly<Secret>>(&list(&deep(levels)));
            assert_eq!(
                found,
                [("hostile".to_owned(), None), ("regular".to_owned(), None)]
            );
        }
    }

    #[test]
    fn managed_fields_that_do_not_decode_are_omitted_only_from_their_object() {
        let deep = managers::<MetadataWithManagers<Secret>>(&list(&deep(150)));
        assert_eq!(
            deep,
            [("hostile".to_owned(), None), ("regular".to_owned(), Some(1))]
        );
        let shallow = managers::<MetadataWithManagers<Secret>>(&list(r#"{"f:data":{}}"#));
        assert_eq!(
            shallow,
            [("hostile".to_owned(), Some(2)), ("regular".to_owned(), Some(1))]
        );
    }

    #[test]
    fn only_metadata_is_requested() {
        assert!(MetadataOnly::<Secret>::metadata_api());
        assert!(MetadataWithManagers::<Secret>::metadata_api());
    }
}

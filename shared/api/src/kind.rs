//! The kind of an API object: group, version, kind, plural and type metadata.

use std::{borrow::Cow, fmt, marker::PhantomData};

use kube_core::Resource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Serialize, Serializer,
    de::{IgnoredAny, MapAccess},
    ser::SerializeStruct,
};

use super::{
    unknown_fields::{FieldPath, Visit, VisitUnknown},
    wire::FieldSet,
};

/// The API group of Fleet's kinds.
pub const GROUP: &str = "fleet.cattle.io";
/// The API group of the kinds that only helmops has.
pub const OWN_GROUP: &str = "helmops.fleet.cattle.io";
/// The API version of all these kinds.
pub const VERSION: &str = "v1alpha1";

/// The `apiVersion` and `kind` of an object of type `K`. They follow from the type, so they take no memory, and are ignored
/// when decoding.
pub struct TypeMeta<K>(PhantomData<fn() -> K>);

impl<K> Clone for TypeMeta<K> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<K> Default for TypeMeta<K> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<K> fmt::Debug for TypeMeta<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypeMeta")
    }
}

impl<K> PartialEq for TypeMeta<K> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<K> FieldSet for TypeMeta<K> {
    fn read_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        if !matches!(key, "apiVersion" | "kind") {
            return Ok(false);
        }
        map.next_value::<IgnoredAny>()?;
        Ok(true)
    }
}

impl<K> VisitUnknown for TypeMeta<K> {
    fn visit_unknown(&mut self, _: FieldPath<'_>, _: Visit<'_>) {}
}

impl<K: Resource<DynamicType = ()>> Serialize for TypeMeta<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut state = serializer.serialize_struct("TypeMeta", 2)?;
        state.serialize_field("apiVersion", &K::api_version(&()))?;
        state.serialize_field("kind", &K::kind(&()))?;
        state.end()
    }
}

impl<K: Resource<DynamicType = ()>> JsonSchema for TypeMeta<K> {
    fn schema_name() -> Cow<'static, str> {
        "TypeMeta".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "apiVersion": { "type": "string", "description": format!("Group and version of the kind: {}.", K::api_version(&())) },
                "kind": { "type": "string", "description": "The kind of the object." },
            },
        })
    }
}

/// Implements `Resource` for a struct with a field `metadata`, as a namespaced kind of Fleet's group, or of the given one.
macro_rules! kind {
    ($name:ident, $plural:literal) => {
        $crate::kind::kind!($name, $plural, $crate::kind::GROUP);
    };
    ($name:ident, $plural:literal, $group:expr) => {
        $crate::kind::kind!($name, $plural, $group, k8s_openapi::NamespaceResourceScope);
    };
    ($name:ident, $plural:literal, $group:expr, $scope:ty) => {
        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $crate::kind::VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// Implements `Resource` for a struct with a field `metadata`, as a kind of Fleet's group without namespaces.
macro_rules! cluster_kind {
    ($name:ident, $plural:literal) => {
        $crate::kind::kind!(
            $name,
            $plural,
            $crate::kind::GROUP,
            k8s_openapi::ClusterResourceScope
        );
    };
}

pub(crate) use cluster_kind;
pub(crate) use kind;

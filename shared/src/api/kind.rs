//! The root of an API object: what makes a struct a kind that an API server serves.

use std::{borrow::Cow, fmt, marker::PhantomData};

use kube_core::Resource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Serialize, Serializer,
    de::{IgnoredAny, MapAccess},
    ser::SerializeStruct,
};

use super::wire::Part;

/// The API group of every kind here.
pub const GROUP: &str = "fleet.cattle.io";
/// The version of every kind here.
pub const VERSION: &str = "v1alpha1";

/// The `apiVersion` and `kind` of an object of type `K`: known from the type, so they take no room and are not read.
pub struct Types<K>(PhantomData<fn() -> K>);

impl<K> Clone for Types<K> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<K> Default for Types<K> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<K> fmt::Debug for Types<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}

impl<K> PartialEq for Types<K> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<K> Part for Types<K> {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        if !matches!(key, "apiVersion" | "kind") {
            return Ok(false);
        }
        map.next_value::<IgnoredAny>()?;
        Ok(true)
    }
}

impl<K: Resource<DynamicType = ()>> Serialize for Types<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut types = serializer.serialize_struct("Types", 2)?;
        types.serialize_field("apiVersion", &K::api_version(&()))?;
        types.serialize_field("kind", &K::kind(&()))?;
        types.end()
    }
}

impl<K> JsonSchema for Types<K> {
    fn schema_name() -> Cow<'static, str> {
        "Types".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "apiVersion": { "type": "string", "description": "Group and version of the kind: fleet.cattle.io/v1alpha1." },
                "kind": { "type": "string", "description": "The kind of the object." },
            },
        })
    }
}

/// Makes a struct with a field `metadata` a namespaced kind of Fleet's group.
macro_rules! kind {
    ($name:ident, $plural:literal) => {
        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $crate::api::kind::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $crate::api::kind::VERSION.into()
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

pub(crate) use kind;

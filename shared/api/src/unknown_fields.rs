//! Fields that the types here do not have, because the CRDs in the cluster are newer.
//!
//! They are kept, so that they survive when an object is written back or passed on: from a HelmOp to its Bundle, and from there
//! to the BundleDeployments. Go's embedded structs share one JSON object, so an unknown field may belong to any of them. It is
//! kept in the innermost one, which is passed on furthest: an unknown field of a HelmOp's spec is kept in the options that its
//! spec embeds, becomes one of the Bundle's spec, and from there one of `options` of the BundleDeployments. In each of them, the
//! API server stores it if the CRD has it there, and drops it otherwise.
//!
//! Statuses have none: they are written as merge patches, which do not touch what they do not name. Conditions have them,
//! because a merge patch replaces a list as a whole.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::LabelSelector, apimachinery::pkg::util::intstr::IntOrString,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer, de::MapAccess, ser::SerializeMap};

use super::{free_form::FreeForm, metadata::Metadata, wire::FieldSet};

/// The unknown fields of a struct, which embeds them as its last part. They take no memory if there are none.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::box_collection,
    reason = "a map has three words, and almost every struct has none"
)]
pub struct UnknownFields(Option<Box<BTreeMap<Box<str>, FreeForm>>>);

/// The type name under which serializers get the names of unknown fields, to count them.
pub const UNKNOWN_FIELD: &str = "UnknownField";

#[derive(Serialize)]
struct UnknownField<T>(T);

impl UnknownFields {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|fields| fields.keys().map(|name| &**name))
    }

    /// Adds fields; they replace those of the same name.
    pub fn add(&mut self, other: &Self) {
        if let Some(other) = &other.0 {
            let fields = self.0.get_or_insert_default();
            fields.extend(other.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
    }

    /// Keeps the fields whose name fulfils `condition`.
    pub fn retain(&mut self, mut condition: impl FnMut(&str) -> bool) {
        if let Some(fields) = &mut self.0 {
            fields.retain(|name, _| condition(name));
            if fields.is_empty() {
                self.0 = None;
            }
        }
    }

    /// Their values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut FreeForm> {
        self.0.iter_mut().flat_map(|fields| fields.values_mut())
    }
}

impl FieldSet for UnknownFields {
    /// Accepts every field. As for the fields that are known, `null` means that there is none.
    fn read_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        let value: FreeForm = map.next_value()?;
        if value.as_str() != "null" {
            self.0.get_or_insert_default().insert(key.into(), value);
        }
        Ok(true)
    }
}

impl Serialize for UnknownFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.as_deref();
        let mut map = serializer.serialize_map(Some(fields.map_or(0, BTreeMap::len)))?;
        for (name, value) in fields.into_iter().flatten() {
            map.serialize_entry(&UnknownField(&**name), value)?;
        }
        map.end()
    }
}

/// Nothing: the CRDs describe the fields that are known.
impl JsonSchema for UnknownFields {
    fn schema_name() -> Cow<'static, str> {
        "UnknownFields".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// The path of a struct in an object, such as `spec.targets.helm`. The items of a list have the path of the list.
#[derive(Clone, Copy, Debug)]
pub struct FieldPath<'p> {
    parent: Option<&'p Self>,
    name: &'p str,
}

impl<'p> FieldPath<'p> {
    /// The path of a field of an object.
    pub const fn of(name: &'p str) -> Self {
        Self { parent: None, name }
    }

    /// The path of a field of this struct.
    #[must_use]
    pub const fn field(&'p self, name: &'p str) -> Self {
        Self {
            parent: Some(self),
            name,
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}.")?;
        }
        f.write_str(self.name)
    }
}

/// Called with the path of a struct and its unknown fields.
pub type Visit<'v> = &'v mut dyn FnMut(FieldPath<'_>, &mut UnknownFields);

/// A value whose parts may have unknown fields.
pub trait VisitUnknown {
    /// Visits the unknown fields of all structs of the value. `path` is its own path.
    fn visit_unknown(&mut self, path: FieldPath<'_>, visit: Visit<'_>);
}

impl VisitUnknown for UnknownFields {
    fn visit_unknown(&mut self, path: FieldPath<'_>, visit: Visit<'_>) {
        visit(path, self);
    }
}

impl<T: VisitUnknown> VisitUnknown for Option<T> {
    fn visit_unknown(&mut self, path: FieldPath<'_>, visit: Visit<'_>) {
        if let Some(value) = self {
            value.visit_unknown(path, visit);
        }
    }
}

impl<T: VisitUnknown> VisitUnknown for Box<T> {
    fn visit_unknown(&mut self, path: FieldPath<'_>, visit: Visit<'_>) {
        (**self).visit_unknown(path, visit);
    }
}

impl<T: VisitUnknown + Clone> VisitUnknown for Arc<T> {
    fn visit_unknown(&mut self, path: FieldPath<'_>, visit: Visit<'_>) {
        Self::make_mut(self).visit_unknown(path, visit);
    }
}

impl<T: VisitUnknown> VisitUnknown for Vec<T> {
    fn visit_unknown(&mut self, path: FieldPath<'_>, visit: Visit<'_>) {
        for item in self {
            item.visit_unknown(path, visit);
        }
    }
}

impl<V: VisitUnknown> VisitUnknown for BTreeMap<String, V> {
    fn visit_unknown(&mut self, path: FieldPath<'_>, visit: Visit<'_>) {
        for value in self.values_mut() {
            value.visit_unknown(path, visit);
        }
    }
}

/// Values without unknown fields.
macro_rules! complete {
    ($($type:ty),* $(,)?) => {
        $(impl VisitUnknown for $type {
            fn visit_unknown(&mut self, _: FieldPath<'_>, _: Visit<'_>) {}
        })*
    };
}

complete!(String, bool, i64, FreeForm, IntOrString, LabelSelector, Metadata);

#[cfg(test)]
mod tests;

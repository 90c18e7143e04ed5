//! Decoding of JSON with a memory limit.
//!
//! A list element of three bytes (`{},`) can take a kilobyte once it is decoded. So the size of a body does not limit the
//! memory for what it decodes to, but the number of objects, list elements and map entries does. The keys of an object are
//! not counted: they are fields of a struct, whose size is counted, or unknown fields, which are counted each. Values that are
//! kept as text (Helm values) or skipped (`managedFields`, `status`) take no more memory than the body, and are not counted.

use std::{cell::Cell, fmt};

use helmops_api::unknown_fields::UNKNOWN_FIELD;
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor},
};

/// Memory limit of one decoded object, in bytes. The maximum number of targets of a HelmOp (2,000) fits, with more labels than
/// its spec can have (1 MiB). Besides the new object, the stored one is in memory, and a copy with the defaults of Policies.
pub const MAX_DECODED: usize = 24 << 20;

/// Size that is counted for an object of the API, such as a target or a selector: about that of the largest one, a target with
/// options.
const OBJECT: usize = 1 << 10;

/// Size that is counted for a list element or a map entry: key, value and their share of a half-empty node.
const ITEM: usize = 128;

/// Size that is counted for an unknown field: that of a map with one entry, since each struct may have one.
const UNKNOWN: usize = 512;

/// JSON up to this length is not counted: 16 KiB decode to at most 6 MiB.
const UNCOUNTED: usize = 16 << 10;

/// Decodes JSON that takes at most [`MAX_DECODED`] in memory.
///
/// # Errors
/// If it is not a `T`, or takes more.
pub fn from_slice<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, serde_json::Error> {
    if text.len() <= UNCOUNTED {
        return serde_json::from_slice(text);
    }
    let remaining = Cell::new(MAX_DECODED);
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(Bounded::new(&mut json, &remaining))?;
    json.end()?;
    Ok(value)
}

/// Wraps a type of serde, and counts what passes through it.
struct Bounded<'c, T> {
    inner: T,
    remaining: &'c Cell<usize>,
    keys: Keys,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Counted,
    Free,
}

impl<'c, T> Bounded<'c, T> {
    const fn new(inner: T, remaining: &'c Cell<usize>) -> Self {
        Self {
            inner,
            remaining,
            keys: Keys::Counted,
        }
    }

    fn with<U>(&self, inner: U) -> Bounded<'c, U> {
        Bounded::new(inner, self.remaining)
    }

    fn count<E: Error>(&self, bytes: usize) -> Result<(), E> {
        let remaining = self.remaining.get().checked_sub(bytes).ok_or_else(|| {
            E::custom(format_args!(
                "too many objects, list elements and map entries: more than {MAX_DECODED} bytes once decoded; split the \
                 HelmOp into several"
            ))
        })?;
        self.remaining.set(remaining);
        Ok(())
    }
}

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.with(visitor);
            self.inner.$method($($argument,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.count(OBJECT)?;
        let mut visitor = self.with(visitor);
        visitor.keys = Keys::Free;
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        if name == UNKNOWN_FIELD {
            self.count(UNKNOWN)?;
        }
        let visitor = self.with(visitor);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    visit! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<V::Value, D::Error> {
        let some = self.with(some);
        self.inner.visit_some(some)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.with(inner);
        self.inner.visit_newtype_struct(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        let elements = self.with(elements);
        self.inner.visit_seq(elements)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let mut entries = self.with(entries);
        entries.keys = self.keys;
        self.inner.visit_map(entries)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let variant = self.with(variant);
        self.inner.visit_enum(variant)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let deserializer = self.with(deserializer);
        self.inner.deserialize(deserializer)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.count(ITEM)?;
        let seed = self.with(seed);
        self.inner.next_element_seed(seed)
    }

    /// `None`: a hint would reserve memory for elements that have not been decoded.
    fn size_hint(&self) -> Option<usize> {
        None
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        if self.keys == Keys::Counted {
            self.count(ITEM)?;
        }
        let seed = self.with(seed);
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.with(seed);
        self.inner.next_value_seed(seed)
    }
}

impl<'de, 'c, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<'c, A> {
    type Error = A::Error;
    type Variant = Bounded<'c, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let remaining = self.remaining;
        let seed = self.with(seed);
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, Bounded::new(variant, remaining)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.with(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.with(visitor);
        self.inner.tuple_variant(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.with(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::{HelmOp, WithoutStatus, limits};
    use serde_json::{Map, Value, json};

    use super::*;

    fn helmop(spec: &Value) -> String {
        json!({ "metadata": { "name": "web", "managedFields": [{ "fieldsV1": vec![0; 50_000] }] }, "spec": spec })
            .to_string()
    }

    fn read(text: &str) -> Result<HelmOp, serde_json::Error> {
        from_slice(text.as_bytes())
    }

    #[test]
    fn an_object_decodes_as_with_serde_json() {
        let spec = json!({
            "helm": { "repo": "https://charts.example.com", "values": { "list": vec![json!({"a": 1.50}); 50_000] } },
            "targets": vec![json!({ "clusterSelector": { "matchLabels": { "a": "b" } }, "helm": { "values": [1] } }); 3000],
        });
        let text = helmop(&spec);
        let plain: HelmOp = serde_json::from_str(&text).unwrap();
        let counted = read(&text).unwrap();
        assert_eq!(
            serde_json::to_string(&counted.spec).unwrap(),
            serde_json::to_string(&plain.spec).unwrap()
        );
    }

    #[test]
    fn an_object_above_the_memory_limit_is_an_error_with_the_limit_and_the_fix() {
        let labels: Map<_, _> = (0..=MAX_DECODED / ITEM)
            .map(|label| (format!("{label:x}"), json!("")))
            .collect();
        for spec in [
            json!({ "targets": vec![json!({}); MAX_DECODED / OBJECT] }),
            json!({ "targets": vec![json!({ "keepResources": true }); MAX_DECODED / OBJECT] }),
            json!({ "helm": { "valuesFiles": vec![""; MAX_DECODED / ITEM + 1] } }),
            json!({ "labels": labels }),
            json!({ "helm": { "valuesFrom": vec![json!({ "newer": 1 }); MAX_DECODED / (OBJECT + UNKNOWN)] } }),
        ] {
            let error = read(&helmop(&spec)).unwrap_err().to_string();
            assert!(
                error.contains("25165824 bytes") && error.contains("split"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_maximum_number_of_targets_decodes_with_the_largest_spec() {
        let labels: Map<_, _> = (0..35).map(|label| (format!("k{label}"), json!("v"))).collect();
        let target = json!({
            "name": "", "clusterName": "", "clusterGroup": "", "clusterSelector": { "matchLabels": labels },
            "helm": { "releaseName": "", "takeOwnership": true }, "keepResources": true,
        });
        let spec = json!({ "targets": vec![target; limits::TARGETS] });
        let length = spec.to_string().len();
        assert!(
            length <= limits::SPEC && length > limits::SPEC * 9 / 10,
            "{length}"
        );
        assert_eq!(
            read(&helmop(&spec)).unwrap().spec.bundle.targets.len(),
            limits::TARGETS
        );
    }

    #[test]
    fn a_status_of_any_size_is_skipped() {
        let resource = json!({ "kind": "ConfigMap", "perClusterState": { "ready": vec!["c"; 10] } });
        let object = json!({ "spec": { "paused": true }, "status": { "resources": vec![resource; 30_000] } });
        let text = object.to_string();
        assert!(read(&text).is_err(), "with its status it is above the limit");
        let read: WithoutStatus = from_slice(text.as_bytes()).unwrap();
        assert!(read.spec.bundle.paused && read.status.is_none());
    }

    #[test]
    fn an_error_is_the_same_as_with_serde_json() {
        let text = helmop(&json!({ "targets": vec![json!({}); 10_000], "paused": "maybe" }));
        let plain = serde_json::from_str::<HelmOp>(&text).unwrap_err();
        assert_eq!(read(&text).unwrap_err().to_string(), plain.to_string());
        let truncated = text.get(..text.len() - 1).unwrap();
        assert!(read(truncated).is_err());
        assert!(read(&format!("{text} x")).is_err());
    }
}

//! Decoding with a limit on the number of elements.
//!
//! A list element of three bytes (`{},`) can take a kilobyte once it is decoded. So the size of a body does not bound what
//! it decodes to, and the number of list elements and map entries does. What is kept as text (Helm values) and what is
//! skipped (`managedFields`) takes no more memory than the body, and is not counted.

use std::{cell::Cell, fmt};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor},
};

/// Elements and entries of one review, ends of lists and maps included. A usual target has about ten, so thousands of targets
/// fit; 25,000 empty ones, the most that fit, decode to tens of MiB.
const MAX_ELEMENTS: usize = 50_000;

/// Texts up to this length need no counting: 16 KiB decode to no more than 6 MiB.
const UNCOUNTED: usize = 16 << 10;

/// Decodes JSON of at most [`MAX_ELEMENTS`] elements.
///
/// # Errors
/// Where it is not a `T`, or has more elements.
pub fn from_slice<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, serde_json::Error> {
    if text.len() <= UNCOUNTED {
        return serde_json::from_slice(text);
    }
    let left = Cell::new(MAX_ELEMENTS);
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(Counted::new(&mut json, &left))?;
    json.end()?;
    Ok(value)
}

/// Anything of serde's, with the elements that pass through it counted.
struct Counted<'c, T> {
    inner: T,
    left: &'c Cell<usize>,
    /// Keys of a struct are bounded by its fields.
    keys: Keys,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Counted,
    Free,
}

impl<'c, T> Counted<'c, T> {
    const fn new(inner: T, left: &'c Cell<usize>) -> Self {
        Self {
            inner,
            left,
            keys: Keys::Counted,
        }
    }

    fn with<U>(&self, inner: U) -> Counted<'c, U> {
        Counted::new(inner, self.left)
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| {
            E::custom(format_args!(
                "more than {MAX_ELEMENTS} list elements and map entries; split the HelmOp into several"
            ))
        })?;
        self.left.set(left);
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

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Counted<'_, D> {
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
        deserialize_newtype_struct(name: &'static str);
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
        let mut visitor = self.with(visitor);
        visitor.keys = Keys::Free;
        self.inner.deserialize_struct(name, fields, visitor)
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

impl<'de, V: Visitor<'de>> Visitor<'de> for Counted<'_, V> {
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

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Counted<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let deserializer = self.with(deserializer);
        self.inner.deserialize(deserializer)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Counted<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.count()?;
        let seed = self.with(seed);
        self.inner.next_element_seed(seed)
    }

    /// None: a hint would have memory reserved for what has not come.
    fn size_hint(&self) -> Option<usize> {
        None
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Counted<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        if self.keys == Keys::Counted {
            self.count()?;
        }
        let seed = self.with(seed);
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.with(seed);
        self.inner.next_value_seed(seed)
    }
}

impl<'de, 'c, A: EnumAccess<'de>> EnumAccess<'de> for Counted<'c, A> {
    type Error = A::Error;
    type Variant = Counted<'c, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let left = self.left;
        let seed = self.with(seed);
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, Counted::new(variant, left)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Counted<'_, A> {
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
    use helmops_shared::api::HelmOp;
    use serde_json::{Value, json};

    use super::*;

    fn helmop(spec: &Value) -> String {
        json!({ "metadata": { "name": "web", "managedFields": [{ "fieldsV1": vec![0; 50_000] }] }, "spec": spec })
            .to_string()
    }

    fn read(text: &str) -> Result<HelmOp, serde_json::Error> {
        from_slice(text.as_bytes())
    }

    #[test]
    fn an_object_decodes_as_without_counting() {
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
    fn too_many_elements_are_an_error_that_says_how_many_and_what_to_do() {
        for spec in [
            json!({ "targets": vec![json!({}); MAX_ELEMENTS + 1] }),
            json!({ "helm": { "valuesFiles": vec![""; MAX_ELEMENTS + 1] } }),
        ] {
            let error = read(&helmop(&spec)).unwrap_err().to_string();
            assert!(error.contains("50000") && error.contains("split"), "{error}");
        }
    }

    #[test]
    fn an_error_is_as_without_counting() {
        let text = helmop(&json!({ "targets": vec![json!({}); 10_000], "paused": "maybe" }));
        let plain = serde_json::from_str::<HelmOp>(&text).unwrap_err();
        assert_eq!(read(&text).unwrap_err().to_string(), plain.to_string());
        let torn = text.get(..text.len() - 1).unwrap();
        assert!(read(torn).is_err());
        assert!(read(&format!("{text} x")).is_err());
    }
}

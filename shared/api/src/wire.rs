//! Decoding and encoding of the API's structs.
//!
//! Fleet's types are Go structs: a missing field, a `null` and Go's zero value mean the same, and the fields of embedded structs
//! are inlined in the JSON object. [`wire!`](crate::wire) declares a struct with these rules.
//!
//! Decoding is one pass over the text without an intermediate tree, unlike serde's `flatten`, and errors contain the path of
//! the field.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A struct that reads its fields from a JSON object, alone or embedded in another struct.
pub trait FieldSet: Default {
    /// Reads the value of `key` from `map` if this struct has a field of that name, and returns whether it has.
    fn read_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;
}

/// The value of a field.
pub trait FieldValue<'de>: Default + Deserialize<'de> {
    /// Reads the value; `null` is the zero value.
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        Ok(map.next_value::<Option<Self>>()?.unwrap_or_default())
    }
}

/// Caches have tens of thousands of objects, so lists have no spare capacity.
impl<'de, T: Deserialize<'de>> FieldValue<'de> for Vec<T> {
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        let list = map.next_value::<Option<ExactVec<T>>>()?;
        Ok(list.map(|ExactVec(list)| list).unwrap_or_default())
    }
}

impl FieldValue<'_> for String {}
impl FieldValue<'_> for bool {}
impl FieldValue<'_> for i64 {}
impl<'de, T: Deserialize<'de>> FieldValue<'de> for Option<T> {}
impl<'de, V: Deserialize<'de>> FieldValue<'de> for BTreeMap<String, V> {}

/// What is equal in thousands of objects, so that a cache can keep it once.
impl<'de, T: FieldValue<'de>> FieldValue<'de> for Arc<T> {}

/// A list without spare capacity. Most have one element, for which a `Vec` would allocate four.
struct ExactVec<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ExactVec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(element) = elements.next_element()? {
                    if list.len() == list.capacity() {
                        list.reserve_exact(list.len().max(1));
                    }
                    list.push(element);
                }
                list.shrink_to_fit();
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Elements(PhantomData)).map(Self)
    }
}

/// Decodes a struct; fields that it does not accept are ignored.
pub fn deserialize<'de, P: FieldSet, D: Deserializer<'de>>(deserializer: D) -> Result<P, D::Error> {
    struct Fields<P>(PhantomData<P>);

    impl<'de, P: FieldSet> Visitor<'de> for Fields<P> {
        type Value = P;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<P, A::Error> {
            let mut fields = P::default();
            while let Some(Key(key)) = map.next_key()? {
                if !fields.read_field(&key, &mut map)? {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(fields)
        }
    }

    // JSON does not use the names.
    deserializer.deserialize_struct("", &[], Fields(PhantomData))
}

/// A key, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads the value of the field `name`.
pub fn value<'de, T: FieldValue<'de>, A: MapAccess<'de>>(map: &mut A, name: &str) -> Result<T, A::Error> {
    T::read(map).map_err(|error| A::Error::custom(format_args!("{name}: {error}")))
}

/// Whether Go would omit this value (`omitempty`).
pub fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

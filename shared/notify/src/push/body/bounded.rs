//! Lists with a maximum length.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// The longest list in a body. Registries send up to about 100 tags or events in one request.
const MAX_ITEMS: usize = 1_000;

/// A list of at most [`MAX_ITEMS`]: a body of the maximum size could have a million empty items. `null` is an empty list, as in Go.
pub(super) struct Bounded<T>(pub(super) Vec<T>);

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Items(PhantomData))
    }
}

struct Items<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
    type Value = Bounded<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_ITEMS} items")
    }

    fn visit_unit<E: Error>(self) -> Result<Bounded<T>, E> {
        Ok(Bounded::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Bounded<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            if items.len() == MAX_ITEMS {
                return Err(Error::invalid_length(MAX_ITEMS + 1, &self));
            }
            items.push(item);
        }
        Ok(Bounded(items))
    }
}

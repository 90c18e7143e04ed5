//! Objects that may not decode, so that one invalid object does not stop a watch.

use std::{fmt, ops::Deref, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{metadata::Metadata, same_resource::same_resource_as};

/// An object, or the metadata and the error of one that does not decode.
///
/// A list or watch of `K` itself fails as a whole, again and again, if one object is invalid. A list of `Decoded<K>` fails
/// only if the metadata does not decode, and an API server serves no such object.
#[derive(Clone, Debug)]
pub enum Decoded<K> {
    /// The object. Clones share it: a store and the watch that fills it have the same instance.
    Valid(Arc<K>),
    /// An object that cannot be used.
    Invalid {
        /// Its metadata, enough to name it.
        metadata: Box<Metadata>,
        /// Why.
        error: Unusable,
    },
}

/// Why there is nothing of an object but its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It does not decode: what is wrong with it, with the path of the field.
    Invalid(String),
    /// It may be valid. This process has no memory for it: whose objects use it, and what can be done.
    NotStored(String),
}

impl Unusable {
    /// The cause, as the rest of a sentence about the object.
    pub fn predicate(&self) -> String {
        match self {
            Self::Invalid(error) => format!("does not decode: {error}"),
            Self::NotStored(why) => format!("is not stored: {why}"),
        }
    }
}

impl From<String> for Unusable {
    fn from(error: String) -> Self {
        Self::Invalid(error)
    }
}

impl Deref for Unusable {
    type Target = str;

    fn deref(&self) -> &str {
        let (Self::Invalid(text) | Self::NotStored(text)) = self;
        text
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl<K> Decoded<K> {
    /// The object, if it decodes.
    pub fn valid(&self) -> Option<&K> {
        match self {
            Self::Valid(object) => Some(object),
            Self::Invalid { .. } => None,
        }
    }

    /// An object that cannot be used, with little more than its name.
    pub fn without_content(metadata: &ObjectMeta, error: Unusable) -> Self {
        Self::Invalid {
            metadata: Box::new(Metadata::identifying(metadata)),
            error,
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Decoded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Partial {
            metadata: Box<Metadata>,
        }

        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(object) => Ok(Self::Valid(Arc::new(object))),
            Err(error) => {
                let Partial { metadata } =
                    serde_json::from_str(text.get()).map_err(serde::de::Error::custom)?;
                Ok(Self::Invalid {
                    metadata,
                    error: Unusable::Invalid(error.to_string()),
                })
            }
        }
    }
}

impl<K: Resource + Clone> Resource for Decoded<K> {
    same_resource_as!(K);

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Valid(object) => object.meta(),
            Self::Invalid { metadata, .. } => metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Valid(object) => Arc::make_mut(object).meta_mut(),
            Self::Invalid { metadata, .. } => metadata,
        }
    }
}

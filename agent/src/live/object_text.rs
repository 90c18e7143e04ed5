//! A live object as text: nothing of it is decoded before it is used.

use std::fmt;

use helmops_api::{Metadata, same_resource_as};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::DynamicObject};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

/// Objects of a page. Many kinds are listed at the same time, and a page is in memory twice while it is read.
pub const PAGE: u32 = 8;

/// A live object as the API server has sent it, and its name.
///
/// Decoded, an object of many small values takes ten times as much memory as its text. Everyone who may write objects can give them the label
/// of releases, and lists have many objects.
#[derive(Clone)]
pub struct ObjectText {
    identity: Metadata,
    text: Box<RawValue>,
}

impl ObjectText {
    /// The object. None if it does not decode.
    pub fn decoded(&self) -> Option<DynamicObject> {
        serde_json::from_str(self.text.get()).ok()
    }
}

impl<'de> Deserialize<'de> for ObjectText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Partial {
            metadata: Metadata,
        }

        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Partial { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self {
            identity: Metadata::identifying(&metadata),
            text,
        })
    }
}

impl fmt::Debug for ObjectText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectText")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Resource for ObjectText {
    same_resource_as!(DynamicObject);

    fn meta(&self) -> &ObjectMeta {
        &self.identity
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.identity
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_identifies_an_object_is_decoded_before_it_is_used() {
        let labels = json!({ "a": "b".repeat(1000) });
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "7", "labels": labels },
            "spec": { "size": 3 },
        });
        let text: ObjectText = serde_json::from_str(&widget.to_string()).unwrap();
        assert_eq!(
            (
                text.meta().name.as_deref(),
                text.meta().resource_version.as_deref()
            ),
            (Some("web"), Some("7"))
        );
        assert!(text.meta().labels.as_ref().is_none_or(BTreeMap::is_empty));
        let decoded = text.decoded().unwrap();
        assert_eq!(serde_json::to_value(decoded).unwrap(), widget);
    }
}

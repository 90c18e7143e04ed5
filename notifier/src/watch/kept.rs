//! What is kept of watched objects, from when they are decoded: a page of a list has several objects, and each may have 1.5 MB.

use std::{
    borrow::Cow,
    fmt,
    marker::PhantomData,
    sync::{Arc, LazyLock},
    time::Duration,
};

use helmops_api::{Decoded, Unusable};
use helmops_notify::alert::MAX_LABELS;
use helmops_process::Throttle;
use helmops_runtime::decode_error::cut_error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use tokio::time::Instant;

/// Objects of a page. All kinds are listed at the same time at the start, and a page is in memory twice while it is decoded: this
/// number fits into the memory limit in the manifests.
pub const PAGE: u32 = 4;

/// Anyone who may write an object can cause the warning.
static WARNINGS: LazyLock<Throttle> = LazyLock::new(|| Throttle::new(Duration::from_secs(30)));

/// An object of kind `K` of which only `V` is kept.
#[derive(Clone)]
pub struct Kept<K, V> {
    metadata: ObjectMeta,
    value: V,
    kind: PhantomData<fn() -> K>,
}

/// What a store keeps of an object of kind `K`.
pub trait Part<K>: Clone {
    /// This part of an object.
    fn of(object: Decoded<K>) -> Self;

    /// Whether the object has more labels than are kept.
    fn lacks_labels(&self) -> bool {
        false
    }
}

/// An object of helmops itself, without metadata that nothing reads: annotations and labels may be large.
impl<K: Resource + Clone> Part<K> for Arc<Decoded<K>> {
    fn of(mut object: Decoded<K>) -> Self {
        *object.meta_mut() = identifying(object.meta());
        if let Decoded::Invalid { error, .. } = &mut object {
            let (Unusable::Invalid(text) | Unusable::NotStored(text)) = error;
            *text = cut_error(text);
        }
        Self::new(object)
    }
}

/// What a store keeps of an object. All stores take their values from here: a budget for their memory belongs here, with the object's
/// namespace.
pub fn stored<K: Resource<DynamicType = ()>, V: Part<K>>(object: Kept<K, V>) -> V {
    let Kept { metadata, value, .. } = object;
    if value.lacks_labels()
        && let Some(suppressed) = WARNINGS.allow(Instant::now())
    {
        let (kind, namespace, name) = (K::kind(&()), metadata.namespace, metadata.name);
        tracing::warn!(
            %kind, namespace, name, suppressed,
            "its labels have more than {} KiB and are ignored: no Alert or Receiver with matchLabels selects it; remove labels",
            MAX_LABELS >> 10
        );
    }
    value
}

/// The metadata that identify an object and its version.
fn identifying(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        generation: metadata.generation,
        deletion_timestamp: metadata.deletion_timestamp.clone(),
        ..ObjectMeta::default()
    }
}

impl<'de, K: Resource + DeserializeOwned + Clone, V: Part<K>> Deserialize<'de> for Kept<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Decoded::<K>::deserialize(deserializer)?;
        Ok(Self {
            metadata: identifying(object.meta()),
            value: V::of(object),
            kind: PhantomData,
        })
    }
}

impl<K, V> fmt::Debug for Kept<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}

impl<K: Resource, V> Resource for Kept<K, V> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::AlertProvider;
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_kept_of_an_own_object_that_is_not_used() {
        let large = "x".repeat(200_000);
        for spec in [json!({ "type": "slack" }), json!({ "type": [large] })] {
            let object = json!({
                "metadata": {
                    "name": "p", "namespace": "a", "uid": "1", "resourceVersion": "2", "generation": 3,
                    "annotations": { "a": large }, "labels": { "b": large }, "finalizers": [large],
                    "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": large, "uid": "1" }],
                },
                "spec": spec,
            });
            let kept: Kept<AlertProvider, Arc<Decoded<AlertProvider>>> =
                serde_json::from_str(&object.to_string()).unwrap();
            assert_eq!(kept.meta().name.as_deref(), Some("p"));
            let stored = stored(kept);
            let text = format!("{stored:?}");
            assert!(text.len() < 4_000, "{} bytes", text.len());
            assert_eq!(
                (stored.meta().uid.as_deref(), stored.meta().generation),
                (Some("1"), Some(3))
            );
        }
    }
}

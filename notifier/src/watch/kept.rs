//! What is kept of watched objects, from when they are decoded: a page of a list has many objects.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, LazyLock},
    time::Duration,
};

use helmops_api::{Decoded, Metadata, Unusable, same_resource_as, weight::Weight};
use helmops_notify::alert::MAX_LABELS;
use helmops_process::Throttle;
use helmops_runtime::store_budget::{Stored, shorten};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use tokio::time::Instant;

/// Objects of a page. All kinds are listed at the same time at the start, and a page is in memory twice while it is decoded: this
/// number fits into the memory limit in the manifests, beside what the stores may use.
pub const PAGE: u32 = 4;

/// Anyone who may write an object can cause the warning.
static WARNINGS: LazyLock<Throttle> = LazyLock::new(|| Throttle::new(Duration::from_secs(30)));

/// An object of kind `K` of which only `V` is kept.
#[derive(Clone)]
pub struct Kept<K, V> {
    metadata: Metadata,
    value: V,
    kind: PhantomData<fn() -> K>,
}

/// What a store keeps of an object of kind `K`. Its clones share their memory.
pub trait Part<K>: Clone + Weight {
    fn of(object: Decoded<K>) -> Self;

    /// Whether the object has more labels than are kept.
    fn lacks_labels(&self) -> bool {
        false
    }
}

/// An object of helmops itself, without metadata that nothing reads: annotations and labels may be large.
impl<K: Resource + Clone + Weight> Part<K> for Arc<Decoded<K>> {
    fn of(mut object: Decoded<K>) -> Self {
        shorten(&mut object);
        *object.meta_mut() = Metadata::identifying(object.meta()).into();
        Self::new(object)
    }
}

/// What a store keeps of an object, as far as the memory budget allows.
pub fn stored<K: Resource<DynamicType = ()>, V: Part<K>>(object: Kept<K, V>) -> V {
    let Kept { metadata, value, .. } = object;
    if value.lacks_labels()
        && let Some(suppressed) = WARNINGS.allow(Instant::now())
    {
        let (kind, namespace, name) = (K::kind(&()), &metadata.namespace, &metadata.name);
        tracing::warn!(
            %kind, namespace, name, suppressed,
            "its labels have more than {} KiB and are ignored: no Alert or Receiver with matchLabels selects it; remove labels",
            MAX_LABELS >> 10
        );
    }
    value
}

impl<K: Resource<DynamicType = ()>, V: Part<K>> Stored for Kept<K, V> {
    type Kept = V;

    fn kept(&mut self) -> &mut V {
        &mut self.value
    }

    fn not_stored(&self, why: Unusable) -> V {
        V::of(Decoded::without_content(&self.metadata, why))
    }
}

impl<'de, K: Resource + DeserializeOwned + Clone, V: Part<K>> Deserialize<'de> for Kept<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Decoded::<K>::deserialize(deserializer)?;
        Ok(Self {
            metadata: Metadata::identifying(object.meta()),
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
    same_resource_as!(K);

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::{AlertProvider, Bundle, Unusable, weight::Weight as _};
    use helmops_notify::alert::{Observed, State};
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_kept_of_an_own_object_that_is_not_used() {
        let large = "x".repeat(200_000);
        for spec in [json!({ "type": "slack" }), json!({ "type": [large] })] {
            let object = json!({
                "metadata": {
                    "name": "p", "namespace": "a", "uid": "1", "resourceVersion": "2", "generation": 3,
                    "annotations": { "a": large }, "labels": { "b": large }, "finalizers": vec!["f"; 1_000],
                    "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": large, "uid": "1" }],
                },
                "spec": spec,
            });
            let kept: Kept<AlertProvider, Arc<Decoded<AlertProvider>>> =
                serde_json::from_str(&object.to_string()).unwrap();
            assert_eq!(kept.meta().name.as_deref(), Some("p"));
            assert!(kept.value.weight() < 8_000, "{} bytes", kept.value.weight());
            let stored = stored(kept);
            let text = format!("{stored:?}");
            assert!(text.len() < 4_000, "{} bytes", text.len());
            assert_eq!(
                (stored.meta().uid.as_deref(), stored.meta().generation),
                (Some("1"), Some(3))
            );
        }
    }

    #[test]
    fn of_an_object_that_is_not_stored_the_name_and_the_reason_are_kept() {
        let object = json!({ "metadata": { "name": "p", "namespace": "a" }, "spec": {} }).to_string();
        let provider: Kept<AlertProvider, Arc<Decoded<AlertProvider>>> =
            serde_json::from_str(&object).unwrap();
        let refused = provider.not_stored(Unusable::NotStored("why".to_owned()));
        assert_eq!(refused.meta().name.as_deref(), Some("p"));
        let Decoded::Invalid { error, .. } = &*refused else {
            panic!("it is stored")
        };
        assert_eq!(*error, Unusable::NotStored("why".to_owned()));
        let bundle: Kept<Bundle, Arc<Observed>> = serde_json::from_str(&object).unwrap();
        let refused = bundle.not_stored(Unusable::NotStored("why".to_owned()));
        assert_eq!(refused.state, State::NotStored);
    }
}

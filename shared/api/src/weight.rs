//! The memory size of stored objects.
//!
//! The length of their JSON is no measure: `{}` in a list of partitions has two characters, and takes some hundred bytes in
//! memory. So the size of each element of a list and of each entry of a map is counted in addition to the text. Unknown fields
//! of a struct are entries of a map.
//!
//! The webhook counts while it decodes, since it has to stop before the memory is used. So it counts an upper bound for each object in
//! the text, which is too much for a budget of stored objects, and it does not know which part is stored, and who wrote it.

use std::{fmt, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{
    Serialize, Serializer,
    ser::{
        SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
        SerializeTupleStruct, SerializeTupleVariant,
    },
};

use super::{
    Alert, AlertProvider, Bundle, BundleDeployment, BundleDeploymentOptions, BundleTarget,
    ClusterRegistration, ClusterRegistrationToken, Decoded, HelmOp, Metadata, Receiver, Schedule, labels,
    unknown_fields::UNKNOWN_FIELD,
};

/// The overhead of an allocation.
const ALLOCATION: usize = 16;
/// The minimum capacity of a map: the first node of a `BTreeMap`. Further nodes are half full.
const NODE: usize = 11;
/// The size of a map entry: all maps of the API have strings as keys and values.
const ENTRY: usize = 2 * size_of::<String>();
/// The size of the largest struct in a list.
const STRUCT: usize = size_of::<BundleTarget>();
/// What stores, queues and budgets store for each object in addition, in bytes: its name in each of them, and its version.
pub const OVERHEAD: usize = 384;

/// The memory size of an object, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Written by its author.
    pub written: usize,
    /// Reported by the agent of a cluster.
    pub reported: usize,
}

impl From<usize> for Bytes {
    /// All of them were written by the author.
    fn from(written: usize) -> Self {
        Self { written, reported: 0 }
    }
}

/// Something with a memory size that a store keeps of an object.
pub trait Weight {
    /// Its memory size, by writer.
    fn bytes(&self) -> Bytes;

    /// The namespace of the author of an object with these metadata.
    fn author(metadata: &ObjectMeta) -> &str {
        metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Its total memory size, in bytes.
    fn weight(&self) -> usize {
        let Bytes { written, reported } = self.bytes();
        written + reported
    }
}

impl Weight for HelmOp {
    fn bytes(&self) -> Bytes {
        (total(self) + options(&self.spec.bundle.targets)).into()
    }
}

impl Weight for Bundle {
    fn bytes(&self) -> Bytes {
        let status = self.status.as_ref().map_or(0, |status| size_of_val(&**status));
        (total(self) + options(&self.spec.targets) + status).into()
    }
}

/// It is in the namespace of a cluster, whose agent writes the status. The rest is computed from the Bundle that the labels name.
impl Weight for BundleDeployment {
    fn bytes(&self) -> Bytes {
        let reported = heap(&self.status);
        let (options, staged) = (&self.spec.options, &self.spec.staged_options);
        let boxed = size_of::<BundleDeploymentOptions>() + ALLOCATION;
        // What other objects share too counts for each of them: any of them may be the last one that has it.
        let written = if Arc::ptr_eq(options, staged) {
            total(self) + boxed - heap(&**options)
        } else {
            total(self) + 2 * boxed
        };
        Bytes {
            written: written.saturating_sub(reported),
            reported,
        }
    }

    fn author(metadata: &ObjectMeta) -> &str {
        let own = metadata.namespace.as_deref().unwrap_or_default();
        labels::of(metadata, labels::BUNDLE_NAMESPACE).unwrap_or(own)
    }
}

/// Kinds that contain nothing but what their serialization shows.
macro_rules! plain_kinds {
    ($($kind:ident),*) => {
        $(impl Weight for $kind {
            fn bytes(&self) -> Bytes {
                total(self).into()
            }
        })*
    };
}

plain_kinds!(
    Alert,
    AlertProvider,
    ClusterRegistration,
    ClusterRegistrationToken,
    Receiver,
    Schedule
);

impl<K: Weight> Weight for Decoded<K> {
    fn bytes(&self) -> Bytes {
        match self {
            Self::Valid(object) => object.bytes(),
            Self::Invalid { metadata, error } => {
                (OVERHEAD + size_of::<Metadata>() + heap(metadata) + error.len()).into()
            }
        }
    }

    fn author(metadata: &ObjectMeta) -> &str {
        K::author(metadata)
    }
}

impl<T: Weight> Weight for Arc<T> {
    fn bytes(&self) -> Bytes {
        T::bytes(self)
    }

    fn author(metadata: &ObjectMeta) -> &str {
        T::author(metadata)
    }
}

fn total<K: Serialize>(object: &K) -> usize {
    OVERHEAD + size_of::<K>() + heap(object)
}

/// The size of the options of targets, which are boxed.
fn options(targets: &[BundleTarget]) -> usize {
    let boxed = targets.iter().filter(|target| target.options.is_boxed());
    boxed.count() * (size_of::<BundleDeploymentOptions>() + ALLOCATION)
}

/// The heap size of a value, in addition to its own size. A box serialises like its content, whose own size is not counted.
fn heap<T: Serialize + ?Sized>(value: &T) -> usize {
    // Counting does not fail.
    value.serialize(Heap::Inline).unwrap_or_default()
}

/// A serializer that counts the heap memory of a value: the value serialises to that number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heap {
    /// For a value whose own size is already counted.
    Inline,
    /// For an element of a list or a value of a map: its own size is counted too.
    Element,
    /// For the name of a field of a struct, which takes no memory unless the field is unknown.
    FieldName,
}

/// Sums up the parts of a value.
struct Parts(usize);

/// Sums up the entries of a map.
struct Entries {
    bytes: usize,
    /// Structs with flattened fields serialise like maps, but contain their fields.
    is_struct: bool,
    number: usize,
}

impl Heap {
    /// The own size of a struct.
    const fn of_struct(self) -> usize {
        match self {
            Self::Inline | Self::FieldName => 0,
            Self::Element => STRUCT,
        }
    }

    /// The own size of any other value.
    const fn of_other(self) -> usize {
        match self {
            Self::Inline | Self::FieldName => 0,
            Self::Element => size_of::<String>(),
        }
    }
}

/// Plain values have no heap memory.
macro_rules! plain {
    ($($method:ident($type:ty)),* $(,)?) => {
        $(fn $method(self, _: $type) -> Result<usize, fmt::Error> {
            Ok(self.of_other())
        })*
    };
}

impl Serializer for Heap {
    type Ok = usize;
    type Error = fmt::Error;
    type SerializeSeq = Parts;
    type SerializeTuple = Parts;
    type SerializeTupleStruct = Parts;
    type SerializeTupleVariant = Parts;
    type SerializeMap = Entries;
    type SerializeStruct = Parts;
    type SerializeStructVariant = Parts;

    plain! {
        serialize_bool(bool), serialize_char(char),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_f32(f32), serialize_f64(f64),
        serialize_unit_struct(&'static str),
    }

    fn serialize_str(self, text: &str) -> Result<usize, fmt::Error> {
        self.serialize_bytes(text.as_bytes())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<usize, fmt::Error> {
        let heap = if bytes.is_empty() || self == Self::FieldName {
            0
        } else {
            bytes.len() + ALLOCATION
        };
        Ok(self.of_other() + heap)
    }

    fn serialize_none(self) -> Result<usize, fmt::Error> {
        Ok(self.of_other())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<usize, fmt::Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<usize, fmt::Error> {
        Ok(self.of_other())
    }

    fn serialize_unit_variant(self, _: &str, _: u32, _: &str) -> Result<usize, fmt::Error> {
        Ok(self.of_other())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &str,
        value: &T,
    ) -> Result<usize, fmt::Error> {
        let is_unknown_field = self == Self::FieldName && name == UNKNOWN_FIELD;
        value.serialize(if is_unknown_field { Self::Inline } else { self })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &str,
        _: u32,
        _: &str,
        value: &T,
    ) -> Result<usize, fmt::Error> {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts, fmt::Error> {
        Ok(Parts(self.of_other() + ALLOCATION))
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts, fmt::Error> {
        Ok(Parts(self.of_struct()))
    }

    fn serialize_tuple_struct(self, _: &str, _: usize) -> Result<Parts, fmt::Error> {
        Ok(Parts(self.of_struct()))
    }

    fn serialize_tuple_variant(self, _: &str, _: u32, _: &str, _: usize) -> Result<Parts, fmt::Error> {
        Ok(Parts(self.of_struct()))
    }

    /// Maps have a length; structs with flattened fields are serialised without one.
    fn serialize_map(self, length: Option<usize>) -> Result<Entries, fmt::Error> {
        let is_struct = length.is_none();
        Ok(Entries {
            bytes: if is_struct {
                self.of_struct()
            } else {
                self.of_other()
            },
            is_struct,
            number: 0,
        })
    }

    fn serialize_struct(self, _: &str, _: usize) -> Result<Parts, fmt::Error> {
        Ok(Parts(self.of_struct()))
    }

    fn serialize_struct_variant(self, _: &str, _: u32, _: &str, _: usize) -> Result<Parts, fmt::Error> {
        Ok(Parts(self.of_struct()))
    }
}

impl SerializeSeq for Parts {
    type Ok = usize;
    type Error = fmt::Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, element: &T) -> Result<(), fmt::Error> {
        self.0 += element.serialize(Heap::Element)?;
        Ok(())
    }

    fn end(self) -> Result<usize, fmt::Error> {
        Ok(self.0)
    }
}

impl SerializeMap for Entries {
    type Ok = usize;
    type Error = fmt::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), fmt::Error> {
        let name = if self.is_struct {
            Heap::FieldName
        } else {
            Heap::Inline
        };
        let bytes = key.serialize(name)?;
        if !self.is_struct || bytes > 0 {
            self.number += 1;
            self.bytes += bytes;
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), fmt::Error> {
        self.bytes += value.serialize(Heap::Inline)?;
        Ok(())
    }

    fn end(self) -> Result<usize, fmt::Error> {
        let capacity = match self.number {
            0 => 0,
            number => NODE.max(2 * number),
        };
        Ok(self.bytes + capacity * ENTRY)
    }
}

/// Parts that are contained in the value itself.
macro_rules! within {
    ($($trait:ident: fn $method:ident($($name:ty)?)),* $(,)?) => {
        $(impl $trait for Parts {
            type Ok = usize;
            type Error = fmt::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? part: &T) -> Result<(), fmt::Error> {
                self.0 += part.serialize(Heap::Inline)?;
                Ok(())
            }

            fn end(self) -> Result<usize, fmt::Error> {
                Ok(self.0)
            }
        })*
    };
}

within! {
    SerializeTuple: fn serialize_element(),
    SerializeTupleStruct: fn serialize_field(),
    SerializeTupleVariant: fn serialize_field(),
    SerializeStruct: fn serialize_field(&'static str),
    SerializeStructVariant: fn serialize_field(&'static str),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn decoded<K: serde::de::DeserializeOwned + Clone>(object: &Value) -> K {
        let object: Decoded<K> = serde_json::from_str(&object.to_string()).unwrap();
        match object {
            Decoded::Valid(object) => K::clone(&object),
            Decoded::Invalid { error, .. } => panic!("{error}"),
        }
    }

    fn helmop(spec: &Value) -> usize {
        decoded::<HelmOp>(&json!({ "metadata": { "name": "a" }, "spec": spec })).weight()
    }

    /// The size that one element adds to a list.
    fn element_size(list: &str, element: &Value) -> usize {
        let weight = |number| {
            let mut spec = json!({});
            let (parent, name) = list.rsplit_once('/').unwrap_or(("", list));
            let elements = json!({ name: vec![element; number] });
            if parent.is_empty() {
                spec = elements;
            } else {
                spec[parent] = elements;
            }
            helmop(&spec)
        };
        (weight(1_000) - weight(500)) / 500
    }

    #[test]
    fn options_that_are_staged_too_count_once() {
        let options = json!({ "helm": { "chart": "x".repeat(10_000) } });
        let spec = json!({ "options": options, "stagedOptions": options });
        let mut deployment =
            decoded::<BundleDeployment>(&json!({ "metadata": { "name": "a" }, "spec": spec }));
        let apart = deployment.weight();
        deployment.spec.staged_options = Arc::clone(&deployment.spec.options);
        let saved = apart - deployment.weight();
        assert!(saved > 10_000 + size_of::<BundleDeploymentOptions>(), "{saved}");
        assert!(deployment.weight() > 10_000);
    }

    #[test]
    fn text_counts_with_its_length() {
        let text = |length: usize| helmop(&json!({ "helm": { "values": { "text": "x".repeat(length) } } }));
        assert_eq!(text(20_000) - text(10_000), 10_000);
    }

    #[test]
    fn list_elements_count_with_their_memory_size() {
        let target = size_of::<BundleTarget>();
        assert!(element_size("targets", &json!({})) >= target);
        let boxed = target + size_of::<BundleDeploymentOptions>();
        assert!(element_size("targets", &json!({ "namespace": "" })) >= boxed);
        for list in [
            "rolloutStrategy/partitions",
            "targetRestrictions",
            "dependsOn",
            "diff/comparePatches",
        ] {
            assert!(
                element_size(list, &json!({})) >= 72,
                "{list}: {}",
                element_size(list, &json!({}))
            );
        }
        assert!(element_size("helm/valuesFrom", &json!({})) >= 144);
        assert!(element_size("ignore/conditions", &json!({})) >= 24);
    }

    #[test]
    fn map_entries_count_with_their_memory_size() {
        let labels = |number: usize| {
            let labels: serde_json::Map<_, _> =
                (0..number).map(|at| (format!("{at:04}"), json!("v"))).collect();
            helmop(&json!({ "labels": labels }))
        };
        let entry = 2 * size_of::<String>();
        assert!(labels(1) - labels(0) >= NODE * entry);
        assert!(labels(1_000) - labels(0) >= 1_000 * 2 * entry);
    }

    #[test]
    fn unknown_fields_count_with_their_memory_size() {
        let entry = 2 * size_of::<String>();
        let fields = |number: usize| {
            let fields: serde_json::Map<_, _> = (0..number)
                .map(|at| (format!("newer{at:04}"), json!({ "a": 1 })))
                .collect();
            helmop(&Value::Object(fields))
        };
        assert!(fields(1) - fields(0) >= NODE * entry);
        assert!(fields(1_000) - fields(0) >= 1_000 * (2 * entry + "newer0001".len() + r#"{"a":1}"#.len()));
        let of_target = element_size("targets", &json!({ "newer": 1 }));
        let boxed = size_of::<BundleTarget>() + size_of::<BundleDeploymentOptions>();
        assert!(of_target >= boxed + NODE * entry, "{of_target}");
        for list in [
            "rolloutStrategy/partitions",
            "helm/valuesFrom",
            "diff/comparePatches",
        ] {
            let [known, unknown] =
                [json!({}), json!({ "newer": 1 })].map(|element| element_size(list, &element));
            assert!(unknown - known >= NODE * entry, "{list}: {known} {unknown}");
        }
    }

    #[test]
    fn bytes_reported_by_a_cluster_are_counted_separately() {
        let deployment = |resources: usize| {
            let resources = vec![json!({}); resources];
            let labels = json!({ labels::BUNDLE_NAMESPACE: "tenant" });
            decoded::<BundleDeployment>(&json!({
                "metadata": { "name": "a", "namespace": "cluster", "labels": labels },
                "status": { "resources": resources },
            }))
        };
        let (small, large) = (deployment(0), deployment(1_000));
        assert_eq!(BundleDeployment::author(&small.metadata), "tenant");
        assert_eq!(small.bytes().written, large.bytes().written);
        assert!(large.bytes().reported - small.bytes().reported >= 1_000 * 5 * size_of::<String>());
    }

    #[test]
    fn ten_thousand_plain_helmops_of_a_namespace_fit_into_the_memory_limit_of_the_manifests() {
        let time = "2026-01-01T00:00:00Z";
        let conditions = |types: &[&str]| {
            let condition = |name: &&str| json!({ "type": name, "status": "True", "lastUpdateTime": time, "lastTransitionTime": time });
            types.iter().map(condition).collect::<Vec<_>>()
        };
        let metadata = json!({
            "name": "web-0001", "namespace": "fleet-default", "uid": "u".repeat(36), "resourceVersion": "123456",
            "creationTimestamp": time, "generation": 1,
        });
        let repo = "https://charts.example.com/stable";
        let resolved = json!([{
            "repo": repo, "chart": "web", "constraint": "1.x", "version": "1.2.3", "digest": "d".repeat(64),
            "url": format!("{repo}/web-1.2.3.tgz"),
        }]);
        let mut spec = json!({
            "helm": { "repo": repo, "chart": "web", "version": "1.x" }, "targets": [{ "clusterSelector": {} }],
        });
        let helmop = json!({
            "metadata": metadata, "spec": spec,
            "status": {
                "version": "1.2.3", "resolved": resolved, "observedGeneration": 1,
                "conditions": conditions(&["Accepted", "Ready", "Reconciling", "Stalled"]),
            }
        });
        let mut metadata = metadata;
        metadata["labels"] = json!({ labels::HELM_NAME: "web-0001" });
        metadata["annotations"] = json!({ labels::RESOLVED: resolved.to_string() });
        let owner =
            json!({ "apiVersion": "v1", "kind": "HelmOp", "name": "web-0001", "uid": "u".repeat(36) });
        metadata["ownerReferences"] = json!([owner]);
        spec["helmOpOptions"] = json!({});
        let bundle = json!({
            "metadata": metadata, "spec": spec, "status": { "conditions": conditions(&["Ready"]), "summary": {} },
        });
        let (helmop, bundle) = (
            decoded::<HelmOp>(&helmop).weight(),
            decoded::<Bundle>(&bundle).weight(),
        );
        // One namespace may use three quarters of half of the limit.
        let share = (256 << 20) / 8 * 3;
        assert!(10_000 * (helmop + bundle) <= share, "{helmop} and {bundle}");
    }
}

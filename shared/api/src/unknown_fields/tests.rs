//! Round trips of objects with an unknown field in every struct. The objects are made from the CRDs, so that none is missing.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    Bundle, BundleDeployment, HelmOp, HelmOpStatus, bundle::BundleStatus, cluster::ClusterStatus, crds,
};

/// Makes a value for a schema, with an unknown field in each struct.
#[derive(Default)]
struct Sample {
    /// The paths of the unknown fields.
    paths: BTreeSet<String>,
}

impl Sample {
    fn of(&mut self, path: &str, schema: &Value) -> Value {
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return json!({ "free": "form" });
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return json!("50%");
        }
        match schema["type"].as_str() {
            Some("object") => self.object(path, schema),
            Some("array") => json!([self.of(path, &schema["items"]), self.of(path, &schema["items"])]),
            Some("string") => json!("text"),
            Some("integer") => json!(1),
            Some("boolean") => json!(true),
            other => panic!("{path}: {other:?}"),
        }
    }

    fn object(&mut self, path: &str, schema: &Value) -> Value {
        let values = &schema["additionalProperties"];
        if !values.is_null() {
            return json!({ "key": self.of(path, values) });
        }
        // One without fields has none yet.
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let mut object: Map<_, _> = properties
            .iter()
            .map(|(name, schema)| (name.clone(), self.of(&format!("{path}.{name}"), schema)))
            .collect();
        // Selectors are types of Kubernetes.
        let is_selector = properties.contains_key("matchLabels") || path.ends_with("matchExpressions");
        if !is_selector {
            object.insert("newer".to_owned(), json!({ "a": [1, null] }));
            self.paths.insert(format!("{path}.newer"));
        }
        Value::Object(object)
    }
}

fn schema_of(crd: &str) -> Value {
    let [all, of_clusters] = [crds::all(), crds::of_clusters()].map(Result::unwrap);
    let mut crds = all.into_iter().chain(of_clusters);
    let (_, crd) = crds.find(|(name, _)| *name == crd).unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn assert_keeps_unknown<K, S>(crd: &str, spec: impl Fn(K) -> S)
where
    K: DeserializeOwned + Serialize + Clone,
    S: VisitUnknown,
{
    let mut sample = Sample::default();
    let mut object = json!({ "metadata": { "name": "web" }, "newer": 1 });
    object["spec"] = sample.of("spec", &schema_of(crd)["properties"]["spec"]);
    let decoded: K = serde_json::from_str(&object.to_string()).unwrap();
    let mut encoded = serde_json::to_value(&decoded).unwrap();
    for field in ["apiVersion", "kind"] {
        encoded.as_object_mut().unwrap().remove(field);
    }
    assert_eq!(encoded, object);
    let mut visited = BTreeSet::new();
    spec(decoded).visit_unknown(FieldPath::of("spec"), &mut |path, fields| {
        visited.extend(fields.names().map(|name| path.field(name).to_string()));
    });
    assert_eq!(visited, sample.paths);
    assert!(
        visited.contains("spec.newer") && visited.len() >= 12,
        "{visited:?}"
    );
}

#[test]
fn every_struct_of_a_spec_keeps_unknown_fields() {
    assert_keeps_unknown("helmops.yaml", |helmop: HelmOp| helmop.spec);
    assert_keeps_unknown("bundles.yaml", |bundle: Bundle| bundle.spec);
    assert_keeps_unknown("bundledeployments.yaml", |deployment: BundleDeployment| {
        deployment.spec
    });
}

/// A merge patch replaces the list of conditions as a whole.
#[test]
fn conditions_keep_unknown_fields() {
    let status = json!({ "conditions": [{ "type": "Other", "status": "True", "newer": 1 }] });
    let text = status.to_string();
    let encoded = [
        serde_json::to_value(serde_json::from_str::<HelmOpStatus>(&text).unwrap()),
        serde_json::to_value(serde_json::from_str::<BundleStatus>(&text).unwrap()),
        serde_json::to_value(serde_json::from_str::<ClusterStatus>(&text).unwrap()),
    ];
    assert_eq!(
        encoded.map(Result::unwrap),
        [status.clone(), status.clone(), status]
    );
}

#[test]
fn unknown_fields_take_no_memory_if_there_are_none() {
    assert_eq!(size_of::<UnknownFields>(), size_of::<usize>());
    let mut fields: UnknownFields = read(r#"{"a":1}"#);
    fields.retain(|name| name != "a");
    assert_eq!((fields.is_empty(), &fields), (true, &UnknownFields::default()));
    assert!(read::<UnknownFields>(r#"{"a":null}"#).is_empty());
}

fn read<T: FieldSet>(text: &str) -> T {
    crate::wire::deserialize(&mut serde_json::Deserializer::from_str(text)).unwrap()
}

/// Unknown fields of a HelmOp's spec become those of the Bundle's spec and of the options of each deployment.
#[test]
fn unknown_fields_are_kept_in_the_innermost_struct() {
    let spec: crate::HelmOpSpec =
        serde_json::from_str(r#"{"newer":1,"targets":[{"newer":2,"clusterGroup":"eu"}]}"#).unwrap();
    let names = |fields: &UnknownFields| fields.names().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(&spec.bundle.options.unknown), ["newer"]);
    assert_eq!(names(&spec.bundle.targets[0].options.unknown), ["newer"]);
    assert_eq!(spec.bundle.targets[0].criteria.cluster_group, "eu");
}

//! What clusters make of values.
//!
//! `go.jsonl` was made with what Fleet puts together: `sigs.k8s.io/yaml`, `text/template` and `sprig`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::preprocess;
use crate::api::{BundleDeploymentOptions, Cluster};

#[derive(Deserialize)]
struct Case {
    values: Map<String, Value>,
    #[serde(rename = "become")]
    becomes: Option<String>,
}

fn cluster(labels: &Value, values: &Value) -> Cluster {
    let object = json!({
        "metadata": { "name": "c0", "namespace": "fleet-default", "labels": labels, "annotations": { "note": "n" } },
        "spec": { "templateValues": values }
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn processed(helm: &Value, cluster: &Cluster) -> Result<Value, String> {
    let options = json!({ "helm": helm }).to_string();
    let mut options: BundleDeploymentOptions = serde_json::from_str(&options).unwrap();
    preprocess(&mut options, cluster).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(options).unwrap()["helm"].clone())
}

fn values(helm: &Value) -> Result<Value, String> {
    let cluster = cluster(&json!({ "env": "prod", "cattle.io/x": "y" }), &json!({ "n": 1 }));
    processed(helm, &cluster).map(|helm| helm["values"].clone())
}

#[test]
fn values_become_what_they_become_in_fleet() {
    let context: Value = serde_json::from_str(include_str!("../../template/tests/context.json")).unwrap();
    let cluster: Cluster = serde_json::from_str(
        &json!({
            "metadata": {
                "name": context["ClusterName"], "namespace": context["ClusterNamespace"],
                "labels": context["ClusterLabels"], "annotations": context["ClusterAnnotations"]
            },
            "spec": { "templateValues": context["ClusterValues"] }
        })
        .to_string(),
    )
    .unwrap();
    for line in include_str!("go.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let helm = json!({ "helm": { "values": case.values } });
        let mut options: BundleDeploymentOptions = serde_json::from_str(&helm.to_string()).unwrap();
        let result = preprocess(&mut options, &cluster);
        match case.becomes {
            Some(expected) => {
                assert_eq!(result, Ok(()), "{line}");
                assert_eq!(options.helm.unwrap().values.unwrap().as_str(), expected, "{line}");
            }
            None => assert!(result.is_err(), "{line}"),
        }
    }
}

#[test]
fn labels_are_put_in_where_a_text_names_them() {
    let helm = json!({ "values": {
        "env": "global.fleet.clusterLabels.env",
        "absent": "global.fleet.clusterLabels.absent",
        "tool": "global.fleet.clusterLabels.cattle.io/x",
        "within": "x global.fleet.clusterLabels.env",
        "list": ["global.fleet.clusterLabels.env", { "env": "global.fleet.clusterLabels.env" }],
        "lists": [[{ "env": "global.fleet.clusterLabels.env" }]],
        "map": { "map": { "env": "global.fleet.clusterLabels.env" } }
    } });
    assert_eq!(
        values(&helm).unwrap(),
        json!({
            "env": "prod",
            "absent": "",
            "tool": "",
            "within": "x global.fleet.clusterLabels.env",
            "list": ["global.fleet.clusterLabels.env", { "env": "prod" }],
            "lists": [[{ "env": "global.fleet.clusterLabels.env" }]],
            "map": { "map": { "env": "prod" } }
        })
    );
}

#[test]
fn template_values_take_the_place_of_values_and_are_yaml() {
    let helm = json!({
        "values": { "a": { "b": 1 }, "c": "${ .ClusterName }" },
        "templateValues": { "a": "count: ${ .ClusterValues.n }\nn: 1", "d": "- ${ .ClusterLabels.env }" }
    });
    assert_eq!(
        values(&helm).unwrap(),
        // In YAML 1.1 `n` means no, and Fleet makes a text of it.
        json!({ "a": { "count": 1, "false": 1 }, "c": "c0", "d": ["prod"] })
    );
}

#[test]
fn values_without_templates_stay_but_for_the_sign_of_zero() {
    let helm = json!({ "values": { "a": -0.0, "b": [-0.0, { "c": -0.0 }], "d": -1.5, "e": 9_007_199_254_740_993_u64 } });
    let cluster = cluster(&json!({ "env": "prod" }), &json!({}));
    let mut options: BundleDeploymentOptions =
        serde_json::from_str(&json!({ "helm": helm }).to_string()).unwrap();
    preprocess(&mut options, &cluster).unwrap();
    assert_eq!(
        options.helm.unwrap().values.unwrap().as_str(),
        r#"{"a":0,"b":[0,{"c":0}],"d":-1.5,"e":9007199254740992}"#
    );
    assert!(values(&json!({ "values": { "<<": 1 } })).is_err());
}

#[test]
fn without_processing_templates_stay_and_labels_do_not() {
    let helm = json!({
        "disablePreProcess": true,
        "values": { "a": "${ nosuch }", "b": "global.fleet.clusterLabels.env" },
        "templateValues": { "c": "${" }
    });
    assert_eq!(values(&helm).unwrap(), json!({ "a": "${ nosuch }", "b": "prod" }));
}

#[test]
fn a_cluster_without_labels_gets_values_as_they_are() {
    let helm = json!({ "values": { "a": "${ .ClusterName }", "b": "global.fleet.clusterLabels.env" } });
    for labels in [
        json!(null),
        json!({ "kubectl.kubernetes.io/x": "y", "objectset.rio.cattle.io/hash": "z" }),
    ] {
        let processed = processed(&helm, &cluster(&labels, &json!(null))).unwrap();
        assert_eq!(processed, helm);
    }
    for label in [
        "fleet.cattle.io/tier",
        "management.cattle.io/cluster-display-name",
    ] {
        let cluster = cluster(&json!({ label: "1" }), &json!(null));
        assert_eq!(processed(&helm, &cluster).unwrap()["values"]["a"], "c0");
    }
}

#[test]
fn values_are_there_as_soon_as_there_is_a_chart() {
    assert_eq!(values(&json!({ "chart": "web" })).unwrap(), json!({}));
    let mut options = BundleDeploymentOptions::default();
    preprocess(&mut options, &cluster(&json!({ "env": "prod" }), &json!(null))).unwrap();
    assert_eq!(serde_json::to_value(options).unwrap(), json!({ "helm": {} }));
}

#[test]
fn errors_name_the_value() {
    for (helm, expected) in [
        (
            json!({ "values": { "a": 1, "image": [{ "tag": "v${ .ClusterValues.tag }" }] } }),
            "helm.values.image[0].tag: the template cannot be rendered: at <.ClusterValues.tag>: map has no entry for key",
        ),
        (
            json!({ "values": { "${ nosuch }": 1 } }),
            "helm.values.${ nosuch }: the template cannot be rendered: at <nosuch>: function \"nosuch\" not defined",
        ),
        (
            json!({ "templateValues": { "a": "b: ${ \"c: d\" }" } }),
            "helm.templateValues.a: the template renders to what is not YAML: ",
        ),
        (
            json!({ "values": { "a": 1, "b": "${ printf \"x%s y\" \":\" }" } }),
            "at \"b: x: y\"; quote",
        ),
        (
            json!({ "values": { "a": "${ \"\\nx\\n\" }", "b": 1 } }),
            "helm.values: the template renders to what is not YAML: ",
        ),
    ] {
        let error = values(&helm).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn values_nest_only_so_deep() {
    let mut nested = json!({ "x": "${ .ClusterName }" });
    for _ in 0..60 {
        nested = json!({ "x": nested });
    }
    let error = values(&json!({ "values": nested })).unwrap_err();
    assert!(error.contains("more than 50 deep"), "{error}");
}

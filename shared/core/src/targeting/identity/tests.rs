use go_formats::json;
use serde_json::{Value, json};

use super::*;

/// The ID of options with their own values.
fn id_of(contents: &str, options: &BundleDeploymentOptions) -> String {
    let values = options.helm.as_ref().and_then(|helm| helm.values.clone());
    deployment_id(contents, options, options.lifecycle.as_deref(), values)
}

fn options(value: &Value) -> BundleDeploymentOptions {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// Every field that is part of the ID, in Fleet's order.
const ALL: &str = concat!(
    r#"{"yaml":{"overlays":["o"]},"kustomize":{"dir":"k"},"defaultNamespace":"d","namespace":"n","helm":{"chart":"c","#,
    r#""repo":"https://charts.example.com?a=1\u0026b=\u003c2\u003e","releaseName":"r","version":"1.2.3","#,
    r#""timeoutSeconds":30,"values":{"Z":[1.5,null,true],"a":{"b":1e+21},"é":"\u0026"},"#,
    r#""templateValues":{"a":"${ .ClusterName }\n\u003e","b":"x"},"#,
    r#""valuesFrom":[{"configMapKeyRef":{"name":"m","namespace":"mn","key":"mk"}},{"secretKeyRef":{"name":"s"}}],"#,
    r#""force":true,"takeOwnership":true,"maxHistory":5,"valuesFiles":["f"],"waitForJobs":true,"atomic":true,"#,
    r#""disablePreProcess":true,"disableDNS":true,"skipSchemaValidation":true,"disableDependencyUpdate":true},"#,
    r#""serviceAccount":"sa","createNamespace":false,"forceSyncGeneration":3,"keepResources":true,"#,
    r#""deleteNamespace":true,"ignore":{"conditions":[{"status":"False","type":"Active"}]},"#,
    r#""namespaceLabels":{"a":"b"},"namespaceAnnotations":{"c":"d"},"deleteCRDResources":true,"#,
    r#""downstreamResources":[{"kind":"Secret","name":"x"}],"#,
    r#""overwrites":[{"kind":"ConfigMap","name":"y","namespace":"z"}],"#,
    r#""allowedTargetNamespaceSelector":{"matchLabels":{"t":"1"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}}"#,
);

#[test]
fn an_id_is_the_hash_of_the_json_that_go_writes() {
    let mut options: BundleDeploymentOptions = serde_json::from_str(ALL).unwrap();
    if let Some(helm) = &mut options.helm {
        let values = helm.values.take().unwrap();
        helm.values = FreeForm::from_text(json::encode(&values.to_value().unwrap()));
    }
    let expected = sha256_hex(format!("{ALL}\n").as_bytes());
    assert_eq!(id_of("", &options), format!(":{expected}"));
    assert_eq!(id_of("s-abc", &options), format!("s-abc:{expected}"));
}

/// Computed from the text `{"helm":{"chart":"web","values":{}}}` and a line feed with `sha256sum`.
#[test]
fn an_id_has_the_expected_hash() {
    let options = options(&json!({ "helm": { "chart": "web", "values": {} } }));
    assert_eq!(
        id_of("", &options),
        ":47333614e0176944adbd4c7a08c9b47e5527ef400b5705f19040a2d5c5fc546f"
    );
}

/// The rest of the life cycle is none: see the test below.
#[test]
fn what_changes_objects_or_values_is_a_part_of_an_id() {
    let none = id_of("", &options(&json!({})));
    for lifecycle in [
        json!({ "postRenderers": [{ "kustomize": { "images": [{ "name": "a", "newTag": "1" }] } }] }),
        json!({ "commonMetadata": { "labels": { "a": "b" } } }),
        json!({ "valuesFrom": [{ "kind": "Secret", "name": "a" }] }),
        json!({ "storageNamespace": "records" }),
    ] {
        let id = id_of("", &options(&json!({ "lifecycle": lifecycle })));
        assert_ne!(id, none, "{lifecycle}");
        let mut more = lifecycle.clone();
        more["suspend"] = json!(true);
        more["valuesFromPolicy"] = json!("NextRelease");
        assert_eq!(
            id_of("", &options(&json!({ "lifecycle": more }))),
            id,
            "{lifecycle}"
        );
    }
}

/// The webhook says so.
#[test]
fn what_has_no_effect_is_no_part_of_an_id() {
    let none = id_of("", &options(&json!({})));
    let strategy = json!({ "postRenderStrategy": "nohooks" });
    let missing = json!({ "ignoreMissingValuesFiles": true });
    for lifecycle in [&strategy, &missing] {
        assert_eq!(
            id_of("", &options(&json!({ "lifecycle": lifecycle }))),
            none,
            "{lifecycle}"
        );
    }
    let helm = json!({ "valuesFiles": ["a"] });
    let with_files =
        |lifecycle: &Value| id_of("", &options(&json!({ "helm": helm, "lifecycle": lifecycle })));
    assert_ne!(with_files(&missing), with_files(&json!({})));
}

#[test]
fn options_that_only_affect_reports_are_not_part_of_an_id() {
    let with = options(&json!({
        "namespace": "n",
        "correctDrift": { "enabled": true },
        "diff": { "comparePatches": [{ "kind": "Deployment" }] }
    }));
    let without = options(&json!({ "namespace": "n" }));
    assert_eq!(id_of("", &with), id_of("", &without));
}

#[test]
fn only_values_that_are_not_empty_have_a_hash() {
    for (values, staged) in [("", ""), ("null", "{}"), ("{}", "")] {
        assert_eq!(values_hash(values.as_bytes(), staged.as_bytes()), "");
    }
    let both = values_hash(br#"{"a":1}"#, b"{}");
    assert_eq!(both, sha256_hex(br#"{"a":1}{}"#));
    assert_ne!(both, values_hash(b"{}", br#"{"a":1}"#));
}

#[test]
fn unknown_fields_are_the_last_ones_of_their_struct_in_an_id() {
    let mut newer: Value = serde_json::from_str(ALL).unwrap();
    newer["helm"].as_object_mut().unwrap().remove("values");
    let known = newer.clone();
    newer["zNewer"] = json!({ "b": 1, "a": "<" });
    newer["aNewer"] = json!(1.0);
    newer["helm"]["newer"] = json!(true);
    let text = ALL
        .replace(
            r#""values":{"Z":[1.5,null,true],"a":{"b":1e+21},"é":"\u0026"},"#,
            "",
        )
        .replace(
            r#""disableDependencyUpdate":true}"#,
            r#""disableDependencyUpdate":true,"newer":true}"#,
        );
    let text = text.strip_suffix('}').unwrap().to_owned() + r#","aNewer":1,"zNewer":{"a":"\u003c","b":1}}"#;
    let expected = format!(":{}", sha256_hex(format!("{text}\n").as_bytes()));
    assert_eq!(id_of("", &options(&newer)), expected);
    assert_ne!(id_of("", &options(&known)), expected);
    // The notation does not matter.
    let other = newer
        .to_string()
        .replace(r#""<""#, r#""\u003c""#)
        .replace("1.0", "1");
    assert_eq!(id_of("", &serde_json::from_str(&other).unwrap()), expected);
}

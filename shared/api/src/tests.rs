//! Encoding and decoding of the wire types.

use serde_json::{Value, json};

use super::{Bundle, Decoded, HelmOp, Policy};

fn decoded(object: &Value) -> HelmOp {
    serde_json::from_str(&object.to_string()).unwrap()
}

/// An object as Fleet's own controller and the API server store it, with a field of every type.
fn stored() -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": { "name": "web", "namespace": "fleet-default", "generation": 3 },
        "spec": {
            "createNamespace": false,
            "defaultNamespace": "shop",
            "correctDrift": { "enabled": true },
            "diff": { "comparePatches": [{ "kind": "Deployment", "operations": [{ "op": "ignore" }] }] },
            "downstreamResources": [{ "kind": "Secret", "name": "access" }],
            "helm": {
                "chart": "web", "repo": "https://charts.example.com", "version": "1.x", "timeoutSeconds": -1,
                "disableDNS": true,
                "values": { "z": 1, "a": [{ "b.y": 0 }, 1.5, 12_345_678_901_234_567_890_u64] },
                "valuesFrom": [{ "secretKeyRef": { "name": "s", "key": "values.yaml" } }]
            },
            "helmOpOptions": {},
            "helmSecretName": "access",
            "insecureSkipTLSVerify": true,
            "labels": { "team": "a" },
            "pollingInterval": "15m",
            "rolloutStrategy": { "maxUnavailable": "50%", "maxNew": 0, "partitions": [{ "name": "p", "maxUnavailable": 3 }] },
            "targetCustomizationMode": "FirstMatch",
            "targets": [
                { "name": "all", "clusterSelector": {} },
                { "clusterGroup": "eu", "doNotDeploy": true, "helm": { "values": { "replicas": 2 } },
                  "namespaceLabels": { "a": "b" } }
            ],
            "yaml": { "overlays": ["o"] }
        },
        "status": {
            "conditions": [{ "type": "Ready", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z" }],
            "desiredReadyClusters": 0,
            "readyClusters": 0,
            "display": {},
            "resourceCounts": { "ready": 0, "desiredReady": 0 },
            "summary": { "desiredReady": 0, "ready": 0 },
            "version": "1.2.3"
        }
    })
}

#[test]
fn a_stored_object_is_decoded_and_encoded_without_changes() {
    let stored = stored();
    assert_eq!(serde_json::to_value(decoded(&stored)).unwrap(), stored);
}

#[test]
fn null_missing_and_unknown_fields_are_accepted() {
    let lenient = json!({
        "metadata": { "name": "web" },
        "spec": { "helm": { "repo": null, "values": null }, "targets": null, "pollingInterval": null, "newer": [{}] },
        "status": null,
        "extra": 1
    });
    let helmop = decoded(&lenient);
    assert_eq!(
        helmop.spec.bundle.options.helm,
        Some(super::HelmOptions::default())
    );
    assert!(helmop.spec.bundle.targets.is_empty() && helmop.status.is_none());
    assert_eq!(
        decoded(&json!({ "metadata": { "name": "bare" } })).spec,
        super::HelmOpSpec::default()
    );
}

#[test]
fn lists_have_no_spare_capacity() {
    let bundle = decoded(&stored()).spec.bundle;
    assert_eq!(bundle.targets.capacity(), 2);
    let operations = bundle.options.diff.unwrap().compare_patches;
    assert_eq!(operations.capacity(), 1);
}

#[test]
fn kind_and_api_version_are_encoded() {
    let policy = Policy {
        require_service_account: true,
        ..Policy::default()
    };
    assert_eq!(
        serde_json::to_value(policy).unwrap(),
        json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "requireServiceAccount": true })
    );
    assert_eq!(serde_json::to_value(Bundle::default()).unwrap()["kind"], "Bundle");
}

#[test]
fn an_error_contains_the_path_of_the_field() {
    let invalid = json!({ "spec": { "targets": [{ "helm": { "timeoutSeconds": "soon" } }] } });
    let error = serde_json::from_str::<HelmOp>(&invalid.to_string())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("spec: targets: helm: timeoutSeconds: invalid type: string \"soon\""),
        "{error}"
    );
}

#[test]
fn an_invalid_object_keeps_its_name_and_does_not_fail_the_list() {
    let list = json!([stored(), { "metadata": { "name": "invalid" }, "spec": { "paused": "maybe" } }]);
    let list: Vec<Decoded<HelmOp>> = serde_json::from_str(&list.to_string()).unwrap();
    assert!(matches!(&list[0], Decoded::Valid(helmop) if helmop.spec.helm_secret_name == "access"));
    let Decoded::Invalid { metadata, error } = &list[1] else {
        panic!("decoded")
    };
    assert_eq!(metadata.name.as_deref(), Some("invalid"));
    assert!(error.contains("paused"), "{error}");
}

#[test]
fn every_field_has_a_description() {
    for (file, crd) in [
        super::crds::all(),
        super::crds::of_clusters(),
        super::crds::of_notifications(),
    ]
    .map(Result::unwrap)
    .concat()
    {
        let crd = serde_json::to_value(crd).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_descriptions(file, schema);
    }
}

fn assert_descriptions(path: &str, schema: &Value) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if !path.ends_with(".yaml.metadata") {
            assert!(
                field["description"].as_str().is_some_and(|text| text.len() > 3),
                "{path}"
            );
        }
        assert_descriptions(&path, field);
        assert_descriptions(&path, &field["items"]);
        assert_descriptions(&path, &field["additionalProperties"]);
    }
}

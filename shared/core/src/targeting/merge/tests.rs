use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn options(value: &Value) -> BundleDeploymentOptions {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn merged(base: &Value, own: &Value) -> Value {
    serde_json::to_value(merge(&options(base), &options(own))).unwrap()
}

#[test]
fn every_field_is_merged_by_its_rule() {
    for (base, own, expected) in [
        // A target without options changes nothing.
        (
            json!({ "namespace": "a", "helm": { "chart": "c" } }),
            json!({}),
            json!({ "namespace": "a", "helm": { "chart": "c" } }),
        ),
        // Strings.
        (
            json!({ "namespace": "a", "defaultNamespace": "b", "serviceAccount": "c", "kustomize": { "dir": "d" } }),
            json!({ "namespace": "e", "defaultNamespace": "f", "serviceAccount": "g", "kustomize": { "dir": "h" } }),
            json!({ "namespace": "e", "defaultNamespace": "f", "serviceAccount": "g", "kustomize": { "dir": "h" } }),
        ),
        (
            json!({ "helm": { "chart": "a", "repo": "b", "version": "1", "releaseName": "c" } }),
            json!({ "helm": { "version": "2", "releaseName": "d" } }),
            json!({ "helm": { "chart": "a", "repo": "b", "version": "2", "releaseName": "d" } }),
        ),
        // A dash clears.
        (
            json!({ "namespace": "a", "defaultNamespace": "b", "serviceAccount": "c" }),
            json!({ "namespace": "-", "defaultNamespace": "-", "serviceAccount": "-" }),
            json!({}),
        ),
        // A timeout can be set and cleared.
        (
            json!({ "helm": { "timeoutSeconds": 30 } }),
            json!({ "helm": { "timeoutSeconds": 60 } }),
            json!({ "helm": { "timeoutSeconds": 60 } }),
        ),
        (
            json!({ "helm": { "timeoutSeconds": 30 } }),
            json!({ "helm": { "timeoutSeconds": -1 } }),
            json!({ "helm": {} }),
        ),
        (
            json!({ "helm": { "timeoutSeconds": 30 } }),
            json!({ "helm": {} }),
            json!({ "helm": { "timeoutSeconds": 30 } }),
        ),
        // Values are merged deeply; lists and null replace.
        (
            json!({ "helm": { "values": { "a": { "b": 1, "c": [1, 2] }, "d": 1, "e": { "f": 1 } } } }),
            json!({ "helm": { "values": { "a": { "c": [3], "g": 1 }, "d": null, "e": 2 } } }),
            json!({ "helm": { "values": { "a": { "b": 1, "c": [3], "g": 1 }, "d": null, "e": 2 } } }),
        ),
        (
            json!({ "helm": {} }),
            json!({ "helm": { "values": { "a": 1 } } }),
            json!({ "helm": { "values": { "a": 1 } } }),
        ),
        (
            json!({ "helm": { "templateValues": { "a": "1", "b": "2" } } }),
            json!({ "helm": { "templateValues": { "b": "3", "c": "4" } } }),
            json!({ "helm": { "templateValues": { "a": "1", "b": "3", "c": "4" } } }),
        ),
        // Lists with keys.
        (
            json!({ "helm": { "valuesFrom": [{ "secretKeyRef": { "name": "s", "key": "k" } }, {}] } }),
            json!({ "helm": { "valuesFrom": [{ "configMapKeyRef": { "name": "s", "key": "k" } }, { "secretKeyRef": { "name": "s", "key": "k" } }, {}] } }),
            json!({ "helm": { "valuesFrom": [{ "secretKeyRef": { "name": "s", "key": "k" } }, {}, { "configMapKeyRef": { "name": "s", "key": "k" } }, {}] } }),
        ),
        (
            json!({ "diff": { "comparePatches": [{ "kind": "A", "name": "x", "jsonPointers": ["/1"] }] } }),
            json!({ "diff": { "comparePatches": [{ "kind": "B" }, { "kind": "A", "name": "x", "jsonPointers": ["/2"] }] } }),
            json!({ "diff": { "comparePatches": [{ "kind": "A", "name": "x", "jsonPointers": ["/2"] }, { "kind": "B" }] } }),
        ),
        (
            json!({ "downstreamResources": [{ "kind": "Secret", "name": "a" }] }),
            json!({ "downstreamResources": [{ "kind": "secret", "name": "a" }, { "kind": "ConfigMap", "name": "a" }, { "kind": "configmap", "name": "a" }] }),
            json!({ "downstreamResources": [{ "kind": "secret", "name": "a" }, { "kind": "ConfigMap", "name": "a" }] }),
        ),
        (
            json!({ "yaml": { "overlays": ["a"] } }),
            json!({ "yaml": { "overlays": ["a", "b"] } }),
            json!({ "yaml": { "overlays": ["a", "a", "b"] } }),
        ),
        // `true` is kept.
        (
            json!({ "keepResources": true, "helm": { "force": true, "atomic": true } }),
            json!({ "helm": { "takeOwnership": true, "disablePreProcess": true, "waitForJobs": true, "disableDNS": true } }),
            json!({ "keepResources": true, "helm": { "force": true, "atomic": true, "takeOwnership": true, "disablePreProcess": true, "waitForJobs": true, "disableDNS": true } }),
        ),
        (
            json!({ "forceSyncGeneration": 5 }),
            json!({ "forceSyncGeneration": 2 }),
            json!({ "forceSyncGeneration": 2 }),
        ),
        (
            json!({ "forceSyncGeneration": 5 }),
            json!({ "forceSyncGeneration": -2 }),
            json!({ "forceSyncGeneration": 5 }),
        ),
        (
            json!({ "correctDrift": { "enabled": true, "force": true } }),
            json!({ "correctDrift": { "enabled": true } }),
            json!({ "correctDrift": { "enabled": true } }),
        ),
    ] {
        assert_eq!(merged(&base, &own), expected, "{base} {own}");
    }
}

#[test]
fn fields_that_fleet_does_not_merge_have_no_effect() {
    let own = json!({
        "createNamespace": false, "deleteNamespace": true, "deleteCRDResources": true,
        "ignore": { "conditions": [{ "type": "A" }] }, "namespaceLabels": { "a": "b" },
        "namespaceAnnotations": { "a": "b" }, "overwrites": [{ "kind": "A", "name": "a" }],
        "allowedTargetNamespaceSelector": { "matchLabels": { "a": "b" } },
        "helm": { "maxHistory": 5, "skipSchemaValidation": true, "disableDependencyUpdate": true, "valuesFiles": ["f"] }
    });
    assert_eq!(merged(&json!({}), &own), json!({ "helm": {} }));
}

#[test]
fn a_dash_in_a_combined_target_still_clears() {
    let (first, second) = (
        options(&json!({ "namespace": "a" })),
        options(&json!({ "namespace": "-" })),
    );
    let base = options(&json!({ "namespace": "b" }));
    assert_eq!(merge(&base, &combine(&first, &second)).namespace, "");
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b"]).prop_map(str::to_owned)
}

/// Values in which a key has either always a mapping or never. If another value replaces a mapping, and a mapping replaces that
/// value, the merge is not associative.
fn values() -> impl Strategy<Value = Value> {
    let leaf = || {
        prop_oneof![
            Just(json!(1)),
            Just(json!(null)),
            Just(json!([1])),
            Just(json!("x"))
        ]
    };
    let leaves = prop::collection::btree_map("[ab]", leaf(), 0..3);
    leaves
        .prop_map(|map| Value::Object(map.into_iter().collect()))
        .prop_recursive(3, 12, 3, move |inner| {
            (prop::option::of(leaf()), prop::option::of(inner)).prop_map(|(leaf, inner)| {
                let entries = [("leaf", leaf), ("map", inner)];
                Value::Object(
                    entries
                        .into_iter()
                        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                        .collect(),
                )
            })
        })
}

prop_compose! {
    /// Options without `-`, because clearing depends on the order of the targets.
    fn any_options()(
        namespace in word(), version in word(), timeout in 0..3, atomic: bool, drift in prop::option::of(any::<bool>()),
        values in prop::option::of(values()),
        templates in prop::collection::btree_map("[ab]", "[xy]", 0..3),
        resources in prop::collection::btree_set(word(), 0..3),
        overlays in prop::collection::vec(word(), 0..2),
    ) -> BundleDeploymentOptions {
        options(&json!({
            "namespace": namespace,
            "yaml": { "overlays": overlays },
            "correctDrift": drift.map(|enabled| json!({ "enabled": enabled })),
            "downstreamResources": resources.iter().map(|name| json!({ "kind": "Secret", "name": name })).collect::<Vec<_>>(),
            "helm": {
                "version": version, "timeoutSeconds": timeout, "atomic": atomic, "values": values,
                "templateValues": templates
            }
        }))
    }
}

proptest! {
    #[test]
    fn merging_is_associative(a in any_options(), b in any_options(), c in any_options()) {
        prop_assert_eq!(combine(&combine(&a, &b), &c), combine(&a, &combine(&b, &c)));
    }

    #[test]
    fn empty_options_change_nothing(a in any_options()) {
        let nothing = BundleDeploymentOptions::default();
        prop_assert_eq!(merge(&a, &nothing), a.clone());
        prop_assert_eq!(merge(&nothing, &a), a);
    }
}

#[test]
fn unknown_options_of_a_target_override_those_of_the_bundle() {
    let with = |fields: Value| {
        let mut options = fields.clone();
        for block in ["helm", "diff", "yaml", "kustomize"] {
            options[block] = fields.clone();
        }
        options
    };
    assert_eq!(
        merged(
            &with(json!({ "a": 1, "b": { "c": 1 } })),
            &with(json!({ "b": { "d": 2 }, "e": false }))
        ),
        with(json!({ "a": 1, "b": { "d": 2 }, "e": false }))
    );
    let from = |name: &str, newer: u8| {
        json!({ "helm": { "valuesFrom": [{ "secretKeyRef": { "name": name, "newer": newer } }] },
            "correctDrift": { "newer": newer } })
    };
    assert_eq!(merged(&from("s", 1), &from("s", 2)), from("s", 2));
}

#[test]
fn a_target_may_keep_its_records_elsewhere() {
    let stored = |namespace: &str| json!({ "lifecycle": { "storageNamespace": namespace } });
    assert_eq!(merged(&stored("flux"), &stored("records")), stored("records"));
    assert_eq!(
        merged(&stored("flux"), &json!({ "lifecycle": {} })),
        stored("flux")
    );
}

#[test]
fn a_target_replaces_the_dependency_on_the_same_object() {
    let lifecycle = |depends_on: &Value| json!({ "lifecycle": { "dependsOn": depends_on } });
    let own = json!([
        { "name": "db", "ready": "true" },
        { "name": "db", "namespace": "data", "ready": "true" },
        { "name": "db", "apiVersion": "v1", "kind": "Secret", "ready": "true" },
        { "name": "new" },
    ]);
    let base = json!([
        { "name": "db" },
        { "name": "db", "namespace": "data" },
        { "name": "db", "namespace": "other" },
        { "name": "db", "apiVersion": "v1", "kind": "Secret" },
        { "name": "db", "apiVersion": "v1", "kind": "ConfigMap" },
    ]);
    let expected = json!([own[0], own[1], base[2], own[2], base[4], own[3]]);
    assert_eq!(merged(&lifecycle(&base), &lifecycle(&own)), lifecycle(&expected));
}

//! Tests of drift. A dry run is imitated by giving the object that the API server would return.

use helmops_api::diff::DiffOptions;
use proptest::{collection, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::*;

fn merged(base: &Value, patch: &Value) -> Value {
    let mut object = base.clone();
    json_patch::merge(&mut object, patch);
    object
}

fn rules(patches: &Value) -> DriftRules {
    let diff: DiffOptions = serde_json::from_value(json!({ "comparePatches": patches })).unwrap();
    DriftRules::new(Some(&diff), &[])
}

fn patch_with(predicted: &Value, live: &Value, rules: &DriftRules) -> Option<String> {
    difference(predicted, live, rules, &Autoscalers::default()).map(|drift| drift.patch)
}

fn patch(predicted: &Value, live: &Value) -> Option<String> {
    patch_with(predicted, live, &DriftRules::default())
}

fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{ "manager": "fleetagent" }], "labels": { "app": "web" }
        },
        "data": { "key": "a" }
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "shop", "generation": 1, "labels": { "tier": "web" } },
        "spec": {
            "replicas": 2,
            "template": { "spec": { "containers": [
                { "name": "main", "image": "nginx:1", "imagePullPolicy": "IfNotPresent", "env": [{ "name": "A", "value": "1" }] }
            ] } }
        },
        "status": { "replicas": 2 }
    })
}

mod the_cheap_check {
    use super::*;

    #[test]
    fn defaults_and_additions_of_others_do_not_matter() {
        let live = merged(
            &deployment(),
            &json!({ "metadata": { "labels": { "added": "x" }, "annotations": { "added": "x" } }, "spec": { "paused": true } }),
        );
        let desired = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "creationTimestamp": null, "labels": { "tier": "web" }, "annotations": {}, "finalizers": [] },
            "spec": {
                "replicas": 2, "strategy": null,
                "template": { "spec": { "containers": [{ "name": "main", "image": "nginx:1", "env": [{ "name": "A", "value": "1" }] }] } }
            },
            "status": { "replicas": 5 }
        });
        assert!(contains(&desired, &live));
    }

    #[test]
    fn every_change_of_a_desired_field_is_seen() {
        let desired = deployment();
        for change in [
            json!({ "spec": { "replicas": 3 } }),
            json!({ "spec": { "replicas": "2" } }),
            json!({ "spec": { "replicas": null } }),
            json!({ "spec": null }),
            json!({ "metadata": { "labels": { "tier": "other" } } }),
            json!({ "metadata": { "labels": null } }),
            json!({ "metadata": { "name": "other" } }),
            json!({ "kind": "StatefulSet" }),
            json!({ "spec": { "template": { "spec": { "containers": [] } } } }),
            json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "nginx:2" }] } } } }),
        ] {
            let live = merged(&deployment(), &change);
            assert!(!contains(&desired, &live), "{change}");
        }
        assert!(!contains(&json!("text"), &desired));
        assert!(!contains(&desired, &json!(null)));
    }

    #[test]
    fn lists_are_compared_by_the_way_that_the_api_server_merges_them() {
        let spec =
            |api_version: &str, spec: Value| json!({ "apiVersion": api_version, "kind": "K", "spec": spec });
        for (api_version, desired, live, expected) in [
            // Merged: an element may have more fields, but there are no more elements.
            (
                "v1",
                json!({ "ports": [{ "port": 80 }] }),
                json!({ "ports": [{ "port": 80, "protocol": "TCP" }] }),
                true,
            ),
            (
                "v1",
                json!({ "ports": [{ "port": 80 }] }),
                json!({ "ports": [{ "port": 80 }, { "port": 81 }] }),
                false,
            ),
            (
                "v1",
                json!({ "ports": [{ "port": 80 }] }),
                json!({ "ports": [{ "port": 81, "protocol": "TCP" }] }),
                false,
            ),
            // Replaced as a whole.
            (
                "networking.k8s.io/v1",
                json!({ "rules": [{ "host": "a" }] }),
                json!({ "rules": [{ "host": "a" }] }),
                true,
            ),
            (
                "networking.k8s.io/v1",
                json!({ "rules": [{ "http": 1 }] }),
                json!({ "rules": [{ "http": 1, "host": "a" }] }),
                false,
            ),
            // How a custom resource merges its lists is not known.
            (
                "example.com/v1",
                json!({ "ports": [{ "port": 80 }] }),
                json!({ "ports": [{ "port": 80, "x": 1 }] }),
                false,
            ),
            (
                "example.com/v1",
                json!({ "args": ["a"] }),
                json!({ "args": ["a"] }),
                true,
            ),
            (
                "v1",
                json!({ "args": ["a", "b"] }),
                json!({ "args": ["b", "a"] }),
                false,
            ),
            // An empty object is a value, except in the metadata.
            (
                "v1",
                json!({ "volumes": [{ "name": "v", "emptyDir": {} }] }),
                json!({ "volumes": [{ "name": "v" }] }),
                false,
            ),
        ] {
            let (desired, live) = (spec(api_version, desired), spec(api_version, live));
            assert_eq!(contains(&desired, &live), expected, "{desired} {live}");
        }
    }

    #[test]
    fn texts_of_secrets_are_compared_with_their_encoded_data() {
        let secret = |fields: Value| {
            merged(
                &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {} }),
                &fields,
            )
        };
        let live = secret(json!({ "data": { "a": "YQ==", "b": "Yg==" } }));
        for (desired, expected) in [
            (json!({ "stringData": { "a": "a" } }), true),
            (json!({ "stringData": { "a": "b" } }), false),
            (json!({ "stringData": { "c": "c" } }), false),
            (json!({ "stringData": { "a": 1 } }), false),
            (
                json!({ "data": { "b": "Yg==" }, "stringData": { "a": "a" } }),
                true,
            ),
            (json!({ "data": { "b": "Yw==" } }), false),
            // The text wins.
            (
                json!({ "data": { "a": "Yw==" }, "stringData": { "a": "a" } }),
                true,
            ),
        ] {
            assert_eq!(contains(&secret(desired.clone()), &live), expected, "{desired}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let keys = || {
            select(vec![
                "metadata",
                "spec",
                "status",
                "data",
                "stringData",
                "kind",
                "ports",
                "labels",
                "a",
            ])
        };
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            select(vec!["Secret", "v1", "a", ""]).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                collection::vec((keys(), inner), 0..4).prop_map(|fields| fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<Map<_, _>>()
                    .into()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_it_accepts_is_no_difference(desired in json(), live in json()) {
            // A patch with fields of a manifest changes nothing of a live object that has them, besides what is not compared.
            let named = json!({ "kind": "K", "apiVersion": "example.com/v1", "metadata": { "name": "n" } });
            // An API server stores no null, and no empty labels.
            let mut desired = desired;
            if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|_, value| *value != json!([]) && *value != json!({}));
            }
            let (desired, live) = (merged(&desired, &named), merged(&merged(&json!({}), &live), &named));
            if contains(&desired, &live) {
                prop_assert_eq!(patch(&merged(&live, &desired), &live), None);
            }
            difference(&desired, &live, &DriftRules::default(), &Autoscalers::default());
        }
    }
}

#[test]
fn a_difference_is_a_merge_patch_from_live_to_desired() {
    for (live, expected) in [
        (json!({ "data": { "key": "b" } }), Some(r#"{"data":{"key":"a"}}"#)),
        (
            json!({ "data": { "key": null } }),
            Some(r#"{"data":{"key":"a"}}"#),
        ),
        (
            json!({ "metadata": { "labels": { "app": "x" } } }),
            Some(r#"{"metadata":{"labels":{"app":"web"}}}"#),
        ),
        // Fields that the API server writes.
        (
            json!({ "metadata": { "uid": "v", "resourceVersion": "8", "generation": 2, "managedFields": null, "creationTimestamp": null }, "status": { "a": 1 } }),
            None,
        ),
    ] {
        assert_eq!(
            patch(&config_map(), &merged(&config_map(), &live)).as_deref(),
            expected,
            "{live}"
        );
    }
    // What a dry run removes belonged to the release.
    let live = merged(&config_map(), &json!({ "data": { "old": "x" } }));
    assert_eq!(
        patch(&config_map(), &live).as_deref(),
        Some(r#"{"data":{"old":null}}"#)
    );
}

#[test]
fn a_long_difference_is_truncated() {
    let live = merged(&config_map(), &json!({ "data": { "key": "b" } }));
    let predicted = merged(&live, &json!({ "data": { "key": "ä".repeat(4_000) } }));
    let text = patch(&predicted, &live).unwrap();
    assert!(text.len() <= 2_048 && text.ends_with('…'), "{}", text.len());
}

#[test]
fn data_of_secrets_is_never_shown() {
    let secret = |data: Value| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "type": "Opaque", "data": data });
    let live = merged(
        &secret(json!({ "a": "bGl2ZQ==", "old": "b2xk" })),
        &json!({ "type": "x", "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "bGl2ZQ==" } } }),
    );
    let predicted = merged(
        &secret(json!({ "a": "c2VjcmV0", "b": "c2VjcmV0" })),
        &json!({ "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "c2VjcmV0" } } }),
    );
    let text = patch(&predicted, &live).unwrap();
    assert!(!text.contains("c2VjcmV0") && !text.contains("bGl2ZQ"), "{text}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        shown["data"],
        json!({ "a": "<redacted>", "b": "<redacted>", "old": null })
    );
    assert_eq!(shown["type"], "Opaque");
    // All data at the same time.
    let text = patch(&secret(json!("c2VjcmV0")), &live).unwrap();
    assert!(!text.contains("c2VjcmV0"), "{text}");
}

#[test]
fn replicas_in_the_range_of_an_autoscaler_are_no_drift() {
    let autoscaler = |version: &str, fields: Value| {
        let spec = json!({ "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 5 });
        let base = json!({ "apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": { "name": "h", "namespace": "shop" }, "spec": spec });
        merged(&base, &fields)
    };
    let keda = |fields: Value| {
        let spec = json!({ "scaleTargetRef": { "name": "web" }, "minReplicaCount": 1, "triggers": [] });
        json!({ "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": { "name": "k", "namespace": "shop" }, "spec": merged(&spec, &fields) })
    };
    let v2 = autoscaler("autoscaling/v2", json!({}));
    for (autoscaler, kind, replicas, is_drift) in [
        (&v2, "Deployment", json!(1), false),
        (&v2, "Deployment", json!(5), false),
        (&v2, "Deployment", json!(6), true),
        (&v2, "Deployment", json!(0), true),
        (&v2, "StatefulSet", json!(3), true),
        (
            &autoscaler("autoscaling/v1", json!({})),
            "Deployment",
            json!(3),
            false,
        ),
        (
            &autoscaler("autoscaling/v2", json!({ "spec": { "minReplicas": 4 } })),
            "Deployment",
            json!(3),
            true,
        ),
        (
            &autoscaler("autoscaling/v2", json!({ "metadata": { "namespace": "other" } })),
            "Deployment",
            json!(3),
            true,
        ),
        (
            &autoscaler(
                "autoscaling/v2",
                json!({ "spec": { "scaleTargetRef": { "name": "x" } } }),
            ),
            "Deployment",
            json!(3),
            true,
        ),
        // Of a cloud provider.
        (
            &autoscaler("example.com/v1", json!({})),
            "Deployment",
            json!(3),
            false,
        ),
        (&keda(json!({})), "Deployment", json!(0), false),
        (&keda(json!({})), "Deployment", json!(4), false),
        (
            &keda(json!({ "maxReplicaCount": 3 })),
            "Deployment",
            json!(4),
            true,
        ),
        (&keda(json!({})), "StatefulSet", json!(4), true),
        (
            &keda(json!({ "scaleTargetRef": { "kind": "StatefulSet" } })),
            "StatefulSet",
            json!(4),
            false,
        ),
    ] {
        let predicted = merged(&deployment(), &json!({ "kind": kind }));
        let live = merged(&predicted, &json!({ "spec": { "replicas": replicas } }));
        let autoscalers = Autoscalers::of(&[&live, autoscaler]);
        let found = difference(&predicted, &live, &DriftRules::default(), &autoscalers);
        assert_eq!(found.is_some(), is_drift, "{autoscaler} {kind} {replicas}");
    }
    // Other changes are shown without the replicas.
    let live = merged(
        &deployment(),
        &json!({ "spec": { "replicas": 4 }, "metadata": { "labels": { "tier": "x" } } }),
    );
    let found = difference(
        &deployment(),
        &live,
        &DriftRules::default(),
        &Autoscalers::of(&[&v2]),
    )
    .unwrap();
    assert_eq!(found.patch, r#"{"metadata":{"labels":{"tier":"web"}}}"#);
}

#[test]
fn rules_of_aggregated_roles_are_no_drift() {
    let role = |fields: Value| {
        let base = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "r" }, "rules": [] });
        merged(&base, &fields)
    };
    let collected = json!({ "rules": [{ "verbs": ["get"] }] });
    let aggregated = role(json!({ "aggregationRule": { "clusterRoleSelectors": [] } }));
    assert_eq!(patch(&aggregated, &merged(&aggregated, &collected)), None);
    assert!(contains(&aggregated, &merged(&aggregated, &collected)));
    assert!(!contains(&role(json!({})), &role(collected.clone())));
    assert_eq!(
        patch(&role(json!({})), &role(collected)).as_deref(),
        Some(r#"{"rules":[]}"#)
    );
}

#[test]
fn an_injected_ca_is_no_drift_unless_the_chart_sets_it() {
    let webhooks = |bundle: Value| {
        let webhook = |name: &str, bundle: &Value| json!({ "name": name, "clientConfig": { "service": { "name": "s" }, "caBundle": bundle } });
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "w" },
            "webhooks": [webhook("a", &json!("Q0E=")), webhook("b", &bundle)]
        })
    };
    let crd = |bundle: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "c" },
            "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": bundle } } } }
        })
    };
    let service = |bundle: Value| json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": "v" }, "spec": { "caBundle": bundle } });
    for (of, bundle, is_drift) in [
        (&webhooks as &dyn Fn(Value) -> Value, "Cg==", false),
        (&webhooks, "\n", false),
        (&webhooks, "", false),
        (&webhooks, "T1RIRVI=", true),
        (&crd, "Cg==", false),
        (&crd, "T1RIRVI=", true),
        (&service, "Cg==", false),
        (&service, "T1RIRVI=", true),
    ] {
        let live = of(json!("Q0E="));
        assert_eq!(
            patch(&of(json!(bundle)), &live).is_some(),
            is_drift,
            "{live} {bundle:?}"
        );
    }
    // Each webhook has its own.
    let mut placeholders = webhooks(json!("Cg=="));
    placeholders["webhooks"][0]["clientConfig"]["caBundle"] = "Cg==".into();
    assert_eq!(patch(&placeholders, &webhooks(json!("T1RIRVI="))), None);
    // Not injected yet.
    let mut live = crd(json!("x"));
    live["spec"]["conversion"]["webhook"]["clientConfig"] = json!({});
    assert_eq!(patch(&crd(json!("Cg==")), &live), None);
}

mod the_rules_of_the_user {
    use super::*;

    fn changed() -> Value {
        merged(
            &deployment(),
            &json!({ "spec": { "replicas": 4 }, "metadata": { "labels": { "tier": "other", "a/b": "c" } } }),
        )
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is called with json!")]
    fn entry(fields: Value) -> Value {
        merged(
            &json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop" }),
            &fields,
        )
    }

    const REPLICAS: &str = r#"{"spec":{"replicas":2}}"#;
    const TIER: &str = r#"{"metadata":{"labels":{"a/b":null,"tier":"web"}}}"#;

    #[test]
    fn json_pointers_exclude_fields_of_the_objects_that_match() {
        let pointers = json!([
            "/metadata/labels/tier",
            "/metadata/labels/a~1b",
            "/no/such/field",
            "/spec/template/spec/containers/9"
        ]);
        let both = r#"{"metadata":{"labels":{"a/b":null,"tier":"web"}},"spec":{"replicas":2}}"#;
        for (fields, expected) in [
            (json!({}), REPLICAS),
            // Name and namespace may be empty, the version may be another, and group and kind are globs.
            (json!({ "name": null, "namespace": null }), REPLICAS),
            (json!({ "apiVersion": "apps/v1beta1" }), REPLICAS),
            (json!({ "apiVersion": "*/v1", "kind": "*" }), REPLICAS),
            (json!({ "kind": "Dep{loyment,x}" }), REPLICAS),
            (json!({ "kind": "D?ployment" }), REPLICAS),
            (json!({ "kind": "[A-E]eployment" }), REPLICAS),
            (json!({ "kind": "[!A-C]eployment" }), REPLICAS),
            (json!({ "kind": "[!A-E]eployment" }), both),
            (json!({ "kind": "Deploy" }), both),
            (json!({ "kind": "eploymen?" }), both),
            (json!({ "kind": "Deploymen?x" }), both),
            (json!({ "kind": "?eploymen" }), both),
            (json!({ "kind": null }), both),
            (json!({ "name": "we" }), both),
            (json!({ "namespace": "sho" }), both),
            (json!({ "apiVersion": "v1" }), both),
        ] {
            let entry = merged(&entry(fields), &json!({ "jsonPointers": pointers }));
            let rules = rules(&json!([entry]));
            assert_eq!(rules.problems(), []);
            assert_eq!(
                patch_with(&deployment(), &changed(), &rules).as_deref(),
                Some(expected),
                "{entry}"
            );
        }
        let all = entry(json!({ "jsonPointers": ["/metadata/labels", "/spec/replicas"] }));
        assert_eq!(patch_with(&deployment(), &changed(), &rules(&json!([all]))), None);
    }

    #[test]
    fn an_element_of_a_list_can_be_excluded() {
        let live = merged(
            &deployment(),
            &json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "other" }] } } } }),
        );
        let rules = rules(&json!([entry(
            json!({ "jsonPointers": ["/spec/template/spec/containers/0"] })
        )]));
        assert_eq!(patch_with(&deployment(), &live, &rules), None);
    }

    #[test]
    fn operations_apply_to_exactly_one_object() {
        let remove = |path: &str| json!({ "op": "remove", "path": path });
        let both = json!([remove("/metadata/labels"), remove("/spec/replicas")]);
        for (fields, is_drift) in [
            (json!({}), false),
            (json!({ "apiVersion": "apps/v1beta1" }), true),
            (json!({ "kind": "*" }), true),
            (json!({ "name": null }), true),
            (json!({ "namespace": null }), true),
        ] {
            let entry = merged(&entry(fields), &json!({ "operations": both }));
            let found = patch_with(&deployment(), &changed(), &rules(&json!([entry])));
            assert_eq!(found.is_some(), is_drift, "{entry}");
        }
    }

    #[test]
    fn one_operation_that_fails_does_not_lose_the_others() {
        let remove = |path: &str| json!({ "op": "remove", "path": path });
        let set = |op: &str, path: &str, value: &str| json!({ "op": op, "path": path, "value": value });
        for (operations, expected) in [
            (
                json!([remove("/no/such"), remove("/metadata/labels")]),
                Some(REPLICAS),
            ),
            (
                json!([
                    remove("/metadata/labels"),
                    remove("/no/such"),
                    remove("/spec/replicas")
                ]),
                None,
            ),
            (
                json!([
                    set("replace", "/metadata/labels/tier", "same"),
                    remove("/metadata/labels/a~1b"),
                    remove("/spec/replicas")
                ]),
                None,
            ),
            (json!([set("add", "/spec/replicas", "same")]), Some(TIER)),
            // A test guards what follows. It fails for both objects, or for one.
            (
                json!([
                    set("test", "/metadata/name", "other"),
                    remove("/metadata/labels"),
                    remove("/spec/replicas")
                ]),
                Some(r#"{"metadata":{"labels":{"a/b":null,"tier":"web"}},"spec":{"replicas":2}}"#),
            ),
            (
                json!([set("test", "/metadata/name", "web"), remove("/metadata/labels")]),
                Some(REPLICAS),
            ),
        ] {
            let rules = rules(&json!([entry(json!({ "operations": operations }))]));
            assert_eq!(
                patch_with(&deployment(), &changed(), &rules).as_deref(),
                expected,
                "{operations}"
            );
        }
    }

    #[test]
    fn what_cannot_be_used_is_reported() {
        let rules = rules(&json!([
            entry(json!({ "jsonPointers": ["spec/replicas", "/metadata/labels"] })),
            entry(json!({ "kind": "[", "jsonPointers": ["/a"] })),
            entry(
                json!({ "operations": [{ "op": "delete", "path": "/a" }, { "op": "remove", "path": "a" }, { "op": "ignore" }] })
            ),
            entry(json!({ "name": "we(b", "operations": [{ "op": "ignore" }] })),
        ]));
        let problems: Vec<_> = rules.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "diff.comparePatches[0].jsonPointers[0]: \"spec/replicas\" is no JSON pointer to a field; write one as /spec/replicas, \
                 with ~1 for a slash in a name",
                "diff.comparePatches[1].kind: \"[\" is no glob: has no closing bracket",
                "diff.comparePatches[2].operations[0].op: \"delete\" is not supported; use remove, add, replace, test or ignore",
                "diff.comparePatches[2].operations[1].path: \"a\" is no JSON pointer; write one as /spec/replicas, with ~1 for a slash in \
                 a name",
                "diff.comparePatches[3].name: \"we(b\" is no regular expression, so it ignores only that name: error parsing \
                 regexp: missing closing ): `we(b`",
            ]
        );
        // The rest applies.
        assert_eq!(
            patch_with(&deployment(), &changed(), &rules).as_deref(),
            Some(REPLICAS)
        );
    }

    #[test]
    fn entries_that_match_nothing_are_found() {
        let rules = rules(&json!([
            entry(json!({ "jsonPointers": ["/a"] })),
            entry(json!({ "name": "wbe", "jsonPointers": ["/a"] })),
            entry(json!({ "namespace": null, "operations": [{ "op": "remove", "path": "/a" }] })),
            entry(json!({ "name": "w.*", "operations": [{ "op": "ignore" }] })),
            entry(json!({})),
        ]));
        let id = ObjectId::of(&deployment()).unwrap();
        let unmatched = rules.unmatched(&[&id]);
        let fields: Vec<_> = unmatched
            .iter()
            .map(|problem| (&*problem.field, &*problem.value))
            .collect();
        assert_eq!(
            fields,
            [
                ("diff.comparePatches[1]", "apps/v1 Deployment shop/wbe"),
                ("diff.comparePatches[2]", "apps/v1 Deployment web"),
                ("diff.comparePatches[4]", "apps/v1 Deployment shop/web"),
            ]
        );
    }

    #[test]
    fn missing_objects_can_be_ignored() {
        let id = ObjectId::of(&deployment()).unwrap();
        let ignore = json!({ "operations": [{ "op": "ignore" }] });
        for (fields, is_ignored) in [
            (json!({}), true),
            (json!({ "name": null }), true),
            (json!({ "name": "^w" }), true),
            (json!({ "name": "e" }), true),
            (json!({ "name": "^e" }), false),
            (json!({ "namespace": null }), false),
            (json!({ "apiVersion": "apps/v1beta1" }), false),
            (json!({ "kind": "StatefulSet" }), false),
        ] {
            let entry = merged(&entry(fields), &ignore);
            assert_eq!(rules(&json!([entry])).ignores_missing(&id), is_ignored, "{entry}");
        }
        let other = rules(&json!([entry(
            json!({ "jsonPointers": ["/a"], "operations": [{ "op": "remove", "path": "/a" }] })
        )]));
        assert!(!other.ignores_missing(&id));
        // Changes of it are drift.
        let rules = rules(&json!([merged(&entry(json!({})), &ignore)]));
        assert!(patch_with(&deployment(), &changed(), &rules).is_some());
    }
}

mod the_objects_of_a_release {
    use super::*;

    const SET_ID: &str = "default-web";

    fn marked(object: &Value) -> Value {
        merged(
            object,
            &json!({ "metadata": { "annotations": { "objectset.rio.cattle.io/id": SET_ID } } }),
        )
    }

    /// The state of each desired object in a word, and the extra objects.
    fn states(
        desired: &[Value],
        live: &[Value],
        previous: &[Value],
        rules: &DriftRules,
    ) -> (Vec<&'static str>, Vec<String>) {
        let ids: Vec<_> = desired
            .iter()
            .map(|object| ObjectId::of(object).unwrap())
            .collect();
        let desired: Vec<_> = ids
            .iter()
            .zip(desired)
            .map(|(id, object)| Desired { id, object })
            .collect();
        let live: Vec<_> = live.iter().collect();
        let previous: Vec<_> = previous
            .iter()
            .map(|object| ObjectId::of(object).unwrap())
            .collect();
        let owned_by = OwnedBy {
            set_id: SET_ID,
            previous: &previous,
        };
        let comparison = compare(&desired, &live, owned_by, rules);
        let word = |state: &ObjectState<'_>| match state {
            ObjectState::Unchanged { .. } => "unchanged",
            ObjectState::Uncertain { .. } => "uncertain",
            ObjectState::Missing => "missing",
            ObjectState::NotNeeded => "not needed",
        };
        (
            comparison.objects.iter().map(|(_, state)| word(state)).collect(),
            comparison.extra.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn each_object_has_a_state() {
        let changed = merged(&config_map(), &json!({ "data": { "key": "b" } }));
        let other = merged(&config_map(), &json!({ "metadata": { "name": "other" } }));
        let desired = [deployment(), config_map(), other];
        let (states, extra) = states(&desired, &[changed, deployment()], &[], &DriftRules::default());
        assert_eq!(states, ["unchanged", "uncertain", "missing"]);
        assert_eq!(extra, [] as [&str; 0]);
    }

    #[test]
    fn objects_that_need_not_exist_are_not_missing() {
        let job = |fields: Value| {
            let base = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j", "namespace": "shop" }, "spec": {} });
            merged(&base, &fields)
        };
        let expiring = job(json!({ "metadata": { "name": "e" }, "spec": { "ttlSecondsAfterFinished": 0 } }));
        let rules = rules(
            &json!([{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "operations": [{ "op": "ignore" }] }]),
        );
        let (states, _) = states(&[job(json!({})), expiring, config_map()], &[], &[], &rules);
        assert_eq!(states, ["missing", "not needed", "not needed"]);
    }

    #[test]
    fn only_objects_of_the_previous_revision_are_extra() {
        let live = |fields: Value| marked(&merged(&config_map(), &fields));
        let old = live(json!({ "metadata": { "name": "old" } }));
        let mark = |part: &str, key: &str, value: &str| json!({ "metadata": { "name": "old", part: { key: value } } });
        for (object, is_extra) in [
            (old.clone(), true),
            // Its namespace was changed since.
            (
                live(json!({ "metadata": { "name": "old", "namespace": "moved" } })),
                true,
            ),
            (live(json!({ "metadata": { "name": "never" } })), false),
            // An operator copied the label.
            (
                merged(&config_map(), &json!({ "metadata": { "name": "old" } })),
                false,
            ),
            (live(mark("annotations", "objectset.rio.cattle.io/id", "x")), true),
            (
                merged(
                    &old,
                    &mark("annotations", "objectset.rio.cattle.io/id", "default-other"),
                ),
                false,
            ),
            (
                live(mark("labels", "objectset.rio.cattle.io/prune", "false")),
                false,
            ),
            (
                live(mark("labels", "objectset.rio.cattle.io/prune", "true")),
                true,
            ),
            (
                live(mark("annotations", "helm.sh/resource-policy", "keep")),
                false,
            ),
            (
                live(mark("annotations", "helm.sh/resource-policy", " Keep ")),
                false,
            ),
            // Held by a finalizer.
            (
                live(json!({ "metadata": { "name": "old", "deletionTimestamp": "2026-01-01T00:00:00Z" } })),
                true,
            ),
        ] {
            let (_, extra) = states(
                &[deployment()],
                &[object.clone(), deployment()],
                std::slice::from_ref(&old),
                &DriftRules::default(),
            );
            assert_eq!(extra.len(), usize::from(is_extra), "{object}");
        }
    }

    #[test]
    fn an_object_that_is_desired_in_another_version_is_not_extra() {
        let new = json!({ "apiVersion": "example.com/v2", "kind": "W", "metadata": { "name": "w", "namespace": "shop" } });
        let old = marked(&merged(&new, &json!({ "apiVersion": "example.com/v1" })));
        let (states, extra) = states(
            &[new],
            std::slice::from_ref(&old),
            std::slice::from_ref(&old),
            &DriftRules::default(),
        );
        assert_eq!((states, extra), (vec!["missing"], vec![]));
    }

    /// The drift of a release in a line each, with a dry run that is computed locally.
    fn drift(desired: &[Value], live: &[Value]) -> Vec<String> {
        let ids: Vec<_> = desired
            .iter()
            .map(|object| ObjectId::of(object).unwrap())
            .collect();
        let desired: Vec<_> = ids
            .iter()
            .zip(desired)
            .map(|(id, object)| Desired { id, object })
            .collect();
        let live: Vec<_> = live.iter().collect();
        let rules = DriftRules::default();
        let comparison = compare(
            &desired,
            &live,
            OwnedBy {
                set_id: SET_ID,
                previous: &[],
            },
            &rules,
        );
        let change = |state: ObjectState<'_>| match state {
            ObjectState::Unchanged { .. } | ObjectState::NotNeeded => None,
            ObjectState::Missing => Some(Change::Missing { exists: false }),
            ObjectState::Uncertain { desired, live } => {
                let predicted = predicted_locally(desired, live);
                difference(&predicted, live, &rules, &Autoscalers::default()).map(Change::Modified)
            }
        };
        comparison
            .objects
            .into_iter()
            .filter_map(|(id, state)| {
                Some(
                    ObjectDrift {
                        id: id.clone(),
                        change: change(state)?,
                    }
                    .to_status()
                    .to_string(),
                )
            })
            .collect()
    }

    #[test]
    fn what_fleet_detects_is_detected() {
        let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w", "namespace": "shop" }, "spec": { "size": 1 } });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s", "namespace": "shop" },
            "spec": { "type": "ClusterIP", "ports": [{ "name": "http", "port": 80 }] }
        });
        let container = |fields: Value| {
            let mut live = deployment();
            json_patch::merge(&mut live["spec"]["template"]["spec"]["containers"][0], &fields);
            live
        };
        let hook = merged(
            &config_map(),
            &json!({ "metadata": { "name": "hook", "annotations": { "helm.sh/hook": "test" } } }),
        );
        for (desired, live, expected) in [
            // Values of a built-in kind, of a list, and of a custom resource.
            (
                &config_map(),
                vec![merged(&config_map(), &json!({ "data": { "key": "b" } }))],
                "modified {\"data\"",
            ),
            (
                &deployment(),
                vec![container(json!({ "image": "other" }))],
                "modified {\"spec\":{\"template\"",
            ),
            (
                &widget,
                vec![merged(&widget, &json!({ "spec": { "size": 2 } }))],
                "modified {\"spec\":{\"size\":1}}",
            ),
            (
                &deployment(),
                vec![merged(&deployment(), &json!({ "spec": { "replicas": 5 } }))],
                "modified {\"spec\":{\"replicas\":2}}",
            ),
            // A key of a list, and a field that cannot be changed.
            (
                &service,
                vec![merged(
                    &service,
                    &json!({ "spec": { "ports": [{ "name": "http", "port": 81 }] } }),
                )],
                "modified {\"spec\":{\"ports\"",
            ),
            (
                &service,
                vec![merged(&service, &json!({ "spec": { "type": "ExternalName" } }))],
                "modified {\"spec\":{\"type\":\"ClusterIP\"}}",
            ),
            // Objects.
            (&config_map(), vec![], "missing"),
            (&widget, vec![], "missing"),
            // Additions: a label, a data key, a variable, an object that the manifest does not have.
            (
                &config_map(),
                vec![merged(
                    &config_map(),
                    &json!({ "metadata": { "labels": { "x": "y" } } }),
                )],
                "",
            ),
            (
                &config_map(),
                vec![merged(&config_map(), &json!({ "data": { "x": "y" } }))],
                "",
            ),
            (&deployment(), vec![container(json!({ "command": ["x"] }))], ""),
            (&config_map(), vec![config_map(), hook], ""),
        ] {
            let found = drift(std::slice::from_ref(desired), &live).concat();
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
            assert!(found.contains(expected), "{found} has no {expected}");
        }
    }

    #[test]
    fn drift_is_shown_as_in_fleet() {
        let id = ObjectId::of(&config_map()).unwrap();
        let text = |change: Change| {
            ObjectDrift {
                id: id.clone(),
                change,
            }
            .to_status()
            .to_string()
        };
        let drift = Drift {
            patch: r#"{"data":{"key":"a"}}"#.to_owned(),
        };
        for (change, expected) in [
            (Change::Missing { exists: false }, "configmap.v1 shop/web missing"),
            (
                Change::Missing { exists: true },
                "configmap.v1 shop/web is not owned by us",
            ),
            (Change::Extra, "configmap.v1 shop/web extra"),
            (
                Change::Modified(drift),
                r#"configmap.v1 shop/web modified {"data":{"key":"a"}}"#,
            ),
        ] {
            assert_eq!(text(change), expected);
        }
    }
}

#[test]
fn the_body_of_a_dry_run_has_the_marks_of_helm() {
    let applied = as_applied(&config_map(), "shop", "release");
    assert_eq!(
        applied,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "web", "namespace": "shop",
                "labels": { "app": "web", "app.kubernetes.io/managed-by": "Helm" },
                "annotations": { "meta.helm.sh/release-name": "release", "meta.helm.sh/release-namespace": "shop" }
            },
            "data": { "key": "a" }
        })
    );
}

#[test]
fn drift_is_shown_even_if_the_dry_run_is_rejected() {
    // A port with another number is another element of the list, and its name is taken.
    let ports = |port: Value| {
        let metadata = json!({ "name": "s", "namespace": "shop" });
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": { "ports": [port] } })
    };
    let secret = |field: &str, value: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, field: { "k": value } });
    let widget = |list: Value| json!({ "apiVersion": "example.com/v1", "kind": "W", "metadata": { "name": "w" }, "spec": { "ports": list } });
    for (desired, live, expected) in [
        (
            ports(json!({ "port": 80, "name": "http" })),
            ports(json!({ "port": 81, "name": "http", "protocol": "TCP" })),
            Some(r#"{"spec":{"ports":[{"name":"http","port":80,"protocol":"TCP"}]}}"#),
        ),
        (
            ports(json!({ "port": 80, "appProtocol": null })),
            ports(json!({ "port": 80, "protocol": "TCP" })),
            None,
        ),
        (
            widget(json!([{ "port": 80 }])),
            widget(json!([{ "port": 80, "x": 1 }])),
            Some(r#"{"spec":{"ports":[{"port":80}]}}"#),
        ),
        (
            merged(
                &config_map(),
                &json!({ "status": { "a": 1 }, "data": { "key": null }, "metadata": { "resourceVersion": "1" } }),
            ),
            config_map(),
            None,
        ),
        (secret("stringData", "a"), secret("data", "YQ=="), None),
        (
            secret("stringData", "b"),
            secret("data", "YQ=="),
            Some(r#"{"data":{"k":"<redacted>"}}"#),
        ),
    ] {
        let predicted = predicted_locally(&desired, &live);
        assert_eq!(patch(&predicted, &live).as_deref(), expected, "{desired}");
    }
    let removed = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "web" }, "data": { "key": null } });
    assert_eq!(
        patch(&predicted_locally(&removed, &config_map()), &config_map()).as_deref(),
        Some(r#"{"data":{"key":null}}"#)
    );
}

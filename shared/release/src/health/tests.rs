//! Tests of the health of objects.

use proptest::{collection, prelude::*, sample::select};
use serde_json::{Map, json};

use super::*;

const NOW: &str = "2026-01-01T00:01:00Z";

fn health_with(object: &Value, ignored: &[BTreeMap<String, String>]) -> Health {
    let errors = ErrorTable::default();
    let rules = HealthRules {
        errors: &errors,
        ignored,
    };
    of(object, rules, NOW.parse().unwrap())
}

fn health(object: &Value) -> Health {
    health_with(object, &[])
}

/// The health in one line: the state, `+` if it is transitioning, `!` if it is an error, and the messages.
fn line(health: &Health) -> String {
    let mut line = health.state.clone();
    if health.transitioning {
        line.push('+');
    }
    if health.error {
        line.push('!');
    }
    for message in &health.messages {
        line.push('|');
        line.push_str(message);
    }
    line
}

fn widget(status: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "status": status })
}

/// A widget with conditions, each as type, status, reason and message.
fn conditions(conditions: &[[&str; 4]]) -> Value {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|[r#type, status, reason, message]| {
            json!({ "type": r#type, "status": status, "reason": reason, "message": message })
        })
        .collect();
    widget(&json!({ "conditions": conditions }))
}

#[test]
fn conditions_are_read_by_the_table_of_their_type() {
    for (list, expected) in [
        // Steps.
        (&[["Deployed", "True", "", "m"]][..], "active|Resource is current"),
        (&[["Deployed", "False", "", "m"]], "deploying!|m"),
        (&[["Deployed", "Unknown", "", "m"]], "deploying+|m"),
        (&[["etcd", "False", "", "m"]], "provisioning!|m"),
        (&[["AbleToScale", "False", "", "m"]], "pending!|m"),
        // The last step that failed names the state; one that is in progress counts only if none was named before.
        (
            &[["Created", "False", "", "a"], ["Updated", "False", "", "b"]],
            "updating!|a|b",
        ),
        (
            &[["Created", "False", "", "a"], ["Updated", "Unknown", "", "b"]],
            "creating!|a",
        ),
        (
            &[["Created", "Unknown", "", "a"], ["Updated", "False", "", "b"]],
            "updating+!|a|b",
        ),
        // Activities.
        (&[["Reconciling", "True", "", "m"]], "reconciling+|m"),
        (&[["Reconciling", "False", "", "m"]], "active|Resource is current"),
        // Goals.
        (&[["Available", "False", "", "m"]], "updating+|m"),
        (&[["Available", "Unknown", "", "m"]], "updating!|m"),
        (&[["Completed", "False", "", "m"]], "activating+|m"),
        (&[["NodeHealthy", "False", "NodeGone", "m"]], "nodegone+|m"),
        (&[["InfrastructureReady", "Unknown", "Cloud", "m"]], "cloud!|m"),
        (
            &[["BootstrapReady", "False", "", "m"]],
            "active+|m|Resource is current",
        ),
        (&[["Ready", "False", "", "m"]], "unavailable+|m"),
        (&[["Ready", "Unknown", "", "m"]], "unavailable+!|m"),
        // `Ready` is the last of them, wherever it is.
        (
            &[["Ready", "False", "", "r"], ["Available", "False", "", "a"]],
            "updating+|a|r",
        ),
        // Errors.
        (&[["Failed", "True", "", "m"]], "error!|m"),
        (&[["Stalled", "True", "", "m"]], "error!|m"),
        (&[["Failed", "False", "", "m"]], "active|Resource is current"),
        (&[["Anything", "True", "Error", "m"]], "error!|m"),
        (
            &[["Failed", "True", "", "a"], ["Other", "", "Error", "b"]],
            "error!|a|b",
        ),
        (
            &[["Failed", "True", "", "a"], ["Deployed", "False", "", "b"]],
            "deploying!|a|b",
        ),
        // Types that are in no table.
        (
            &[["Progressing", "False", "", "m"], ["Synced", "False", "", "n"]],
            "active|Resource is current",
        ),
        // The messages of the last case are not of interest to anyone, but a reason must never be missing.
        (&[["Failed", "True", "", ""]], "error!|condition Failed is True"),
        (
            &[["Available", "False", "NoPods", ""]],
            "updating+|condition Available is False: NoPods",
        ),
    ] {
        assert_eq!(line(&health(&conditions(list))), expected, "{list:?}");
    }
}

#[test]
fn errors_depend_on_the_kind() {
    let object = |api_version: &str, kind: &str, r#type: &str, status: &str| {
        let mut object = conditions(&[[r#type, status, "", "m"]]);
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object
    };
    for (api_version, kind, r#type, status, is_error) in [
        ("apps/v1", "Deployment", "Progressing", "False", true),
        ("apps/v1", "Deployment", "ReplicaFailure", "True", true),
        ("apps/v1", "ReplicaSet", "ReplicaFailure", "True", true),
        ("v1", "Node", "DiskPressure", "True", true),
        ("v1", "Node", "DiskPressure", "False", false),
        ("helm.cattle.io/v1", "HelmChart", "Failed", "True", true),
        ("helm.cattle.io/v1", "HelmChart", "JobCreated", "False", false),
        // A kind with a row does not use the fallback.
        ("apps/v1", "ReplicaSet", "Failed", "True", false),
        ("apps/v1beta1", "ReplicaSet", "Failed", "True", true),
        ("example.com/v1", "Deployment", "Progressing", "False", false),
    ] {
        let health = health(&object(api_version, kind, r#type, status));
        assert_eq!(
            health.error, is_error,
            "{api_version} {kind} {type} {status}: {health:?}"
        );
    }
}

#[test]
fn the_table_of_errors_can_be_changed_by_condition() {
    let text = r#"[
        { "gvk": "apps/v1, Kind=Deployment", "conditionMappings": [{ "type": "Progressing" }, { "type": "Synced", "status": ["False"] }] },
        { "gvk": "/v1, Kind=Node", "conditionMappings": [{ "type": "DiskPressure", "status": ["Unknown"] }] },
        { "gvk": "example.com/v1, Kind=Widget", "conditionMappings": [{ "type": "Bad", "status": ["True", "Unknown"] }] },
        { "gvk": "/, Kind=", "conditionMappings": [{ "type": "Failed", "status": [""] }] }
    ]"#;
    let table = ErrorTable::parse(text).unwrap();
    for (api_version, kind, r#type, status, is_error) in [
        ("apps/v1", "Deployment", "Progressing", "False", false),
        ("apps/v1", "Deployment", "Synced", "False", true),
        ("apps/v1", "Deployment", "ReplicaFailure", "True", true),
        ("v1", "Node", "DiskPressure", "True", false),
        ("v1", "Node", "DiskPressure", "Unknown", true),
        ("v1", "Node", "OutOfDisk", "True", true),
        ("example.com/v1", "Widget", "Bad", "Unknown", true),
        ("example.com/v1", "Widget", "Stalled", "True", false),
        ("example.com/v1", "Other", "Failed", "True", false),
        ("example.com/v1", "Other", "Stalled", "True", true),
    ] {
        let condition = conditions::Condition {
            r#type,
            status,
            reason: "",
            message: "",
        };
        assert_eq!(
            table.of_kind(api_version, kind)(&condition),
            is_error,
            "{api_version} {kind} {type} {status}"
        );
    }
    assert_eq!(ErrorTable::parse(" "), Ok(ErrorTable::default()));
    for (text, error) in [
        ("[", "is no JSON: EOF"),
        ("{}", "is no list"),
        (r#"[{ "gvk": "Deployment" }]"#, "\"Deployment\" in the table"),
        (
            r#"[{ "gvk": "v1, Kind=Node" }]"#,
            "write one as `apps/v1, Kind=Deployment`",
        ),
    ] {
        let text = ErrorTable::parse(text).unwrap_err().to_string();
        assert!(text.contains(error), "{text}");
    }
}

#[test]
fn ignored_conditions_are_not_considered() {
    let ignore = |fields: &[(&str, &str)]| -> Vec<BTreeMap<String, String>> {
        let fields = fields.iter();
        vec![
            fields
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        ]
    };
    let object = conditions(&[["Active", "False", "Off", "off"], ["Ready", "False", "", "later"]]);
    for (fields, expected) in [
        (
            &[("type", "Active"), ("status", "False")][..],
            "unavailable+|later",
        ),
        (
            &[("type", "Active"), ("status", "True")],
            "activating+!|off|later",
        ),
        (&[("reason", "Off")], "unavailable+|later"),
        (&[("type", "Active"), ("owner", "x")], "activating+!|off|later"),
        // Of `kstatus` too.
        (&[("status", "False")], "active|Resource is current"),
    ] {
        assert_eq!(
            line(&health_with(&object, &ignore(fields))),
            expected,
            "{fields:?}"
        );
    }
    let number =
        widget(&json!({ "conditions": [{ "type": "Failed", "status": "True", "message": "m", "code": 1 }] }));
    assert_eq!(
        line(&health_with(&number, &ignore(&[("code", "1")]))),
        "error!|m",
        "values are texts"
    );
}

#[test]
fn rules_apply_in_order() {
    for (object, expected) in [
        // A summary of its own comes first, and kstatus applies in any case.
        (
            widget(&json!({ "display": { "state": "Busy", "transitioning": true, "message": "m" } })),
            "busy+|m",
        ),
        (
            widget(&json!({ "display": {}, "summary": { "state": "Broken", "error": "true" } })),
            "broken!",
        ),
        (
            widget(
                &json!({ "summary": { "state": "Fine" }, "conditions": [{ "type": "Ready", "status": "False", "message": "m" }] }),
            ),
            "fine+|m",
        ),
        // Numbers of a summary are no state.
        (
            widget(&json!({ "summary": { "ready": 1 } })),
            "active|Resource is current",
        ),
        (json!({ "spec": { "active": true } }), "active"),
        (json!({ "spec": { "active": "false" } }), "inactive"),
        // A phase replaces nothing but the end states, which are not transitioning.
        (widget(&json!({ "phase": "Installing" })), "installing"),
        (
            widget(
                &json!({ "phase": "Succeeded", "conditions": [{ "type": "Available", "status": "False", "message": "m" }] }),
            ),
            "succeeded|m",
        ),
        (
            widget(
                &json!({ "phase": "Waiting", "conditions": [{ "type": "Available", "status": "False", "message": "m" }] }),
            ),
            "updating+|m",
        ),
        // Rancher's objects.
        (
            json!({ "apiVersion": "management.cattle.io/v3", "metadata": { "created": "2026-01-01T00:00:56Z" }, "status": { "conditions": [] } }),
            "initializing+",
        ),
        (
            json!({ "apiVersion": "management.cattle.io/v3", "metadata": { "created": "2026-01-01T00:00:55Z" }, "status": { "conditions": [] } }),
            "active|Resource is current",
        ),
        (
            json!({ "metadata": { "removed": "2026-01-01T00:00:00Z", "finalizers": ["controller.cattle.io/node"] } }),
            "removing+|waiting on node",
        ),
        (
            json!({ "metadata": { "removed": "2025-12-31T23:55:59Z" }, "spec": { "finalizers": ["foregroundDeletion"] } }),
            "removing+!|waiting on object cleanup",
        ),
        (json!({ "metadata": { "removed": "x" } }), "removing+"),
        // kstatus.
        (
            json!({ "metadata": { "deletionTimestamp": NOW } }),
            "removing+|Resource scheduled for deletion",
        ),
        (json!({ "type": "/v3/schemas/node" }), "active"),
        (
            widget(
                &json!({ "conditions": [{ "type": "Ready", "status": "Unknown", "message": "a; b; a" }] }),
            ),
            "unavailable+!|a; b; a|a; b",
        ),
        (
            json!({ "apiVersion": "batch/v1", "kind": "Job", "status": { "conditions": [{ "type": "Failed", "status": "True", "message": "deadline" }] } }),
            "error!|deadline|Job Failed. failed: 0/1",
        ),
        (
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "status": { "conditions": [{ "type": "Progressing", "status": "True", "reason": "ProgressDeadlineExceeded" }] } }),
            "failed!|Progress deadline exceeded",
        ),
    ] {
        assert_eq!(line(&health(&object)), expected, "{object}");
    }
}

#[test]
fn workloads_without_pods_are_reported_as_in_fleet() {
    let unavailable = json!([{ "type": "Available", "status": "False", "message": "Deployment does not have minimum availability." }]);
    for (object, expected) in [
        (
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "replicas": 1 },
                "status": { "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1, "conditions": unavailable }
            }),
            "updating+|Deployment does not have minimum availability.|Available: 0/1",
        ),
        (
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "replicas": 1 } }),
            "in-progress+|Replicas: 0/1",
        ),
        (
            json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "spec": { "replicas": 1 }, "status": { "replicas": 1 } }),
            "in-progress+|Ready: 0/1",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Service", "spec": { "type": "LoadBalancer", "clusterIP": "10.0.0.1" }, "status": { "loadBalancer": {} } }),
            "pending+|Service is ready|Load balancer is being provisioned",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Service", "spec": { "type": "LoadBalancer", "clusterIP": "10.0.0.1" }, "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } }),
            "active|Service is ready",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": { "phase": "Pending" } }),
            "pending+|PVC is not Bound. phase: Pending",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": { "phase": "Bound" } }),
            "bound",
        ),
        (
            json!({ "apiVersion": "batch/v1", "kind": "Job", "status": { "startTime": NOW, "active": 1 } }),
            "active|Job in progress. success:0, active: 1, failed: 0",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Running", "conditions": [{ "type": "PodScheduled", "status": "False", "message": "m" }] } }),
            "scheduling!+|m|Pod is running but is not Ready",
        ),
    ] {
        let expected = expected.replace("!+", "+!");
        assert_eq!(line(&health(&object)), expected, "{object}");
    }
}

#[test]
fn what_is_switched_off_on_purpose_is_ready() {
    let autoscaler = |reason: &str| {
        let condition =
            json!({ "type": "ScalingActive", "status": "False", "reason": reason, "message": "m" });
        json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "status": { "conditions": [condition] } })
    };
    assert!(health(&autoscaler("ScalingDisabled")).is_ready());
    assert_eq!(
        line(&health(&autoscaler("FailedGetResourceMetric"))),
        "pending!|m"
    );
    let suspended = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "suspend": true } });
    assert!(health(&suspended).is_ready());
}

#[test]
fn conditions_can_be_in_an_annotation() {
    let annotation = json!({ "conditions": [{ "type": "Provisioned", "status": "False", "message": "m" }] });
    let mut object = widget(&json!({}));
    object["metadata"]["annotations"] = json!({ "cattle.io/status": annotation.to_string() });
    assert_eq!(line(&health(&object)), "provisioning!|m");
    object["metadata"]["annotations"]["cattle.io/status"] = "{".into();
    assert!(health(&object).is_ready());
}

#[test]
fn age_rules_say_when_to_look_again() {
    let new = json!({ "apiVersion": "management.cattle.io/v3", "metadata": { "created": NOW }, "status": { "conditions": [] } });
    assert_eq!(
        health(&new).recheck,
        Some("2026-01-01T00:01:05Z".parse().unwrap())
    );
    let removed = json!({ "metadata": { "removed": NOW, "finalizers": ["a"] } });
    assert_eq!(
        health(&removed).recheck,
        Some("2026-01-01T00:06:00Z".parse().unwrap())
    );
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "creationTimestamp": NOW }, "status": { "phase": "Pending", "conditions": [condition] } });
    assert_eq!(
        health(&pod).recheck,
        Some("2026-01-01T00:01:15Z".parse().unwrap())
    );
}

/// A container without a readiness probe is ready at each restart of a crash loop.
#[test]
fn a_workload_without_readiness_probes_has_only_started() {
    use Readiness::{Ready, Started};

    let probed = json!({ "name": "a", "readinessProbe": {} });
    let unprobed = json!({ "name": "b" });
    let ready = json!({ "replicas": 1, "readyReplicas": 1, "currentReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1, "conditions": [
        { "type": "Available", "status": "True" },
        { "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable" },
    ] });
    let none = json!({ "replicas": 0, "readyReplicas": 0, "availableReplicas": 0, "updatedReplicas": 0 });
    let spec =
        |containers: Value| json!({ "replicas": 1, "template": { "spec": { "containers": containers } } });
    for (spec, change, expected) in [
        (spec(json!([probed])), json!({}), Ready),
        (spec(json!([probed, unprobed])), json!({}), Started),
        (spec(json!([unprobed])), json!({ "minReadySeconds": 10 }), Ready),
        (
            spec(json!([{ "name": "c", "startupProbe": {} }])),
            json!({}),
            Ready,
        ),
        (spec(json!([unprobed])), json!({ "replicas": 0 }), Ready),
    ] {
        let mut spec = spec;
        json_patch::merge(&mut spec, &change);
        let mut status = ready.clone();
        if spec["replicas"] == 0 {
            json_patch::merge(&mut status, &none);
        }
        let deployment =
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec, "status": status });
        assert_eq!(
            readiness(&deployment, false, NOW.parse().unwrap()),
            expected,
            "{spec}"
        );
    }
    let set =
        json!({ "minReadySeconds": 10, "replicas": 1, "template": { "spec": { "containers": [unprobed] } } });
    let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "spec": set, "status": ready });
    assert_eq!(readiness(&set, false, NOW.parse().unwrap()), Started);
    let service = json!({ "apiVersion": "v1", "kind": "Service", "spec": {} });
    assert_eq!(readiness(&service, false, NOW.parse().unwrap()), Ready);
}

#[test]
fn a_wait_is_over_when_the_object_is_ready_or_failed_for_good() {
    use Readiness::{Failed, Ready, Waiting};

    let waiting = |text: &str| Waiting(text.to_owned());
    let job = |fields: Value| {
        let mut job = json!({ "apiVersion": "batch/v1", "kind": "Job" });
        json_patch::merge(&mut job, &fields);
        job
    };
    let condition = |r#type: &str| json!([{ "type": r#type, "status": "True" }]);
    let running = job(json!({ "status": { "startTime": NOW } }));
    let failed = job(json!({ "status": { "conditions": condition("Failed") } }));
    let complete = job(json!({ "status": { "succeeded": 1, "conditions": condition("Complete") } }));
    let suspended = job(json!({ "spec": { "suspend": true } }));
    let failure = Failed("Job Failed. failed: 0/1".to_owned());
    let deployment =
        |paused: bool| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "paused": paused } });
    for (object, wait_for_jobs, expected) in [
        (&running, false, Ready),
        (&running, true, waiting("Job in progress")),
        (&job(json!({})), false, waiting("Job not started")),
        (&complete, true, Ready),
        (&failed, false, failure.clone()),
        (&failed, true, failure),
        (&suspended, false, Ready),
        (&suspended, true, waiting("Job in progress")),
        (&deployment(true), true, Ready),
        (&deployment(false), true, waiting("Replicas: 0/1")),
        (
            &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "deletionTimestamp": NOW } }),
            false,
            waiting("Resource scheduled for deletion"),
        ),
        (
            &json!({ "apiVersion": "apps/v1", "kind": "Deployment", "status": { "conditions": [{ "type": "Progressing", "reason": "ProgressDeadlineExceeded" }] } }),
            false,
            Failed("Progress deadline exceeded".to_owned()),
        ),
        // The tables of condition types are for the health only.
        (&conditions(&[["Active", "False", "", "m"]]), false, Ready),
        (
            &json!({ "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Newer" } }),
            false,
            waiting("unknown Pod phase Newer"),
        ),
    ] {
        assert_eq!(
            readiness(object, wait_for_jobs, NOW.parse().unwrap()),
            expected,
            "{object}"
        );
    }
}

/// JSON with the keys and words that the rules are about.
fn json() -> impl Strategy<Value = Value> {
    let words = select(vec![
        "True",
        "False",
        "Unknown",
        "Ready",
        "Failed",
        "Stalled",
        "Reconciling",
        "Progressing",
        "Available",
        "v1",
        "apps/v1",
        "batch/v1",
        "Pod",
        "Job",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "Service",
        "LoadBalancer",
        "Pending",
        "Running",
        "Unschedulable",
        "CrashLoopBackOff",
        "2026-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "{\"conditions\":[1]}",
        "cattle.io/v1",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 96, 8, |inner| {
        let keys = select(vec![
            "apiVersion",
            "kind",
            "metadata",
            "spec",
            "status",
            "conditions",
            "type",
            "reason",
            "message",
            "replicas",
            "readyReplicas",
            "updatedReplicas",
            "availableReplicas",
            "currentReplicas",
            "generation",
            "observedGeneration",
            "phase",
            "creationTimestamp",
            "deletionTimestamp",
            "updateStrategy",
            "rollingUpdate",
            "partition",
            "containerStatuses",
            "state",
            "waiting",
            "display",
            "summary",
            "removed",
            "created",
            "finalizers",
            "annotations",
            "cattle.io/status",
            "active",
            "completions",
            "suspend",
        ]);
        prop_oneof![
            collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            collection::vec((keys, inner), 0..8).prop_map(|fields| fields
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
    fn every_json_has_a_health(object in json(), status in json(), kind in 0_usize..16) {
        let kinds = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod", "Job", "PersistentVolumeClaim", "Service"];
        let groups = ["apps/v1", "v1", "batch/v1"];
        let mut typed = object.clone();
        if let Some(fields) = typed.as_object_mut() {
            fields.insert("kind".to_owned(), kinds[kind % kinds.len()].into());
            fields.insert("apiVersion".to_owned(), groups[kind % groups.len()].into());
            fields.insert("status".to_owned(), status);
        }
        for object in [&object, &typed] {
            let health = health(object);
            prop_assert!(!health.state.is_empty());
            for wait_for_jobs in [false, true] {
                readiness(object, wait_for_jobs, NOW.parse().unwrap());
            }
        }
    }
}

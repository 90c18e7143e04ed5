//! Which life cycles are rejected, which get warnings, and which are valid.

use helmops_api::HelmOp;
use helmops_model::reason::Reason;
use serde_json::{Value, json};

use crate::admit::{ValidHelmOp, warnings};

fn helmop(over: &Value) -> HelmOp {
    let mut object = json!({
        "metadata": { "name": "web", "namespace": "fleet-default" },
        "spec": {
            "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" },
            "targets": [{ "clusterSelector": {} }]
        }
    });
    json_patch::merge(&mut object["spec"], over);
    serde_json::from_str(&object.to_string()).unwrap()
}

/// Path, reason and message of each error.
fn errors(over: &Value) -> Vec<(String, Reason, String)> {
    let helmop = helmop(over);
    let errors = ValidHelmOp::try_from(&helmop).err().unwrap_or_default();
    let errors = errors.reported().iter();
    errors
        .map(|error| (error.path.clone(), error.reason, error.message()))
        .collect()
}

fn of_lifecycle(lifecycle: &Value) -> Vec<String> {
    let spec = json!({ "lifecycle": lifecycle });
    errors(&spec).into_iter().map(|(path, ..)| path).collect()
}

#[test]
fn valid_life_cycles_have_no_errors() {
    for lifecycle in [
        json!({}),
        json!(null),
        json!({ "install": {}, "upgrade": {}, "test": {}, "uninstall": {}, "wait": {}, "drift": {}, "suspend": true }),
        json!({
            "install": { "retries": 3, "retryInterval": "1m30s", "remediation": "uninstall", "crds": "Create",
                "timeout": "30m", "disableWait": true, "disableHooks": true, "disableSchemaValidation": true, "takeOwnership": true,
                "serverSideApply": "disabled", "force": true },
            "upgrade": { "retries": 1000, "retryInterval": "24h", "remediation": "rollback", "remediateLastFailure": false,
                "crds": "CreateReplace", "serverSideApply": "enabled", "force": false, "cleanupOnFail": true },
            "test": { "enable": true, "timeout": "1s", "filters": [{ "name": "web-test" }, { "name": "slow", "exclude": true }] },
            "rollback": { "timeout": "3m", "disableHooks": true, "force": true, "cleanupOnFail": true },
            "uninstall": { "keepHistory": true, "timeout": "2m", "disableHooks": true, "deletionPropagation": "orphan" },
            "wait": { "timeout": "10m", "expressions": [
                { "apiVersion": "v1", "kind": "Service", "current": "true" },
                { "apiVersion": "db.example.com/v1beta1", "kind": "Database", "failed": "status.phase == 'Failed'",
                  "inProgress": "status.phase == 'Creating'", "current": "status.phase == 'Ready'" }
            ] },
            "dependsOn": [{ "name": "db" }, { "name": "cache", "ready": "dep.status.ready && self.metadata.name == 'web'" },
                // The same name in another namespace, and objects.
                { "name": "web", "namespace": "other" }, { "name": "db", "namespace": "other" },
                { "apiVersion": "v1", "kind": "Secret", "name": "web" },
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "web", "ready": "data.a == 'b'" },
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "web", "namespace": "data" },
                { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "system:node" }],
            "drift": { "mode": "warn", "ignore": [{ "paths": ["/spec/replicas", "", "/metadata/annotations/a~1b"],
                "target": { "kind": "Deployment", "name": "web-.*", "labelSelector": "app=web,tier in (a, b)" } }] },
            "onDelete": "Keep"
        }),
    ] {
        assert_eq!(errors(&json!({ "lifecycle": lifecycle })), [], "{lifecycle}");
    }
}

#[test]
fn options_of_actions_that_contradict_are_rejected() {
    for (spec, path, message) in [
        (
            json!({ "lifecycle": { "upgrade": { "force": true, "serverSideApply": "enabled" } } }),
            "spec.lifecycle.upgrade.force",
            "force replaces them; remove one of them",
        ),
        (
            json!({ "lifecycle": { "rollback": { "force": true, "serverSideApply": "enabled" } } }),
            "spec.lifecycle.rollback.force",
            "force replaces them; remove one of them",
        ),
        (
            json!({ "helm": { "force": true }, "lifecycle": { "install": { "serverSideApply": "enabled" } } }),
            "spec.lifecycle.install.serverSideApply",
            "lifecycle.upgrade.force and lifecycle.rollback.force to false",
        ),
        (
            json!({
                "lifecycle": { "rollback": { "serverSideApply": "enabled" } },
                "targets": [{ "clusterSelector": {}, "helm": { "force": true } }]
            }),
            "spec.targets[0].helm.force",
            "helm.force and correctDrift.force replace objects",
        ),
        (
            json!({ "correctDrift": { "force": true }, "lifecycle": { "upgrade": { "serverSideApply": "enabled" } } }),
            "spec.lifecycle.upgrade.serverSideApply",
            "correctDrift.force",
        ),
        (
            json!({ "lifecycle": { "install": { "cleanupOnFail": true } } }),
            "spec.lifecycle.install.cleanupOnFail",
            "use install.remediation: uninstall",
        ),
        (
            json!({ "lifecycle": { "upgrade": { "serverSideApply": "true" } } }),
            "spec.lifecycle.upgrade.serverSideApply",
            "supported values: auto, enabled, disabled",
        ),
        (
            json!({ "lifecycle": { "uninstall": { "deletionPropagation": "Orphan" } } }),
            "spec.lifecycle.uninstall.deletionPropagation",
            "supported values: background, foreground, orphan",
        ),
        (
            json!({ "lifecycle": { "rollback": { "timeout": "5" } } }),
            "spec.lifecycle.rollback.timeout",
            "use a Go duration",
        ),
    ] {
        let found = errors(&spec);
        let [(at, _, text)] = &*found else {
            panic!("{spec}: {found:?}");
        };
        assert_eq!(at, path, "{spec}");
        assert!(text.contains(message), "{text}");
    }
    let own = json!({
        "install": { "serverSideApply": "enabled", "force": false },
        "upgrade": { "force": false },
        "rollback": { "serverSideApply": "enabled" },
    });
    assert_eq!(
        errors(&json!({ "helm": { "force": true }, "lifecycle": own })),
        []
    );
}

#[test]
fn a_target_may_replace_the_part_that_contradicts() {
    let spec = |target: Value| json!({ "targets": [target], "correctDrift": { "enabled": true } });
    assert_eq!(
        errors(&spec(
            json!({ "clusterSelector": {}, "correctDrift": {}, "lifecycle": { "drift": { "mode": "warn" } } })
        )),
        []
    );
    assert_eq!(
        errors(&spec(
            json!({ "clusterSelector": {}, "lifecycle": { "drift": { "mode": "enabled" } } })
        )),
        []
    );
}

/// The agent keeps more revisions then. The history of a target has no effect.
#[test]
fn a_history_that_is_too_short_for_a_rollback_gets_a_warning() {
    let spec = |max_history: i64, target: i64, remediation: &str| {
        json!({
            "helm": { "maxHistory": max_history },
            "targets": [{
                "clusterSelector": {},
                "helm": { "maxHistory": target },
                "lifecycle": { "upgrade": { "remediation": remediation } }
            }]
        })
    };
    let of_history = |spec: &Value| {
        assert_eq!(errors(spec), []);
        let mut warnings = warnings(&helmop(spec)).into_iter();
        warnings.find(|warning| warning.starts_with("spec.helm.maxHistory: "))
    };
    let expected = "spec.helm.maxHistory: 1 keeps no revision for the rollback of spec.targets[0].lifecycle.upgrade, so the agent keeps 3; \
                    set at least 2, or remove it";
    assert_eq!(of_history(&spec(1, 5, "rollback")).as_deref(), Some(expected));
    assert_eq!(of_history(&spec(5, 1, "rollback")), None);
    assert_eq!(of_history(&spec(1, 0, "uninstall")), None);
    let own =
        json!({ "helm": { "maxHistory": 1 }, "lifecycle": { "upgrade": { "remediation": "rollback" } } });
    assert!(of_history(&own).unwrap().contains("of spec.lifecycle.upgrade,"));
}

#[test]
fn each_part_of_a_contradiction_is_valid() {
    for over in [
        json!({ "helm": { "atomic": true } }),
        json!({ "lifecycle": { "install": {}, "upgrade": { "remediation": "rollback" }, "wait": {} } }),
        json!({ "helm": { "maxHistory": 1 } }),
        json!({ "lifecycle": { "onDelete": "Uninstall", "drift": { "mode": "warn" } } }),
        json!({ "keepResources": true, "correctDrift": { "enabled": true } }),
    ] {
        assert_eq!(errors(&over), [], "{over}");
    }
}

#[test]
fn the_same_expression_in_many_targets_counts_once() {
    let ready = format!("{}true", "dep.a == 1 || ".repeat(140));
    let target =
        json!({ "clusterSelector": {}, "lifecycle": { "dependsOn": [{ "name": "db", "ready": ready }] } });
    assert_eq!(errors(&json!({ "targets": vec![target; 500] })), []);
}

#[test]
fn settings_without_effect_get_a_warning() {
    for (lifecycle, expected) in [
        (
            json!({ "upgrade": { "remediateLastFailure": true } }),
            "upgrade.remediateLastFailure: has no effect without remediation",
        ),
        (
            json!({ "install": { "remediation": "none", "remediateLastFailure": false } }),
            "install.remediateLastFailure: has no effect",
        ),
        (
            json!({ "upgrade": { "remediation": "rollback", "remediateLastFailure": false } }),
            "upgrade.remediation: never happens",
        ),
        (
            json!({ "install": { "retryInterval": "1m" } }),
            "install.retryInterval: has no effect without retries",
        ),
        (
            json!({ "rollback": { "timeout": "7h" } }),
            "rollback.timeout: 7h is longer than the agent lets Helm run hooks: 6h",
        ),
        (
            json!({ "test": { "ignoreFailures": true } }),
            "test: has no effect, because no tests run; set test.enable",
        ),
        (
            json!({ "test": { "filters": [{ "name": "a" }] } }),
            "test: has no effect",
        ),
        (
            json!({ "drift": { "mode": "disabled", "ignore": [{ "paths": [""] }] } }),
            "drift.ignore: has no effect",
        ),
        (
            json!({ "requests": { "force": "1" } }),
            "requests: internal to Bundles and ignored in a HelmOp; use the annotations",
        ),
    ] {
        for (spec, path) in [
            (json!({ "lifecycle": lifecycle }), "spec.lifecycle."),
            (
                json!({ "targets": [{ "clusterSelector": {}, "lifecycle": lifecycle }] }),
                "spec.targets[0].lifecycle.",
            ),
        ] {
            assert_eq!(errors(&spec), [], "{spec}");
            let found = warnings(&helmop(&spec));
            let start = format!("{path}{expected}");
            assert!(
                found.iter().any(|warning| warning.starts_with(&start)),
                "{start}: {found:?}"
            );
        }
    }
    let usual = json!({ "lifecycle": { "upgrade": { "retries": 1, "retryInterval": "1m", "remediation": "rollback", "remediateLastFailure": false },
        "test": { "enable": true, "ignoreFailures": true } } });
    assert_eq!(warnings(&helmop(&usual)), Vec::<String>::new());
}

#[test]
fn several_errors_are_reported_together() {
    let found = of_lifecycle(&json!({
        "install": { "retries": -1, "remediation": "rollback" },
        "onDelete": "x",
        "wait": { "timeout": "x" }
    }));
    assert_eq!(
        found,
        [
            "spec.lifecycle.install.retries",
            "spec.lifecycle.install.remediation",
            "spec.lifecycle.wait.timeout",
            "spec.lifecycle.onDelete"
        ]
    );
}

//! Which life cycles are rejected, which get warnings, and which are valid.

use helmops_api::HelmOp;
use serde_json::{Value, json};

use crate::{
    admit::{ValidHelmOp, warnings},
    reason::Reason,
};

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

#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn assert_one(over: Value, path: &str, reason: Reason, words: &[&str]) {
    let errors = errors(&over);
    let [(found, of, message)] = &*errors else {
        panic!("{over}: expected one error: {errors:?}")
    };
    assert_eq!((&**found, *of), (path, reason), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is missing in {message}");
    }
}

#[test]
fn valid_life_cycles_have_no_errors() {
    for lifecycle in [
        json!({}),
        json!(null),
        json!({ "install": {}, "upgrade": {}, "test": {}, "uninstall": {}, "wait": {}, "drift": {}, "suspend": true }),
        json!({
            "install": { "retries": 3, "retryInterval": "1m30s", "remediation": "uninstall", "crds": "Create" },
            "upgrade": { "retries": 1000, "retryInterval": "24h", "remediation": "rollback", "remediateLastFailure": false,
                "crds": "CreateReplace" },
            "test": { "enable": true, "timeout": "1s", "filters": [{ "name": "web-test" }, { "name": "slow", "exclude": true }] },
            "uninstall": { "keepHistory": true, "timeout": "2m", "disableHooks": true },
            "wait": { "timeout": "10m", "expressions": [
                { "apiVersion": "v1", "kind": "Service", "current": "true" },
                { "apiVersion": "db.example.com/v1beta1", "kind": "Database", "failed": "status.phase == 'Failed'",
                  "inProgress": "status.phase == 'Creating'", "current": "status.phase == 'Ready'" }
            ] },
            "dependsOn": [{ "name": "db" }, { "name": "cache", "ready": "dep.status.ready && self.metadata.name == 'web'" }],
            "drift": { "mode": "warn", "ignore": [{ "paths": ["/spec/replicas", "", "/metadata/annotations/a~1b"],
                "target": { "kind": "Deployment", "name": "web-.*", "labelSelector": "app=web,tier in (a, b)" } }] },
            "onDelete": "Keep"
        }),
    ] {
        assert_eq!(errors(&json!({ "lifecycle": lifecycle })), [], "{lifecycle}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn values_outside_of_their_list_or_range_are_errors() {
    for (lifecycle, path, words) in [
        (
            json!({ "install": { "remediation": "rollback" } }),
            "install.remediation",
            "no earlier revision to roll back to; use uninstall",
        ),
        (
            json!({ "install": { "remediation": "Uninstall" } }),
            "install.remediation",
            "supported values: none, uninstall",
        ),
        (
            json!({ "upgrade": { "remediation": "undo" } }),
            "upgrade.remediation",
            "supported values: none, rollback, uninstall",
        ),
        (
            json!({ "upgrade": { "crds": "skip" } }),
            "upgrade.crds",
            "supported values: Skip, Create, CreateReplace",
        ),
        (
            json!({ "install": { "retries": -1 } }),
            "install.retries",
            "\"-1\": must be from 0 to 1000",
        ),
        (
            json!({ "upgrade": { "retries": 1001 } }),
            "upgrade.retries",
            "must be from 0 to 1000",
        ),
        (
            json!({ "upgrade": { "retries": 1, "retryInterval": "0s" } }),
            "upgrade.retryInterval",
            "must be at least 1s",
        ),
        (
            json!({ "upgrade": { "retries": 1, "retryInterval": "1d" } }),
            "upgrade.retryInterval",
            "unknown unit",
        ),
        (
            json!({ "install": { "retryInterval": "" } }),
            "install.retryInterval",
            "not a Go duration",
        ),
        (
            json!({ "test": { "timeout": "-1m" } }),
            "test.timeout",
            "must not be negative",
        ),
        (
            json!({ "uninstall": { "timeout": "999ms" } }),
            "uninstall.timeout",
            "must be at least 1s; use a Go duration such as 30s",
        ),
        (
            json!({ "wait": { "timeout": "24h1s" } }),
            "wait.timeout",
            "must be at most 24h",
        ),
        (
            json!({ "drift": { "mode": "on" } }),
            "drift.mode",
            "supported values: enabled, warn, disabled",
        ),
        (
            json!({ "onDelete": "keep" }),
            "onDelete",
            "supported values: Uninstall, Keep",
        ),
        (
            json!({ "test": { "filters": [{}] } }),
            "test.filters[0].name",
            "name the test",
        ),
        (
            json!({ "test": { "filters": [{ "name": "a" }, { "name": "a", "exclude": true }] } }),
            "test.filters[1].name",
            "included and excluded",
        ),
        (
            json!({ "test": { "filters": [{ "name": "a" }, { "name": "a" }] } }),
            "test.filters[1].name",
            "remove one of them",
        ),
        (
            json!({ "wait": { "disable": true, "timeout": "1m" } }),
            "wait.timeout",
            "no effect with wait.disable",
        ),
        (
            json!({ "wait": { "disable": true, "expressions": [{ "apiVersion": "v1", "kind": "A", "current": "true" }] } }),
            "wait.expressions",
            "no effect with wait.disable",
        ),
        (
            json!({ "dependsOn": [{ "ready": "dep.a" }] }),
            "dependsOn[0].name",
            "name the HelmOp or Bundle",
        ),
        (
            json!({ "dependsOn": [{ "name": "web" }] }),
            "dependsOn[0].name",
            "depends on itself",
        ),
        (
            json!({ "dependsOn": [{ "name": "a" }, { "name": "a" }] }),
            "dependsOn[1].name",
            "same name",
        ),
        (
            json!({ "drift": { "ignore": [{}] } }),
            "drift.ignore[0].paths",
            "list the fields to ignore",
        ),
        (
            json!({ "drift": { "ignore": [{ "paths": ["spec"] }] } }),
            "drift.ignore[0].paths[0]",
            "starts with a slash",
        ),
        (
            json!({ "drift": { "ignore": [{ "paths": ["/a~2"] }] } }),
            "drift.ignore[0].paths[0]",
            "write ~0 for ~",
        ),
        (
            json!({ "drift": { "ignore": [{ "paths": ["/a~"] }] } }),
            "drift.ignore[0].paths[0]",
            "write ~0 for ~",
        ),
        (
            json!({ "drift": { "ignore": [{ "paths": ["/a"], "target": { "name": "web(" } }] } }),
            "drift.ignore[0].target.name",
            "not a regular expression: unclosed group",
        ),
        (
            json!({ "drift": { "ignore": [{ "paths": ["/a"], "target": { "namespace": "(a{1000}){1000}" } }] } }),
            "drift.ignore[0].target.namespace",
            "not a regular expression",
        ),
    ] {
        assert_one(
            json!({ "lifecycle": lifecycle }),
            &format!("spec.lifecycle.{path}"),
            Reason::InvalidLifecycle,
            &[words],
        );
        assert_one(
            json!({ "targets": [{ "clusterSelector": {} }, { "clusterSelector": {}, "lifecycle": lifecycle }] }),
            &format!("spec.targets[1].lifecycle.{path}"),
            Reason::InvalidLifecycle,
            &[words],
        );
    }
}

#[test]
fn expressions_have_a_kind_and_are_valid() {
    let with = |expression: Value| json!({ "lifecycle": { "wait": { "expressions": [expression] } } });
    let path = |field: &str| format!("spec.lifecycle.wait.expressions[0].{field}");
    for (expression, field, reason, words) in [
        (
            json!({ "kind": "A", "current": "true" }),
            "apiVersion",
            Reason::InvalidLifecycle,
            "such as apps/v1 or v1",
        ),
        (
            json!({ "apiVersion": "a/b/c", "kind": "A", "current": "true" }),
            "apiVersion",
            Reason::InvalidLifecycle,
            "group/version",
        ),
        (
            json!({ "apiVersion": "/v1", "kind": "A", "current": "true" }),
            "apiVersion",
            Reason::InvalidLifecycle,
            "group/version",
        ),
        (
            json!({ "apiVersion": "V1", "kind": "A", "current": "true" }),
            "apiVersion",
            Reason::InvalidLifecycle,
            "group/version",
        ),
        (
            json!({ "apiVersion": "v1", "current": "true" }),
            "kind",
            Reason::InvalidLifecycle,
            "such as Deployment",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "pods", "current": "true" }),
            "kind",
            Reason::InvalidLifecycle,
            "not a kind",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "A" }),
            "current",
            Reason::InvalidExpression,
            "status.phase == 'Ready'",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "A", "current": "status.a =" }),
            "current",
            Reason::InvalidExpression,
            "not a CEL expression",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "A", "current": "true", "failed": "f(1)" }),
            "failed",
            Reason::InvalidExpression,
            "\"f\" is not available",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "A", "current": "true", "inProgress": "(" }),
            "inProgress",
            Reason::InvalidExpression,
            "not a CEL expression",
        ),
    ] {
        assert_one(with(expression), &path(field), reason, &[words]);
    }
    let twice = json!([
        { "apiVersion": "apps/v1", "kind": "A", "current": "true" },
        { "apiVersion": "apps/v1beta1", "kind": "A", "current": "true" },
        { "apiVersion": "v1", "kind": "A", "current": "true" }
    ]);
    assert_one(
        json!({ "lifecycle": { "wait": { "expressions": twice } } }),
        "spec.lifecycle.wait.expressions[1].kind",
        Reason::InvalidLifecycle,
        &["an earlier entry is for this kind"],
    );
}

#[test]
fn dependencies_are_compared_by_dep_and_self_only() {
    for (ready, words) in [
        (
            "status.ready",
            "unknown variable \"status\"; available are dep, self",
        ),
        ("dep.status.ready &&", "not a CEL expression"),
    ] {
        assert_one(
            json!({ "lifecycle": { "dependsOn": [{ "name": "db", "ready": ready }] } }),
            "spec.lifecycle.dependsOn[0].ready",
            Reason::InvalidExpression,
            &[words],
        );
    }
    assert_one(
        json!({ "lifecycle": { "dependsOn": [{ "name": "Db" }] } }),
        "spec.lifecycle.dependsOn[0].name",
        Reason::InvalidName,
        &["not a DNS name"],
    );
}

#[test]
fn selectors_of_drift_are_those_of_kubectl() {
    for field in ["labelSelector", "annotationSelector"] {
        assert_one(
            json!({ "lifecycle": { "drift": { "ignore": [{ "paths": [""], "target": { field: "a in b" } }] } } }),
            &format!("spec.lifecycle.drift.ignore[0].target.{field}"),
            Reason::InvalidSelector,
            &["\"a in b\" is not a key"],
        );
    }
}

#[test]
fn contradictions_are_errors_wherever_their_parts_are() {
    let rollback = json!({ "upgrade": { "remediation": "rollback" } });
    for (one, other, field, other_field, words) in [
        (
            json!({ "helm": { "atomic": true } }),
            json!({ "lifecycle": { "install": {} } }),
            "helm.atomic",
            "lifecycle.install",
            "remove helm.atomic",
        ),
        (
            json!({ "helm": { "atomic": true } }),
            json!({ "lifecycle": { "upgrade": {} } }),
            "helm.atomic",
            "lifecycle.upgrade",
            "remove helm.atomic",
        ),
        (
            json!({ "helm": { "atomic": true } }),
            json!({ "lifecycle": { "wait": {} } }),
            "helm.atomic",
            "lifecycle.wait",
            "remove helm.atomic",
        ),
        (
            json!({ "lifecycle": rollback }),
            json!({ "helm": { "maxHistory": 1 } }),
            "lifecycle.upgrade.remediation",
            "helm.maxHistory",
            "set at least 2",
        ),
        (
            json!({ "lifecycle": { "onDelete": "Uninstall" } }),
            json!({ "keepResources": true }),
            "lifecycle.onDelete",
            "keepResources",
            "lifecycle.onDelete: Keep",
        ),
        (
            json!({ "lifecycle": { "drift": { "mode": "warn" } } }),
            json!({ "correctDrift": { "enabled": true } }),
            "lifecycle.drift.mode",
            "correctDrift.enabled",
            "remove correctDrift",
        ),
        (
            json!({ "lifecycle": { "drift": { "mode": "disabled" } } }),
            json!({ "correctDrift": { "enabled": true } }),
            "lifecycle.drift.mode",
            "correctDrift.enabled",
            "remove correctDrift",
        ),
    ] {
        let merged = |a: &Value, b: &Value| {
            let mut merged = a.clone();
            json_patch::merge(&mut merged, b);
            merged
        };
        let reason = Reason::InvalidLifecycle;
        assert_eq!(errors(&one), [], "{one}");
        assert_eq!(errors(&other), [], "{other}");
        // Both in the HelmOp: one error, also with a target that has nothing of it.
        assert_one(merged(&one, &other), &format!("spec.{field}"), reason, &[words]);
        // One in the HelmOp and the other in a target, and the other way round.
        let selects = json!({ "clusterSelector": {} });
        let with_target =
            |spec: &Value, target: &Value| merged(spec, &json!({ "targets": [merged(&selects, target)] }));
        assert_one(
            with_target(&one, &other),
            &format!("spec.targets[0].{other_field}"),
            reason,
            &[words],
        );
        assert_one(
            with_target(&other, &one),
            &format!("spec.targets[0].{field}"),
            reason,
            &[words],
        );
        // Both in the target.
        assert_one(
            with_target(&json!({}), &merged(&one, &other)),
            &format!("spec.targets[0].{field}"),
            reason,
            &[words],
        );
    }
}

#[test]
fn a_target_may_replace_the_part_that_contradicts() {
    let spec = |target: Value| {
        json!({
            "helm": { "maxHistory": 1 },
            "targets": [target],
            "correctDrift": { "enabled": true }
        })
    };
    assert_eq!(
        errors(&spec(
            json!({ "clusterSelector": {}, "helm": { "maxHistory": 5 }, "lifecycle": { "upgrade": { "remediation": "rollback" } } })
        )),
        []
    );
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
fn the_expressions_of_all_targets_are_limited_together() {
    let target = |text: String| json!({ "clusterSelector": {}, "lifecycle": { "dependsOn": [{ "name": "db", "ready": text }] } });
    let long = "dep.a == 1 || ".repeat(140);
    let same: Vec<_> = (0..500).map(|_| target(format!("{long}true"))).collect();
    assert_eq!(errors(&json!({ "targets": same })), []);
    let different: Vec<_> = (0..40)
        .map(|index| target(format!("{long}dep.b == {index}")))
        .collect();
    assert_one(
        json!({ "targets": different }),
        "spec.lifecycle",
        Reason::LimitExceeded,
        &["more than 65536 bytes of different expressions"],
    );
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

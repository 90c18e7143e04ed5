//! `spec.lifecycle`.

use serde_json::{Value, json};

use crate::Table;

/// Adds all of them.
pub fn add(table: &mut Table) {
    for (group, add) in [
        ("lists and ranges", lists_and_ranges as fn(&mut Table)),
        ("expressions", expressions),
        ("dependencies", dependencies),
        ("selectors of drift", drift_selectors),
        ("contradictions", contradictions),
        ("long expressions", long_expressions),
    ] {
        table.group(group);
        add(table);
    }
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn lists_and_ranges(table: &mut Table) {
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
            json!({ "upgrade": { "timeout": "5" } }),
            "upgrade.timeout",
            "use a Go duration such as 30s",
        ),
        (
            json!({ "rollback": { "serverSideApply": "true" } }),
            "rollback.serverSideApply",
            "supported values: auto, enabled, disabled",
        ),
        (
            json!({ "rollback": { "serverSideApply": "enabled", "force": true } }),
            "rollback.force",
            "force replaces them; remove one of them",
        ),
        (
            json!({ "install": { "cleanupOnFail": true } }),
            "install.cleanupOnFail",
            "use install.remediation: uninstall",
        ),
        (
            json!({ "uninstall": { "deletionPropagation": "Orphan" } }),
            "uninstall.deletionPropagation",
            "supported values: background, foreground, orphan",
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
            json!({ "dependsOn": [{ "name": "web", "namespace": "fleet-default" }] }),
            "dependsOn[0].name",
            "depends on itself",
        ),
        (
            json!({ "dependsOn": [{ "name": "a", "namespace": "fleet-default" }, { "name": "a" }] }),
            "dependsOn[1].name",
            "same name",
        ),
        (
            json!({ "dependsOn": [
                { "name": "a", "apiVersion": "v1", "kind": "Secret", "ready": "true" },
                { "name": "a", "apiVersion": "v1", "kind": "Secret" },
            ] }),
            "dependsOn[1].name",
            "an earlier entry is about the same object",
        ),
        (
            json!({ "dependsOn": [{ "apiVersion": "v1", "kind": "Secret" }] }),
            "dependsOn[0].name",
            "name the object",
        ),
        (
            json!({ "dependsOn": [{ "name": "a", "kind": "Secret" }] }),
            "dependsOn[0].apiVersion",
            "give the API version",
        ),
        (
            json!({ "dependsOn": [{ "name": "a", "apiVersion": "v1" }] }),
            "dependsOn[0].kind",
            "give the kind",
        ),
        (
            json!({ "dependsOn": [{ "name": "a", "apiVersion": "a/b/c", "kind": "Secret" }] }),
            "dependsOn[0].apiVersion",
            "not an API version",
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
        table.over(
            json!({ "lifecycle": lifecycle }),
            &format!("spec.lifecycle.{path}"),
            "InvalidLifecycle",
            &[words],
        );
        table.over(
            json!({ "targets": [{ "clusterSelector": {} }, { "clusterSelector": {}, "lifecycle": lifecycle }] }),
            &format!("spec.targets[1].lifecycle.{path}"),
            "InvalidLifecycle",
            &[words],
        );
    }
}

fn expressions(table: &mut Table) {
    let with = |expression: Value| json!({ "lifecycle": { "wait": { "expressions": [expression] } } });
    let path = |field: &str| format!("spec.lifecycle.wait.expressions[0].{field}");
    for (expression, field, reason, words) in [
        (
            json!({ "kind": "A", "current": "true" }),
            "apiVersion",
            "InvalidLifecycle",
            "such as apps/v1 or v1",
        ),
        (
            json!({ "apiVersion": "a/b/c", "kind": "A", "current": "true" }),
            "apiVersion",
            "InvalidLifecycle",
            "group/version",
        ),
        (
            json!({ "apiVersion": "/v1", "kind": "A", "current": "true" }),
            "apiVersion",
            "InvalidLifecycle",
            "group/version",
        ),
        (
            json!({ "apiVersion": "V1", "kind": "A", "current": "true" }),
            "apiVersion",
            "InvalidLifecycle",
            "group/version",
        ),
        (
            json!({ "apiVersion": "v1", "current": "true" }),
            "kind",
            "InvalidLifecycle",
            "such as Deployment",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "pods", "current": "true" }),
            "kind",
            "InvalidLifecycle",
            "not a kind",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "A" }),
            "current",
            "InvalidExpression",
            "status.phase == 'Ready'",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "A", "current": "status.a =" }),
            "current",
            "InvalidExpression",
            "not a CEL expression",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "A", "current": "true", "failed": "f(1)" }),
            "failed",
            "InvalidExpression",
            "\"f\" is not available",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "A", "current": "true", "inProgress": "(" }),
            "inProgress",
            "InvalidExpression",
            "not a CEL expression",
        ),
    ] {
        table.over(with(expression), &path(field), reason, &[words]);
    }
    let twice = json!([
        { "apiVersion": "apps/v1", "kind": "A", "current": "true" },
        { "apiVersion": "apps/v1beta1", "kind": "A", "current": "true" },
        { "apiVersion": "v1", "kind": "A", "current": "true" }
    ]);
    table.over(
        json!({ "lifecycle": { "wait": { "expressions": twice } } }),
        "spec.lifecycle.wait.expressions[1].kind",
        "InvalidLifecycle",
        &["an earlier entry is for this kind"],
    );
}

fn dependencies(table: &mut Table) {
    for (ready, words) in [
        (
            "status.ready",
            "unknown variable \"status\"; available are dep, self",
        ),
        ("dep.status.ready &&", "not a CEL expression"),
    ] {
        table.over(
            json!({ "lifecycle": { "dependsOn": [{ "name": "db", "ready": ready }] } }),
            "spec.lifecycle.dependsOn[0].ready",
            "InvalidExpression",
            &[words],
        );
    }
    for (namespace, words) in [
        ("Shop".to_owned(), "not a DNS label: lower-case letters"),
        ("flux.system".to_owned(), "not a DNS label: lower-case letters"),
    ] {
        table.over(
            json!({ "lifecycle": { "storageNamespace": namespace } }),
            "spec.lifecycle.storageNamespace",
            "InvalidName",
            &[words],
        );
    }
    table.over(
        json!({ "lifecycle": { "dependsOn": [{ "name": "Db" }] } }),
        "spec.lifecycle.dependsOn[0].name",
        "InvalidName",
        &["not a DNS name"],
    );
    let secret = |over: Value| {
        let mut entry = json!({ "apiVersion": "v1", "kind": "Secret", "name": "tls" });
        json_patch::merge(&mut entry, &over);
        json!({ "lifecycle": { "dependsOn": [entry] } })
    };
    for (over, field, reason, words) in [
        (
            json!({ "name": "a/b" }),
            "name",
            "InvalidName",
            "not a name of an object",
        ),
        (
            json!({ "namespace": "a.b" }),
            "namespace",
            "InvalidName",
            "not a DNS label",
        ),
        (
            json!({ "ready": "self.data.a == 'b'" }),
            "ready",
            "InvalidExpression",
            "unknown variable \"self\"; available are the fields of the object",
        ),
        (
            json!({ "ready": "data.a ==" }),
            "ready",
            "InvalidExpression",
            "not a CEL expression",
        ),
    ] {
        let path = format!("spec.lifecycle.dependsOn[0].{field}");
        table.over(secret(over), &path, reason, &[words]);
    }
}

fn drift_selectors(table: &mut Table) {
    for field in ["labelSelector", "annotationSelector"] {
        table.over(
            json!({ "lifecycle": { "drift": { "ignore": [{ "paths": [""], "target": { field: "a in b" } }] } } }),
            &format!("spec.lifecycle.drift.ignore[0].target.{field}"),
            "InvalidSelector",
            &["\"a in b\" is not a key"],
        );
    }
}

fn contradictions(table: &mut Table) {
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
        let reason = "InvalidLifecycle";
        // Both in the HelmOp: one error, also with a target that has nothing of it.
        table.over(merged(&one, &other), &format!("spec.{field}"), reason, &[words]);
        // One in the HelmOp and the other in a target, and the other way round.
        let selects = json!({ "clusterSelector": {} });
        let with_target =
            |spec: &Value, target: &Value| merged(spec, &json!({ "targets": [merged(&selects, target)] }));
        table.over(
            with_target(&one, &other),
            &format!("spec.targets[0].{other_field}"),
            reason,
            &[words],
        );
        table.over(
            with_target(&other, &one),
            &format!("spec.targets[0].{field}"),
            reason,
            &[words],
        );
        // Both in the target.
        table.over(
            with_target(&json!({}), &merged(&one, &other)),
            &format!("spec.targets[0].{field}"),
            reason,
            &[words],
        );
    }
}

fn long_expressions(table: &mut Table) {
    let target = |text: String| json!({ "clusterSelector": {}, "lifecycle": { "dependsOn": [{ "name": "db", "ready": text }] } });
    let long = "dep.a == 1 || ".repeat(140);
    let different: Vec<_> = (0..40)
        .map(|index| target(format!("{long}dep.b == {index}")))
        .collect();
    table.over(
        json!({ "targets": different }),
        "spec.lifecycle",
        "LimitExceeded",
        &["more than 65536 bytes of different expressions"],
    );
}

//! Which HelmOps are rejected, which get warnings, and which are valid.

use helmops_api::{HelmOp, Policy};
use helmops_mistakes::{Mistake, valid_spec, with_helm};
use helmops_model::{reason::Reason, validation::FieldErrors};
use serde_json::{Value, json};

use super::{ValidHelmOp, warnings};
use crate::policy::{Decision, Policies};

fn helmop(spec: &Value) -> HelmOp {
    let object = json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": spec });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn errors(spec: &Value) -> Vec<String> {
    let helmop = helmop(spec);
    match ValidHelmOp::try_from(&helmop) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.reported().iter().map(ToString::to_string).collect(),
    }
}

fn archive_with_target(helm: &Value) -> Value {
    let mut spec = with_helm(json!({ "chart": "https://h/c.tgz" }));
    spec["targets"] = json!([{ "clusterSelector": {}, "helm": helm }]);
    spec
}

/// A HelmOp of the table, and its Policies.
fn mistaken(mistake: &Mistake) -> (HelmOp, Policies) {
    let helmop = serde_json::from_str(&mistake.object.to_string()).unwrap();
    let policies: Vec<Policy> = mistake
        .policies
        .iter()
        .map(|policy| serde_json::from_str(&policy.to_string()).unwrap())
        .collect();
    (helmop, Policies::of(&policies))
}

/// Asserts that these are the errors that are expected.
fn assert_expected(errors: &FieldErrors, mistake: &Mistake) {
    let found = errors
        .reported()
        .iter()
        .map(|error| (error.path.as_str(), error.reason.as_str()));
    let found: Vec<_> = found.collect();
    let expected: Vec<_> = mistake
        .errors
        .iter()
        .map(|error| (error.path.as_str(), error.reason))
        .collect();
    if mistake.has_more {
        assert!(
            expected.iter().all(|error| found.contains(error)),
            "{expected:?}: {errors}"
        );
    } else {
        assert_eq!(found, expected, "{}: {errors}", mistake.group);
    }
    for expected in &mistake.errors {
        let error = errors.reported().iter().find(|error| error.path == expected.path);
        let text = error.unwrap().to_string();
        let all: Vec<_> = errors.reported().iter().map(ToString::to_string).collect();
        let all = all.join("\n");
        for word in &expected.words {
            assert!(all.contains(word), "{word:?} is missing in {text}");
        }
        assert!(!text.contains("geheim"), "{text}");
    }
}

#[test]
fn every_mistake_of_the_table_is_rejected() {
    let mistakes = helmops_mistakes::all();
    assert!(mistakes.len() > 300, "{}", mistakes.len());
    for mistake in &mistakes {
        let (helmop, policies) = mistaken(mistake);
        assert_expected(&policies.review(&helmop, || None).errors, mistake);
        let accepted = policies.accept(&policies.apply_defaults(&helmop)).map(|_| ());
        match accepted {
            Ok(()) => assert!(mistake.is_for_admission, "{}: {}", mistake.group, mistake.object),
            Err(errors) => assert_expected(&errors, mistake),
        }
    }
}

#[test]
fn what_policies_allow_has_no_errors() {
    let allowed = helmops_mistakes::allowed();
    assert!(allowed.len() > 10);
    for case in &allowed {
        let (helmop, policies) = mistaken(case);
        assert_expected(&policies.review(&helmop, || None).errors, case);
    }
}

#[test]
fn valid_specs_have_no_errors() {
    for spec in [
        valid_spec(json!({})),
        with_helm(json!({ "repo": "http://u:p@10.0.0.1:8080/charts?x=y", "chart": "web", "version": "" })),
        with_helm(json!({ "repo": "oci://registry.example.com/charts/web", "version": "~1.2 || ^2" })),
        with_helm(json!({ "repo": "OCI://registry.example.com/charts/web" })),
        with_helm(json!({ "chart": "https://charts.example.com/web-1.2.3.TGZ" })),
        with_helm(json!({ "repo": "oci://h/c:1.2.3", "version": "1.x" })),
        archive_with_target(&json!({ "values": {} })),
        archive_with_target(&json!({ "repo": "https://h", "chart": "c", "version": "1.x" })),
        valid_spec(
            json!({ "pollingInterval": "1h30m", "helmSecretName": "access.v1", "labels": { "a/b": "" } }),
        ),
        valid_spec(json!({ "targets": [] })),
        // It has another state before it is deployed.
        valid_spec(
            json!({ "dependsOn": [{ "name": "web", "acceptedStates": ["Ready", "ErrApplied"] }, { "name": "db" }] }),
        ),
        valid_spec(
            json!({ "targets": [{ "helm": { "version": "2.x" } }, { "helm": { "repo": "oci://r/c" } }, { "helm": {} }] }),
        ),
        valid_spec(
            json!({ "rolloutStrategy": { "maxUnavailable": "-5%", "autoPartitionSize": 0, "maxUnavailablePartitions": "3" } }),
        ),
        valid_spec(
            json!({ "downstreamResources": [{ "kind": "configmap", "name": "a" }, { "kind": "SECRET", "name": "b" }] }),
        ),
    ] {
        assert_eq!(errors(&spec), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn at_most_twenty_errors_are_reported() {
    let spec = json!({ "helm": { "version": "foo" }, "pollingInterval": "1d", "labels": { "a": "b c" } });
    assert_eq!(errors(&spec).len(), 5);
    let labels: serde_json::Map<String, Value> =
        (0..30).map(|n| (format!("l{n:02}"), json!("b c"))).collect();
    let helmop = helmop(&valid_spec(json!({ "labels": labels })));
    let errors = ValidHelmOp::try_from(&helmop).unwrap_err();
    assert_eq!((errors.reported().len(), errors.omitted()), (20, 10));
    assert!(errors.to_string().ends_with("; and 10 more"));
}

#[test]
fn questionable_settings_get_one_warning() {
    for (over, word) in [
        (json!({ "contentsId": "x" }), "spec.contentsId: internal"),
        (json!({ "valuesHash": "x" }), "spec.valuesHash: internal"),
        (json!({ "helmOpOptions": {} }), "spec.helmOpOptions: internal"),
        (json!({ "resources": [{}] }), "spec.resources: internal"),
        (
            json!({ "helm": { "repo": "https://u:geheim@h" } }),
            "spec.helm.repo: the URL contains credentials",
        ),
        (
            json!({ "targets": [{ "name": "a", "clusterSelector": {} }, { "name": "a", "clusterName": "c" }] }),
            "earlier target",
        ),
        (json!({ "targets": [{ "name": "a" }] }), "matches no cluster"),
        (json!({ "targets": [] }), "ClusterGroup \"default\""),
        (
            json!({ "pollingInterval": "15m" }),
            "15m has no effect, because version \"1.2.3\" is exact",
        ),
        (
            json!({ "helm": { "version": "1.x" } }),
            "resolved once and then kept",
        ),
        (
            json!({ "helm": { "version": "1.x" }, "pollingInterval": "5s" }),
            "5s is short",
        ),
        (
            json!({ "helm": { "repo": "oci://h/web:latest", "chart": "", "version": "" } }),
            "oci://h/web:latest names a tag that may be pushed again, and is resolved once",
        ),
        (
            json!({ "helm": { "repo": "", "chart": "https://h/web-1.tgz", "version": "" }, "onDigestChange": "Hold" }),
            "Hold has no effect, because spec.helm names an archive",
        ),
        (json!({ "insecureSkipTLSVerify": true }), "not verified"),
        (
            json!({ "helmSecretName": "s", "helm": { "repo": "http://h" } }),
            "plain http",
        ),
        (
            json!({ "helm": { "version": "1.2-1.4.5" }, "pollingInterval": "15m" }),
            "\"1.2 - 1.4.5\"",
        ),
        (
            json!({ "targets": [{ "clusterSelector": {}, "helm": { "repo": "oci://h/c", "chart": "c" } }] }),
            "ignored",
        ),
        (json!({ "helm": { "chart": "grafana/loki" } }), "use \"loki\""),
        (
            json!({ "helm": { "timeoutSeconds": -1 } }),
            "timeoutSeconds: -1 is negative",
        ),
        (
            json!({ "helm": { "timeoutSeconds": 21_601 } }),
            "spec.helm.timeoutSeconds: 21601 is longer than the agent lets Helm run hooks: 21600 seconds, or 6 hours",
        ),
        (
            json!({ "targets": [{ "clusterSelector": {}, "helm": { "timeoutSeconds": 21_601 } }] }),
            "spec.targets[0].helm.timeoutSeconds: 21601 is longer",
        ),
        (
            json!({ "helm": { "maxHistory": -3 } }),
            "maxHistory: -3 is negative",
        ),
        (
            json!({ "rolloutStrategy": { "maxUnavailable": "150%" } }),
            "spec.rolloutStrategy.maxUnavailable: 150% counts as 100%",
        ),
        (
            json!({ "rolloutStrategy": { "partitions": [{ "maxUnavailable": "101%" }] } }),
            "partitions[0].maxUnavailable: 101% counts as 100%",
        ),
        (json!({ "dependsOn": [{}] }), "spec.dependsOn[0]: ignored"),
        (
            json!({ "yaml": { "overlays": ["x"] } }),
            "spec.yaml: has no effect",
        ),
        (
            json!({ "targets": [{ "clusterSelector": {}, "helm": { "valuesFiles": ["x"] } }] }),
            "spec.targets[0].helm.valuesFiles: has no effect",
        ),
    ] {
        let spec = valid_spec(over);
        assert_eq!(errors(&spec), Vec::<String>::new(), "{spec}");
        let warnings = warnings(&helmop(&spec));
        assert!(
            matches!(&warnings[..], [one] if one.contains(word)),
            "{spec}: {warnings:?}"
        );
        assert!(
            warnings[0].len() <= 256 && !warnings[0].contains("geheim"),
            "{warnings:?}"
        );
    }
}

#[test]
fn overlays_are_for_manifests() {
    let mut spec = json!({
        "chartSource": { "git": { "url": "https://h/n.git" } },
        "pollingInterval": "5m",
        "yaml": { "overlays": ["x"] },
        "targets": [{ "clusterSelector": {}, "yaml": { "overlays": ["y"] } }],
    });
    assert_eq!(warnings(&helmop(&spec)).len(), 2);
    spec["chartSource"]["manifests"] = json!({});
    assert_eq!(warnings(&helmop(&spec)), Vec::<String>::new());
    let helmop = helmop(&spec);
    let valid = ValidHelmOp::try_from(&helmop).unwrap();
    assert!(valid.chart.has_manifests());
    assert_eq!(valid.chart.content_folder(), "");
    let requested = valid.chart.packed.as_ref().unwrap().source.requested();
    assert_eq!(
        requested, "the default branch, manifests",
        "a chart has another record"
    );
}

#[test]
fn limits_that_let_nothing_be_updated_get_a_warning() {
    for (over, text) in [
        (
            json!({ "helm": { "version": "1.2.3" }, "minAge": "72h" }),
            "spec.minAge: 72h has no effect, because no range of versions is requested",
        ),
        (
            json!({ "rolloutStrategy": { "maxUnavailable": 0 } }),
            "spec.rolloutStrategy.maxUnavailable: 0 lets no ready cluster be updated",
        ),
        (
            json!({ "rolloutStrategy": { "partitions": [{ "soak": "1h" }, { "name": "last", "soak": "2h" }] } }),
            "spec.rolloutStrategy.partitions[1].soak: has no effect, because no partition follows",
        ),
        (
            json!({ "rolloutStrategy": { "maxUnavailable": 1, "onFailure": { "maxFailed": "100%" } } }),
            "spec.rolloutStrategy.onFailure.maxFailed: 100% never halts the rollout",
        ),
        (
            json!({ "rolloutStrategy": { "onFailure": {} } }),
            "spec.rolloutStrategy.onFailure: has no effect on clusters that have the chart already",
        ),
        (
            json!({ "rolloutStrategy": { "onFailure": { "maxFailed": 3 }, "maxUnavailable": "100%", "partitions": [{ "name": "a" }, {}] } }),
            "spec.rolloutStrategy.onFailure: has no effect on clusters that have the chart already",
        ),
        (
            json!({ "rolloutStrategy": { "soak": "1h", "autoPartitionSize": 0 } }),
            "spec.rolloutStrategy.soak: has no effect, because there is one partition only",
        ),
        (
            json!({ "rolloutStrategy": { "maxNew": 0 } }),
            "spec.rolloutStrategy.maxNew: 0 lets no cluster get the chart for the first time",
        ),
        (
            json!({ "rolloutStrategy": { "partitions": [{ "maxUnavailable": -1 }] } }),
            "spec.rolloutStrategy.partitions[0].maxUnavailable: -1 lets no ready cluster be updated",
        ),
    ] {
        let warnings = warnings(&helmop(&valid_spec(over)));
        assert!(warnings.len() == 1 && warnings[0].contains(text), "{warnings:?}");
    }
}

#[test]
fn options_of_all_targets_get_a_warning_in_a_target() {
    for (own, field) in [
        (json!({ "helm": { "maxHistory": 4 } }), "helm.maxHistory"),
        (
            json!({ "helm": { "skipSchemaValidation": true } }),
            "helm.skipSchemaValidation",
        ),
        (json!({ "createNamespace": false }), "createNamespace"),
        (json!({ "deleteNamespace": true }), "deleteNamespace"),
        (json!({ "deleteCRDResources": true }), "deleteCRDResources"),
        (json!({ "ignore": {} }), "ignore"),
    ] {
        let mut target = json!({ "clusterSelector": {} });
        json_patch::merge(&mut target, &own);
        let warnings = warnings(&helmop(&valid_spec(json!({ "targets": [target] }))));
        let expected = format!(
            "spec.targets[0].{field}: has no effect in a target, also not in Fleet; set spec.{field}, which applies to all clusters"
        );
        assert_eq!(warnings, [expected]);
    }
}

#[test]
fn common_settings_get_no_warning() {
    for over in [
        json!({}),
        json!({ "helm": { "version": "" } }),
        json!({ "helm": { "version": "v1.2.3" } }),
        json!({ "helm": { "timeoutSeconds": 21_600 } }),
        json!({ "helm": { "version": "1.x" }, "pollingInterval": "15s" }),
        json!({ "helm": { "version": "1.x" }, "pollingInterval": "15s", "minAge": "72h" }),
        json!({ "helm": { "repo": "oci://registry.example.com/charts/web:latest", "chart": "" }, "pollingInterval": "15s", "minAge": "72h" }),
        json!({ "rolloutStrategy": { "onFailure": { "action": "Rollback" } } }),
        json!({ "helm": { "version": "1.2.3-rc.1" }, "helmSecretName": "s" }),
        json!({ "helm": { "repo": "oci://h/web:latest", "chart": "", "version": "" }, "pollingInterval": "15m" }),
        // Another digest of the version of a target.
        json!({
            "helm": { "repo": "", "chart": "https://h/web-1.tgz", "version": "" }, "pollingInterval": "15m", "onDigestChange": "Hold",
            "targets": [{ "clusterSelector": {}, "helm": { "repo": "https://h", "chart": "web", "version": "1.2.3" } }],
        }),
        json!({ "targets": [{ "clusterSelector": {}, "helm": { "timeoutSeconds": -1 } }] }),
        json!({ "rolloutStrategy": { "maxUnavailable": "100%" }, "dependsOn": [{ "name": "a" }] }),
        json!({ "rolloutStrategy": { "maxUnavailable": "10%", "onFailure": {} } }),
        json!({ "rolloutStrategy": { "onFailure": {}, "partitions": [{ "name": "a", "soak": "1h" }, { "name": "b" }] } }),
        json!({ "rolloutStrategy": { "onFailure": {}, "partitions": [{ "name": "a" }, { "name": "b", "approval": "Manual" }] } }),
    ] {
        assert_eq!(warnings(&helmop(&valid_spec(over))), Vec::<String>::new());
    }
}

/// The decision without Policies.
pub(super) fn review(helmop: &HelmOp, stored: Option<&HelmOp>) -> Decision {
    Policies::default().review(helmop, || stored.cloned())
}

fn is_allowed(decision: &Decision) -> bool {
    decision.errors.is_empty()
}

#[test]
fn only_new_errors_deny_a_change() {
    let invalid = helmop(&valid_spec(json!({ "helm": { "version": "foo" } })));
    assert!(!is_allowed(&review(&invalid, None)));
    let unchanged = review(&invalid, Some(&invalid));
    assert_eq!(
        unchanged,
        Decision::default(),
        "an unchanged spec is allowed without warnings"
    );

    let edited = helmop(&valid_spec(
        json!({ "helm": { "version": "foo" }, "paused": true }),
    ));
    let edited = review(&edited, Some(&invalid));
    assert!(is_allowed(&edited));
    let still_wrong = |warning: &String| warning.starts_with("not new, but still wrong: spec.helm.version");
    assert!(edited.warnings.iter().any(still_wrong), "{edited:?}");

    let worse = helmop(&valid_spec(
        json!({ "helm": { "version": "foo" }, "namespace": "A" }),
    ));
    let worse = review(&worse, Some(&invalid));
    assert!(
        matches!(worse.errors.reported(), [error] if error.path == "spec.namespace"),
        "{worse:?}"
    );

    let other = helmop(&valid_spec(json!({ "helm": { "version": "bar" } })));
    assert!(
        !is_allowed(&review(&other, Some(&invalid))),
        "another invalid value is a new error"
    );
}

#[test]
fn a_helmop_that_is_being_deleted_is_allowed() {
    let mut invalid = helmop(&valid_spec(json!({ "helm": { "version": "foo" } })));
    invalid.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(review(&invalid, None), Decision::default());
}

#[test]
fn values_may_nest_100_deep() {
    let nested = |levels| (1..levels).fold(json!({ "a": 1 }), |inner, _| json!({ "a": inner }));
    let values = |levels| json!({ "helm": { "values": nested(levels) } });
    assert_eq!(errors(&valid_spec(values(100))), Vec::<String>::new());
}

#[test]
fn templates_that_do_not_parse_are_denied_unless_they_are_disabled() {
    let values = json!({ "helm": { "values": { "a": ["${ .ClusterLabels.env "] } } });
    let denied = helmop(&valid_spec(values.clone()));
    let decision = review(&denied, None);
    let [error] = decision.errors.reported() else {
        panic!("expected one error: {decision:?}")
    };
    assert_eq!(
        (error.path.as_str(), error.reason),
        ("spec.helm.values.a[0]", Reason::InvalidValues)
    );
    for words in ["${ .ClusterLabels.env", "unclosed action", "disablePreProcess"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(
        errors(&valid_spec(values.clone())),
        Vec::<String>::new(),
        "the controller keeps reconciling a stored one"
    );

    let mut edited = denied.clone();
    edited.spec.bundle.options.namespace = "other".to_owned();
    assert!(is_allowed(&review(&edited, Some(&denied))), "it is not new");

    let disabled = json!({ "helm": { "disablePreProcess": true } });
    let mut spec = valid_spec(values.clone());
    json_patch::merge(&mut spec, &disabled);
    assert!(is_allowed(&review(&helmop(&spec), None)));
    let mut targets = valid_spec(values.clone());
    targets["targets"] = json!([disabled, disabled]);
    assert!(is_allowed(&review(&helmop(&targets), None)));
    targets["targets"] = json!([disabled, {}]);
    assert!(
        !is_allowed(&review(&helmop(&targets), None)),
        "one target renders it"
    );

    let mut target = valid_spec(json!({}));
    target["targets"][0] = json!({ "helm": { "templateValues": { "a": "${ nope }" } } });
    let decision = review(&helmop(&target), None);
    let paths: Vec<_> = decision
        .errors
        .reported()
        .iter()
        .map(|error| &*error.path)
        .collect();
    assert_eq!(paths, ["spec.targets[0].helm.templateValues.a"]);
}

#[test]
fn unsupported_functions_of_templates_get_a_warning() {
    let decision = review(
        &helmop(&valid_spec(
            json!({ "helm": { "values": { "a": "${ randAlpha 5 }" } } }),
        )),
        None,
    );
    assert!(is_allowed(&decision));
    let warns =
        |warning: &String| warning.starts_with("spec.helm.values.a: function \"randAlpha\" is an error if");
    assert!(decision.warnings.iter().any(warns), "{decision:?}");
}

#[test]
fn unknown_fields_cause_neither_errors_nor_warnings() {
    let newer = json!({ "newer": { "a": [1] }, "helm": { "newer": 1 }, "rolloutStrategy": { "newer": 1 },
        "targets": [{ "newer": 1, "clusterSelector": {}, "helm": { "newer": 1 } }] });
    let spec = valid_spec(newer);
    assert_eq!(errors(&spec), Vec::<String>::new());
    assert_eq!(warnings(&helmop(&spec)), Vec::<String>::new());
}

#[test]
fn unknown_fields_count_towards_the_size_of_a_spec() {
    let spec = valid_spec(json!({ "newer": "x".repeat(helmops_api::limits::SPEC) }));
    let [error] = &*errors(&spec) else {
        panic!("expected one error")
    };
    assert!(
        error.starts_with("spec: Too long: ") && error.contains("bytes as JSON"),
        "{error}"
    );
}

#[test]
fn an_age_that_is_no_duration_is_denied_with_its_path() {
    for (spec, field, text) in [
        (
            json!({ "minAge": "3d" }),
            "spec.minAge",
            "use a Go duration such as 24h or 72h",
        ),
        (
            json!({ "rolloutStrategy": { "onFailure": { "action": "Undo" } } }),
            "spec.rolloutStrategy.onFailure.action",
            "supported values: Halt, Rollback",
        ),
    ] {
        let helmop = helmop(&valid_spec(spec));
        let errors = ValidHelmOp::try_from(&helmop).unwrap_err().to_string();
        assert!(errors.contains(field) && errors.contains(text), "{errors}");
    }
}

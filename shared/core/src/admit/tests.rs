//! Which HelmOps are rejected, which get warnings, and which are valid.

use helmops_api::HelmOp;
use serde_json::{Value, json};

use super::{ValidHelmOp, warnings};
use crate::{
    policy::{Decision, Policies},
    reason::Reason,
};

fn helmop(spec: &Value) -> HelmOp {
    let object = json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": spec });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A valid spec, merged with other fields.
#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn valid_spec(over: Value) -> Value {
    let mut spec = json!({
        "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" },
        "targets": [{ "clusterSelector": {} }]
    });
    json_patch::merge(&mut spec, &over);
    spec
}

fn with_helm(helm: Value) -> Value {
    let mut spec = valid_spec(json!({}));
    spec["helm"] = helm;
    spec
}

fn errors(spec: &Value) -> Vec<String> {
    let helmop = helmop(spec);
    match ValidHelmOp::try_from(&helmop) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.reported().iter().map(ToString::to_string).collect(),
    }
}

/// Asserts that a spec has one error: at this path, with this reason and all of these words.
fn assert_rejected(spec: &Value, path: &str, reason: Reason, words: &[&str]) {
    let helmop = helmop(spec);
    let errors = ValidHelmOp::try_from(&helmop)
        .map(|_| spec)
        .expect_err("accepted");
    let [error] = errors.reported() else {
        panic!("expected one error: {errors}")
    };
    assert_eq!((error.path.as_str(), error.reason), (path, reason), "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is missing in {error}");
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
        valid_spec(
            json!({ "pollingInterval": "1h30m", "helmSecretName": "access.v1", "labels": { "a/b": "" } }),
        ),
        valid_spec(json!({ "targets": [] })),
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
fn chart_forms_that_contradict_each_other_are_rejected() {
    use Reason::{
        ChartForbidden, ChartRequired, HelmRequired, RepoForbidden, RepoRequired, VersionForbidden,
    };
    let archive = "https://h/c.tgz";
    assert_rejected(
        &json!({ "targets": [] }),
        "spec.helm",
        HelmRequired,
        &["Required value", "helm options are empty"],
    );
    assert_rejected(
        &with_helm(json!({ "chart": archive, "repo": "https://h" })),
        "spec.helm.repo",
        RepoForbidden,
        &[
            "Forbidden: \"https://h\"",
            "tarball chart with a non-empty repo field",
        ],
    );
    for version in ["1.2.3", "latest", "*"] {
        assert_rejected(
            &with_helm(json!({ "chart": archive, "version": version })),
            "spec.helm.version",
            VersionForbidden,
            &[version, "tarball chart with a non-empty version field"],
        );
    }
    assert_rejected(
        &with_helm(json!({ "repo": "Oci://h/c", "chart": "c" })),
        "spec.helm.chart",
        ChartForbidden,
        &["\"c\"", "OCI repository with a non-empty chart field"],
    );
    assert_rejected(
        &with_helm(json!({ "repo": "https://h" })),
        "spec.helm.chart",
        ChartRequired,
        &["non-OCI repository with an empty chart field"],
    );
    assert_rejected(
        &with_helm(json!({ "chart": "c" })),
        "spec.helm.repo",
        RepoRequired,
        &["non-tarball chart with an empty repo field"],
    );
}

#[test]
fn invalid_urls_are_rejected() {
    for (repo, words) in [
        ("charts.example.com", "not an absolute URL"),
        ("ftp://charts.example.com", "scheme \"ftp\" is not supported"),
        ("https:///charts", "no host"),
        ("https://u:geheim@h:x/", "port"),
    ] {
        let spec = with_helm(json!({ "repo": repo, "chart": "c" }));
        assert_rejected(
            &spec,
            "spec.helm.repo",
            Reason::InvalidURL,
            &["Invalid value", words],
        );
        assert!(!errors(&spec)[0].contains("geheim"));
    }
    assert_rejected(
        &with_helm(json!({ "repo": "oci://h" })),
        "spec.helm.repo",
        Reason::InvalidURL,
        &["no chart"],
    );
    assert_rejected(
        &with_helm(json!({ "repo": "oci://h/Team/c" })),
        "spec.helm.repo",
        Reason::InvalidURL,
        &["\"Team\"", "capital letters"],
    );
    assert_rejected(
        &with_helm(json!({ "chart": "./c.tgz" })),
        "spec.helm.chart",
        Reason::InvalidURL,
        &["./c.tgz"],
    );
}

/// Fleet ignores these errors, and its agents then fail.
#[test]
fn a_tag_that_contradicts_the_version_is_rejected() {
    for (repo, version, words) in [
        (
            "oci://h/c:latest",
            "",
            "tag \"latest\" in the reference is not a version",
        ),
        ("oci://h/c:1.2.3", "2.x", "is not in version \"2.x\""),
    ] {
        assert_rejected(
            &with_helm(json!({ "repo": repo, "version": version })),
            "spec.helm.repo",
            Reason::InvalidVersion,
            &[words],
        );
    }
    assert!(errors(&with_helm(json!({ "repo": "oci://h/c:1.2.3", "version": "1.x" }))).is_empty());
    let target = json!({ "targets": [{ "helm": { "version": "2.x" } }] });
    let mut spec = with_helm(json!({ "repo": "oci://h/c:1.2.3" }));
    spec["targets"] = target["targets"].clone();
    assert_rejected(
        &spec,
        "spec.targets[0].helm.repo",
        Reason::InvalidVersion,
        &["is not in version \"2.x\""],
    );
}

#[test]
fn invalid_versions_are_rejected() {
    let spec = valid_spec(json!({ "helm": { "version": "foo" } }));
    assert_rejected(
        &spec,
        "spec.helm.version",
        Reason::InvalidVersion,
        &["\"foo\"", "improper constraint: \"foo\""],
    );
    let spec = valid_spec(json!({ "targets": [{ "helm": { "version": ">=1.2.3.4" } }] }));
    assert_rejected(
        &spec,
        "spec.targets[0].helm.version",
        Reason::InvalidVersion,
        &[">=1.2.3.4"],
    );
}

#[test]
fn targets_are_checked_after_inheritance() {
    let main_archive = with_helm(json!({ "chart": "https://h/c.tgz" }));
    let with_target = |mut spec: Value, helm: Value| {
        spec["targets"] = json!([{ "clusterSelector": {}, "helm": helm }]);
        spec
    };
    assert_eq!(
        errors(&with_target(main_archive.clone(), json!({ "values": {} }))),
        Vec::<String>::new()
    );
    let own_chart = json!({ "repo": "https://h", "chart": "c", "version": "1.x" });
    assert_eq!(
        errors(&with_target(main_archive.clone(), own_chart)),
        Vec::<String>::new()
    );
    assert_rejected(
        &with_target(main_archive.clone(), json!({ "version": "1.x" })),
        "spec.targets[0].helm.version",
        Reason::VersionForbidden,
        &["inherited"],
    );
    assert_rejected(
        &with_target(main_archive, json!({ "repo": "https://h" })),
        "spec.targets[0].helm.repo",
        Reason::RepoForbidden,
        &["inherits the chart archive"],
    );
    let spec = with_target(
        with_helm(json!({ "repo": "https://h", "chart": "c" })),
        json!({ "chart": "https://h/c.tgz" }),
    );
    assert_rejected(
        &spec,
        "spec.targets[0].helm.chart",
        Reason::RepoForbidden,
        &["inherited from spec.helm.repo"],
    );
    let spec = with_target(
        with_helm(json!({ "repo": "oci://h/c" })),
        json!({ "repo": "https://h" }),
    );
    assert_rejected(
        &spec,
        "spec.targets[0].helm.chart",
        Reason::ChartRequired,
        &["spec.helm.chart"],
    );
    // An error in spec.helm is not reported again for a target that only inherits it.
    let spec = with_target(
        with_helm(json!({ "repo": "https://h", "chart": "c", "version": "foo" })),
        json!({ "chart": "d" }),
    );
    assert_rejected(&spec, "spec.helm.version", Reason::InvalidVersion, &[]);
}

#[test]
fn invalid_names_labels_and_durations_are_rejected() {
    use Reason::{
        InvalidDownstreamResource, InvalidLabel, InvalidName, InvalidPollingInterval, InvalidReleaseName,
    };
    for (over, path, reason, word) in [
        (
            json!({ "helmSecretName": "My Secret" }),
            "spec.helmSecretName",
            InvalidName,
            "My Secret",
        ),
        (
            json!({ "namespace": "a.b" }),
            "spec.namespace",
            InvalidName,
            "DNS label",
        ),
        (
            json!({ "defaultNamespace": "A" }),
            "spec.defaultNamespace",
            InvalidName,
            "DNS label",
        ),
        (
            json!({ "serviceAccount": "-" }),
            "spec.serviceAccount",
            InvalidName,
            "DNS name",
        ),
        (
            json!({ "helm": { "releaseName": "Web" } }),
            "spec.helm.releaseName",
            InvalidReleaseName,
            "lower-case",
        ),
        (
            json!({ "helm": { "releaseName": "a".repeat(54) } }),
            "spec.helm.releaseName",
            InvalidReleaseName,
            "53",
        ),
        (
            json!({ "labels": { "a": "b c" } }),
            "spec.labels[a]",
            InvalidLabel,
            "b c",
        ),
        (
            json!({ "labels": { "a b": "c" } }),
            "spec.labels",
            InvalidLabel,
            "a b",
        ),
        (
            json!({ "namespaceLabels": { "a": "-" } }),
            "spec.namespaceLabels[a]",
            InvalidLabel,
            "-",
        ),
        (
            json!({ "namespaceAnnotations": { "": "x" } }),
            "spec.namespaceAnnotations",
            InvalidLabel,
            "empty",
        ),
        (
            json!({ "pollingInterval": "1d" }),
            "spec.pollingInterval",
            InvalidPollingInterval,
            "24h",
        ),
        (
            json!({ "pollingInterval": "-1h" }),
            "spec.pollingInterval",
            InvalidPollingInterval,
            "negative",
        ),
        (
            json!({ "downstreamResources": [{ "kind": "Pod", "name": "a" }] }),
            "spec.downstreamResources[0].kind",
            InvalidDownstreamResource,
            "Unsupported value: \"Pod\": supported kinds: Secret, ConfigMap",
        ),
        (
            json!({ "downstreamResources": [{ "kind": "Secret" }] }),
            "spec.downstreamResources[0].name",
            InvalidDownstreamResource,
            "Required value",
        ),
    ] {
        assert_rejected(&valid_spec(over), path, reason, &[word]);
    }
}

#[test]
fn a_name_that_is_too_long_for_a_label_is_rejected() {
    let mut long = helmop(&valid_spec(json!({})));
    long.metadata.name = Some("a".repeat(64));
    let error = ValidHelmOp::try_from(&long).unwrap_err();
    assert!(
        error.to_string().starts_with("metadata.name: Too long: \"aaa"),
        "{error}"
    );
    long.metadata.name = None;
    long.metadata.generate_name = Some("web-".to_owned());
    assert!(ValidHelmOp::try_from(&long).is_ok());
}

#[test]
fn invalid_selectors_and_rollout_amounts_are_rejected() {
    use Reason::{InvalidRollout, InvalidSelector};
    let invalid = json!({ "matchExpressions": [{ "key": "env", "operator": "Is", "values": ["a"] }] });
    for (over, path) in [
        (
            json!({ "targets": [{ "clusterSelector": invalid }] }),
            "spec.targets[0].clusterSelector",
        ),
        (
            json!({ "targets": [{ "clusterGroupSelector": invalid }] }),
            "spec.targets[0].clusterGroupSelector",
        ),
        (
            json!({ "targetRestrictions": [{ "clusterSelector": invalid }] }),
            "spec.targetRestrictions[0].clusterSelector",
        ),
        (
            json!({ "dependsOn": [{ "selector": invalid }] }),
            "spec.dependsOn[0].selector",
        ),
        (
            json!({ "allowedTargetNamespaceSelector": invalid }),
            "spec.allowedTargetNamespaceSelector",
        ),
        (
            json!({ "rolloutStrategy": { "partitions": [{ "clusterSelector": invalid }] } }),
            "spec.rolloutStrategy.partitions[0].clusterSelector",
        ),
    ] {
        let path = format!("{path}.matchExpressions[0].operator");
        assert_rejected(
            &valid_spec(over),
            &path,
            InvalidSelector,
            &["In, NotIn, Exists, DoesNotExist"],
        );
    }
    for (expression, path) in [
        (
            json!({ "key": "a b", "operator": "Exists" }),
            "matchExpressions[0].key",
        ),
        (
            json!({ "key": "a", "operator": "In" }),
            "matchExpressions[0].values",
        ),
        (
            json!({ "key": "a", "operator": "Exists", "values": ["b"] }),
            "matchExpressions[0].values",
        ),
        (
            json!({ "key": "a", "operator": "NotIn", "values": ["b", "c d"] }),
            "matchExpressions[0].values[1]",
        ),
    ] {
        let over = json!({ "targets": [{ "clusterSelector": { "matchExpressions": [expression] } }] });
        assert_rejected(
            &valid_spec(over),
            &format!("spec.targets[0].clusterSelector.{path}"),
            InvalidSelector,
            &[],
        );
    }
    for amount in ["many", "10.5%", "%", "", "5 %"] {
        let over = json!({ "rolloutStrategy": { "partitions": [{ "maxUnavailable": amount }] } });
        assert_rejected(
            &valid_spec(over),
            "spec.rolloutStrategy.partitions[0].maxUnavailable",
            InvalidRollout,
            &["percentage"],
        );
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

/// Forms that only the command lines of Helm and git accept, and versions that cannot exist.
#[test]
fn charts_that_no_repository_can_have_are_rejected() {
    use Reason::{InvalidChartName, InvalidURL, InvalidValues, InvalidVersion, RepoRequired};
    const REPO: &str = "https://charts.example.com";
    let rejected = |helm: Value, field: &str, reason, words: &[&str]| {
        assert_rejected(&with_helm(helm), &format!("spec.helm.{field}"), reason, words);
    };
    for repo in ["", REPO] {
        for chart in ["./web", "../web", "/charts/web", "~/web", "."] {
            let words = ["is a path on your machine", chart];
            rejected(
                json!({ "repo": repo, "chart": chart }),
                "chart",
                InvalidChartName,
                &words,
            );
        }
        let words = ["oci://h/web", "is named in repo; move the reference there"];
        rejected(
            json!({ "repo": repo, "chart": "oci://h/web" }),
            "chart",
            InvalidChartName,
            &words,
        );
        let words = ["begins or ends with whitespace"];
        rejected(
            json!({ "repo": repo, "chart": "web " }),
            "chart",
            InvalidChartName,
            &words,
        );
    }
    rejected(
        json!({ "chart": "grafana/loki" }),
        "repo",
        RepoRequired,
        &["helm repo list"],
    );
    let repo = |repo: &str, words: &[&str]| {
        rejected(json!({ "repo": repo, "chart": "web" }), "repo", InvalidURL, words);
    };
    repo("https://h/charts/index.yaml", &["remove /index.yaml"]);
    repo("https://h/charts ", &["begins or ends with whitespace"]);
    repo("\thttps://h/charts", &["begins or ends with whitespace"]);
    for git in [
        "git@github.com:org/charts",
        "ssh://git@h/charts",
        "git+https://h/charts",
    ] {
        repo(git, &["the address of a git repository", "GitRepo"]);
    }
    let range = json!({ "repo": REPO, "chart": "web", "version": ">1.2.3 <1.0.0" });
    rejected(
        range,
        "version",
        InvalidVersion,
        &[">1.2.3 <1.0.0", "no version can satisfy"],
    );
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let helm = json!({ "repo": REPO, "chart": "web", "valuesFrom": [{ kind: { "key": "a" } }] });
        rejected(
            helm,
            &format!("valuesFrom[0].{kind}.name"),
            InvalidValues,
            &["Required value"],
        );
    }
    let target = valid_spec(json!({ "targets": [{ "helm": { "chart": "./web" } }] }));
    assert_rejected(
        &target,
        "spec.targets[0].helm.chart",
        InvalidChartName,
        &["./web"],
    );
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
            json!({ "kustomize": { "dir": "x" } }),
            "spec.kustomize: has no effect",
        ),
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
fn common_settings_get_no_warning() {
    for over in [
        json!({}),
        json!({ "helm": { "version": "" } }),
        json!({ "helm": { "version": "v1.2.3" } }),
        json!({ "helm": { "version": "1.x" }, "pollingInterval": "15s" }),
        json!({ "helm": { "version": "1.2.3-rc.1" }, "helmSecretName": "s" }),
        json!({ "targets": [{ "clusterSelector": {}, "helm": { "timeoutSeconds": -1 } }] }),
        json!({ "rolloutStrategy": { "maxUnavailable": "100%" }, "dependsOn": [{ "name": "a" }] }),
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
fn values_that_are_nested_too_deeply_are_rejected() {
    let nested = |levels| (1..levels).fold(json!({ "a": 1 }), |inner, _| json!({ "a": inner }));
    let values = |levels| json!({ "helm": { "values": nested(levels) } });
    assert_eq!(errors(&valid_spec(values(100))), Vec::<String>::new());
    let words = &["nest 101 levels deep", "at most 100 are allowed", "flatter"];
    let spec = valid_spec(values(101));
    assert_rejected(&spec, "spec.helm.values", Reason::InvalidValues, words);
    let mut spec = valid_spec(json!({ "targets": [{}] }));
    spec["targets"][0] = values(110);
    let words = &["nest 110 levels deep", "at most 100 are allowed"];
    assert_rejected(&spec, "spec.targets[0].helm.values", Reason::InvalidValues, words);
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
    assert_rejected(&spec, "spec", Reason::LimitExceeded, &["bytes as JSON"]);
}

//! What is refused, what is only warned of, and what passes.

use serde_json::{Value, json};

use super::{Decision, ValidHelmOp, review, warnings};
use crate::{api::HelmOp, reason::Reason};

fn helmop(spec: &Value) -> HelmOp {
    let object = json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": spec });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A spec without fault, with other fields over it.
#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn good(over: Value) -> Value {
    let mut spec = json!({
        "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" },
        "targets": [{ "clusterSelector": {} }]
    });
    json_patch::merge(&mut spec, &over);
    spec
}

fn helm(helm: Value) -> Value {
    let mut spec = good(json!({}));
    spec["helm"] = helm;
    spec
}

fn errors(spec: &Value) -> Vec<String> {
    let helmop = helmop(spec);
    match ValidHelmOp::try_from(&helmop) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.told().iter().map(ToString::to_string).collect(),
    }
}

/// Asserts that a spec has one error: about this field, with this reason and all of these words.
fn assert_refused(spec: &Value, path: &str, reason: Reason, words: &[&str]) {
    let helmop = helmop(spec);
    let errors = ValidHelmOp::try_from(&helmop)
        .map(|_| spec)
        .expect_err("accepted");
    let [error] = errors.told() else {
        panic!("not one error: {errors}")
    };
    assert_eq!((error.path.as_str(), error.reason), (path, reason), "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is missing in {error}");
    }
}

#[test]
fn what_works_passes() {
    for spec in [
        good(json!({})),
        helm(json!({ "repo": "http://u:p@10.0.0.1:8080/charts?x=y", "chart": "web", "version": "" })),
        helm(json!({ "repo": "oci://registry.example.com/charts/web", "version": "~1.2 || ^2" })),
        helm(json!({ "repo": "OCI://registry.example.com/charts/web" })),
        helm(json!({ "chart": "https://charts.example.com/web-1.2.3.TGZ" })),
        good(json!({ "pollingInterval": "1h30m", "helmSecretName": "access.v1", "labels": { "a/b": "" } })),
        good(json!({ "targets": [] })),
        good(
            json!({ "targets": [{ "helm": { "version": "2.x" } }, { "helm": { "repo": "oci://r/c" } }, { "helm": {} }] }),
        ),
        good(
            json!({ "rolloutStrategy": { "maxUnavailable": "-5%", "autoPartitionSize": 0, "maxUnavailablePartitions": "3" } }),
        ),
        good(
            json!({ "downstreamResources": [{ "kind": "configmap", "name": "a" }, { "kind": "SECRET", "name": "b" }] }),
        ),
    ] {
        assert_eq!(errors(&spec), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn forms_of_charts() {
    use Reason::{
        ChartForbidden, ChartRequired, HelmRequired, RepoForbidden, RepoRequired, VersionForbidden,
    };
    let archive = "https://h/c.tgz";
    assert_refused(
        &json!({ "targets": [] }),
        "spec.helm",
        HelmRequired,
        &["Required value", "helm options are empty"],
    );
    assert_refused(
        &helm(json!({ "chart": archive, "repo": "https://h" })),
        "spec.helm.repo",
        RepoForbidden,
        &[
            "Forbidden: \"https://h\"",
            "tarball chart with a non-empty repo field",
        ],
    );
    for version in ["1.2.3", "latest", "*"] {
        assert_refused(
            &helm(json!({ "chart": archive, "version": version })),
            "spec.helm.version",
            VersionForbidden,
            &[version, "tarball chart with a non-empty version field"],
        );
    }
    assert_refused(
        &helm(json!({ "repo": "Oci://h/c", "chart": "c" })),
        "spec.helm.chart",
        ChartForbidden,
        &["\"c\"", "OCI repository with a non-empty chart field"],
    );
    assert_refused(
        &helm(json!({ "repo": "https://h" })),
        "spec.helm.chart",
        ChartRequired,
        &["non-OCI repository with an empty chart field"],
    );
    assert_refused(
        &helm(json!({ "chart": "c" })),
        "spec.helm.repo",
        RepoRequired,
        &["non-tarball chart with an empty repo field"],
    );
}

#[test]
fn urls() {
    for (repo, words) in [
        ("charts.example.com", "not an absolute URL"),
        ("ftp://charts.example.com", "scheme \"ftp\" is not supported"),
        ("https:///charts", "no host"),
        ("https://u:geheim@h:x/", "port"),
    ] {
        let spec = helm(json!({ "repo": repo, "chart": "c" }));
        assert_refused(
            &spec,
            "spec.helm.repo",
            Reason::InvalidURL,
            &["Invalid value", words],
        );
        assert!(!errors(&spec)[0].contains("geheim"));
    }
    assert_refused(
        &helm(json!({ "repo": "oci://h" })),
        "spec.helm.repo",
        Reason::InvalidURL,
        &["no chart"],
    );
    assert_refused(
        &helm(json!({ "repo": "oci://h/Team/c" })),
        "spec.helm.repo",
        Reason::InvalidURL,
        &["\"Team\"", "capital letters"],
    );
    assert_refused(
        &helm(json!({ "chart": "./c.tgz" })),
        "spec.helm.chart",
        Reason::InvalidURL,
        &["./c.tgz"],
    );
}

/// What Fleet passes over and its agents then refuse.
#[test]
fn tags_in_a_reference_agree_with_the_version() {
    for (repo, version, words) in [
        (
            "oci://h/c:latest",
            "",
            "tag \"latest\" in the reference is not a version",
        ),
        ("oci://h/c:1.2.3", "2.x", "is not in version \"2.x\""),
    ] {
        assert_refused(
            &helm(json!({ "repo": repo, "version": version })),
            "spec.helm.repo",
            Reason::InvalidVersion,
            &[words],
        );
    }
    assert!(errors(&helm(json!({ "repo": "oci://h/c:1.2.3", "version": "1.x" }))).is_empty());
    let target = json!({ "targets": [{ "helm": { "version": "2.x" } }] });
    let mut spec = helm(json!({ "repo": "oci://h/c:1.2.3" }));
    spec["targets"] = target["targets"].clone();
    assert_refused(
        &spec,
        "spec.targets[0].helm.repo",
        Reason::InvalidVersion,
        &["is not in version \"2.x\""],
    );
}

#[test]
fn versions() {
    let spec = good(json!({ "helm": { "version": "foo" } }));
    assert_refused(
        &spec,
        "spec.helm.version",
        Reason::InvalidVersion,
        &["\"foo\"", "improper constraint: \"foo\""],
    );
    let spec = good(json!({ "targets": [{ "helm": { "version": ">=1.2.3.4" } }] }));
    assert_refused(
        &spec,
        "spec.targets[0].helm.version",
        Reason::InvalidVersion,
        &[">=1.2.3.4"],
    );
}

#[test]
fn targets_inherit_before_they_are_checked() {
    let main_archive = helm(json!({ "chart": "https://h/c.tgz" }));
    let with_target = |mut spec: Value, helm: Value| {
        spec["targets"] = json!([{ "clusterSelector": {}, "helm": helm }]);
        spec
    };
    assert_eq!(
        errors(&with_target(main_archive.clone(), json!({ "values": {} }))),
        Vec::<String>::new()
    );
    let whole = json!({ "repo": "https://h", "chart": "c", "version": "1.x" });
    assert_eq!(
        errors(&with_target(main_archive.clone(), whole)),
        Vec::<String>::new()
    );
    assert_refused(
        &with_target(main_archive.clone(), json!({ "version": "1.x" })),
        "spec.targets[0].helm.version",
        Reason::VersionForbidden,
        &["inherited"],
    );
    assert_refused(
        &with_target(main_archive, json!({ "repo": "https://h" })),
        "spec.targets[0].helm.repo",
        Reason::RepoForbidden,
        &["inherits the chart archive"],
    );
    let spec = with_target(
        helm(json!({ "repo": "https://h", "chart": "c" })),
        json!({ "chart": "https://h/c.tgz" }),
    );
    assert_refused(
        &spec,
        "spec.targets[0].helm.chart",
        Reason::RepoForbidden,
        &["inherited from spec.helm.repo"],
    );
    let spec = with_target(
        helm(json!({ "repo": "oci://h/c" })),
        json!({ "repo": "https://h" }),
    );
    assert_refused(
        &spec,
        "spec.targets[0].helm.chart",
        Reason::ChartRequired,
        &["spec.helm.chart"],
    );
    // A fault of spec.helm is not told again for a target that only inherits it.
    let spec = with_target(
        helm(json!({ "repo": "https://h", "chart": "c", "version": "foo" })),
        json!({ "chart": "d" }),
    );
    assert_refused(&spec, "spec.helm.version", Reason::InvalidVersion, &[]);
}

#[test]
fn names_labels_and_durations() {
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
        assert_refused(&good(over), path, reason, &[word]);
    }
}

#[test]
fn the_objects_own_name_becomes_a_label() {
    let mut long = helmop(&good(json!({})));
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
fn selectors_and_rollout() {
    use Reason::{InvalidRollout, InvalidSelector};
    let bad = json!({ "matchExpressions": [{ "key": "env", "operator": "Is", "values": ["a"] }] });
    for (over, path) in [
        (
            json!({ "targets": [{ "clusterSelector": bad }] }),
            "spec.targets[0].clusterSelector",
        ),
        (
            json!({ "targets": [{ "clusterGroupSelector": bad }] }),
            "spec.targets[0].clusterGroupSelector",
        ),
        (
            json!({ "targetRestrictions": [{ "clusterSelector": bad }] }),
            "spec.targetRestrictions[0].clusterSelector",
        ),
        (
            json!({ "dependsOn": [{ "selector": bad }] }),
            "spec.dependsOn[0].selector",
        ),
        (
            json!({ "allowedTargetNamespaceSelector": bad }),
            "spec.allowedTargetNamespaceSelector",
        ),
        (
            json!({ "rolloutStrategy": { "partitions": [{ "clusterSelector": bad }] } }),
            "spec.rolloutStrategy.partitions[0].clusterSelector",
        ),
    ] {
        let path = format!("{path}.matchExpressions[0].operator");
        assert_refused(
            &good(over),
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
        assert_refused(
            &good(over),
            &format!("spec.targets[0].clusterSelector.{path}"),
            InvalidSelector,
            &[],
        );
    }
    for amount in ["many", "10.5%", "%", "", "5 %"] {
        let over = json!({ "rolloutStrategy": { "partitions": [{ "maxUnavailable": amount }] } });
        assert_refused(
            &good(over),
            "spec.rolloutStrategy.partitions[0].maxUnavailable",
            InvalidRollout,
            &["percentage"],
        );
    }
}

#[test]
fn all_errors_are_told_together_twenty_at_the_most() {
    let spec = json!({ "helm": { "version": "foo" }, "pollingInterval": "1d", "labels": { "a": "b c" } });
    assert_eq!(errors(&spec).len(), 5);
    let labels: serde_json::Map<String, Value> =
        (0..30).map(|n| (format!("l{n:02}"), json!("b c"))).collect();
    let helmop = helmop(&good(json!({ "labels": labels })));
    let errors = ValidHelmOp::try_from(&helmop).unwrap_err();
    assert_eq!((errors.told().len(), errors.untold()), (20, 10));
    assert!(errors.to_string().ends_with("; and 10 more"));
}

/// What people know from the command lines of Helm and git, and what can never have a version.
#[test]
fn what_no_repository_has() {
    use Reason::{InvalidChartName, InvalidURL, InvalidValues, InvalidVersion, RepoRequired};
    const REPO: &str = "https://charts.example.com";
    let refused = |helm: Value, field: &str, reason, words: &[&str]| {
        assert_refused(&self::helm(helm), &format!("spec.helm.{field}"), reason, words);
    };
    for repo in ["", REPO] {
        for chart in ["./web", "../web", "/charts/web", "~/web", "."] {
            let words = ["is a path on your machine", chart];
            refused(
                json!({ "repo": repo, "chart": chart }),
                "chart",
                InvalidChartName,
                &words,
            );
        }
        let words = ["oci://h/web", "is named in repo; move the reference there"];
        refused(
            json!({ "repo": repo, "chart": "oci://h/web" }),
            "chart",
            InvalidChartName,
            &words,
        );
        let words = ["begins or ends with whitespace"];
        refused(
            json!({ "repo": repo, "chart": "web " }),
            "chart",
            InvalidChartName,
            &words,
        );
    }
    refused(
        json!({ "chart": "grafana/loki" }),
        "repo",
        RepoRequired,
        &["helm repo list"],
    );
    let repo = |repo: &str, words: &[&str]| {
        refused(json!({ "repo": repo, "chart": "web" }), "repo", InvalidURL, words);
    };
    repo("https://h/charts/index.yaml", &["remove /index.yaml"]);
    repo("https://h/charts ", &["begins or ends with whitespace"]);
    repo("\thttps://h/charts", &["begins or ends with whitespace"]);
    for git in [
        "git@github.com:org/charts",
        "ssh://git@h/charts",
        "git+https://h/charts",
    ] {
        repo(git, &["an address of a git repository", "GitRepo"]);
    }
    let range = json!({ "repo": REPO, "chart": "web", "version": ">1.2.3 <1.0.0" });
    refused(
        range,
        "version",
        InvalidVersion,
        &[">1.2.3 <1.0.0", "no version can satisfy"],
    );
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let helm = json!({ "repo": REPO, "chart": "web", "valuesFrom": [{ kind: { "key": "a" } }] });
        refused(
            helm,
            &format!("valuesFrom[0].{kind}.name"),
            InvalidValues,
            &["Required value"],
        );
    }
    let target = good(json!({ "targets": [{ "helm": { "chart": "./web" } }] }));
    assert_refused(
        &target,
        "spec.targets[0].helm.chart",
        InvalidChartName,
        &["./web"],
    );
}

#[test]
fn what_is_doubtful_is_told() {
    for (over, word) in [
        (json!({ "contentsId": "x" }), "spec.contentsId: internal"),
        (json!({ "valuesHash": "x" }), "spec.valuesHash: internal"),
        (json!({ "helmOpOptions": {} }), "spec.helmOpOptions: internal"),
        (json!({ "resources": [{}] }), "spec.resources: internal"),
        (
            json!({ "helm": { "repo": "https://u:geheim@h" } }),
            "spec.helm.repo: the URL holds credentials",
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
        let spec = good(over);
        assert_eq!(errors(&spec), Vec::<String>::new(), "{spec}");
        let told = warnings(&helmop(&spec));
        assert!(
            matches!(&told[..], [one] if one.contains(word)),
            "{spec}: {told:?}"
        );
        assert!(told[0].len() <= 256 && !told[0].contains("geheim"), "{told:?}");
    }
}

#[test]
fn the_ordinary_gets_no_warning() {
    for over in [
        json!({}),
        json!({ "helm": { "version": "" } }),
        json!({ "helm": { "version": "v1.2.3" } }),
        json!({ "helm": { "version": "1.x" }, "pollingInterval": "15s" }),
        json!({ "helm": { "version": "1.2.3-rc.1" }, "helmSecretName": "s" }),
        json!({ "targets": [{ "clusterSelector": {}, "helm": { "timeoutSeconds": -1 } }] }),
        json!({ "rolloutStrategy": { "maxUnavailable": "100%" }, "dependsOn": [{ "name": "a" }] }),
    ] {
        assert_eq!(warnings(&helmop(&good(over))), Vec::<String>::new());
    }
}

fn verdict(new: &HelmOp, stored: &HelmOp) -> Decision {
    review(new, || Some(stored.clone()))
}

#[test]
fn a_stored_object_stays_editable() {
    let bad = helmop(&good(json!({ "helm": { "version": "foo" } })));
    assert!(!review(&bad, || None).is_allowed());
    let unchanged = verdict(&bad, &bad);
    assert_eq!(
        unchanged,
        Decision::default(),
        "an unchanged spec passes without a word"
    );

    let edited = helmop(&good(json!({ "helm": { "version": "foo" }, "paused": true })));
    let edited = verdict(&edited, &bad);
    assert!(edited.is_allowed());
    let still_wrong = |warning: &String| warning.starts_with("not new, but still wrong: spec.helm.version");
    assert!(edited.warnings.iter().any(still_wrong), "{edited:?}");

    let worse = helmop(&good(json!({ "helm": { "version": "foo" }, "namespace": "A" })));
    let worse = verdict(&worse, &bad);
    assert!(
        matches!(worse.errors.told(), [error] if error.path == "spec.namespace"),
        "{worse:?}"
    );

    let other = helmop(&good(json!({ "helm": { "version": "bar" } })));
    assert!(
        !verdict(&other, &bad).is_allowed(),
        "another wrong value is a new error"
    );
}

#[test]
fn what_is_being_deleted_passes() {
    let mut bad = helmop(&good(json!({ "helm": { "version": "foo" } })));
    bad.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(review(&bad, || None), Decision::default());
}

#[test]
fn values_that_nest_too_deeply_are_refused() {
    let nested = |levels| (1..levels).fold(json!({ "a": 1 }), |inner, _| json!({ "a": inner }));
    let helm = |levels| json!({ "helm": { "values": nested(levels) } });
    assert_eq!(errors(&good(helm(100))), Vec::<String>::new());
    let words = &["nest 101 deep", "100 is the most", "flatter"];
    let spec = good(helm(101));
    assert_refused(&spec, "spec.helm.values", Reason::InvalidValues, words);
    let mut spec = good(json!({ "targets": [{}] }));
    spec["targets"][0] = helm(110);
    let words = &["nest 110 deep", "100 is the most"];
    assert_refused(&spec, "spec.targets[0].helm.values", Reason::InvalidValues, words);
}

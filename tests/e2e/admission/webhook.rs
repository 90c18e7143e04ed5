//! What kubectl shows to users: defaults, denials and warnings, through the API server.

use std::collections::BTreeSet;
use std::ops::Deref;

use helmops_bed::helmops;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::metrics::Metrics;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::shared::InUse;
use serde_json::{Value, json};

use crate::harness::beside_fleet::{Suite, suite};
use crate::harness::{helmop, run};

/// A namespace of the suite, which runs as long as the test uses it.
struct Namespace {
    namespace: TestNamespace,
    _suite: InUse<Suite>,
}

impl Deref for Namespace {
    type Target = TestNamespace;

    fn deref(&self) -> &TestNamespace {
        &self.namespace
    }
}

impl AsRef<Kubectl> for Namespace {
    fn as_ref(&self) -> &Kubectl {
        self.namespace.kubectl()
    }
}

async fn namespace() -> Namespace {
    let suite = suite().await;
    Namespace {
        namespace: TestNamespace::create(&suite.bed, "admit").await.unwrap(),
        _suite: suite,
    }
}

fn valid_spec() -> Value {
    json!({
        "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" },
        "targets": [{ "clusterSelector": {} }],
        "paused": true
    })
}

/// Asserts that the API server denies the HelmOp, and returns what kubectl prints.
async fn denied(namespace: &TestNamespace, spec: &Value) -> String {
    let output = namespace.kubectl().apply(&helmop("denied", spec)).await.unwrap();
    assert!(!output.status.success(), "{spec} was accepted");
    assert!(namespace.kubectl().get("helmop/denied").await.unwrap().is_none());
    output.stderr
}

#[tokio::test]
async fn go_durations_are_accepted() {
    let namespace = namespace().await;
    for interval in ["15s", "5m", "2h", "1h30m", "300ms", "1.5h", "100µs", "0", "0s"] {
        let mut spec = valid_spec();
        spec["pollingInterval"] = json!(interval);
        let kubectl = namespace.kubectl();
        kubectl
            .run_with_input(&["create", "--dry-run=server", "-f-"], &helmop("q1", &spec))
            .await
            .unwrap()
            .ok()
            .unwrap();
    }
}

#[tokio::test]
async fn invalid_durations_are_denied() {
    let namespace = namespace().await;
    for mistake in helmops_mistakes::of_group("durations") {
        let message = denied(&namespace, &mistake.object["spec"]).await;
        assert!(
            message.contains("spec.pollingInterval") && message.contains("must be a valid Go duration"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn polling_is_off_by_default_and_a_dry_run_stores_nothing() {
    let namespace = namespace().await;
    let kubectl = namespace.kubectl();
    let dry = [
        "apply",
        "--dry-run=server",
        "--output=jsonpath={.spec.pollingInterval}",
        "--filename=-",
    ];
    let printed = kubectl
        .run_with_input(&dry, &helmop("web", &valid_spec()))
        .await
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(printed, "0s");
    assert!(kubectl.get("helmop/web").await.unwrap().is_none());

    kubectl
        .apply(&helmop("web", &valid_spec()))
        .await
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(
        kubectl.get("helmop/web").await.unwrap().unwrap()["spec"]["pollingInterval"],
        "0s"
    );
    let null = r#"{"spec":{"pollingInterval":null}}"#;
    run(&kubectl, &["patch", "helmop/web", "--type=merge", "-p", null]).await;
    assert_eq!(
        kubectl.get("helmop/web").await.unwrap().unwrap()["spec"]["pollingInterval"],
        "0s"
    );
}

#[tokio::test]
async fn contradictory_chart_fields_are_denied() {
    let namespace = namespace().await;
    for mistake in helmops_mistakes::of_group("chart forms") {
        let message = denied(&namespace, &mistake.object["spec"]).await;
        let error = &mistake.errors[0];
        assert!(
            message.starts_with("The HelmOp \"denied\" is invalid: ")
                && message.contains(&format!("{}:", error.path))
                && error.words.iter().all(|word| message.contains(word)),
            "{message}"
        );
    }
}

#[tokio::test]
async fn all_errors_are_reported_together_in_the_form_of_the_api_server() {
    let namespace = namespace().await;
    let mut spec = valid_spec();
    spec["helm"]["version"] = json!("foo");
    spec["helm"]["repo"] = json!("ftp://charts.example.com");
    spec["labels"] = json!({ "team": "web shop" });
    let message = denied(&namespace, &spec).await;
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(
        lines[0].trim_end(),
        "The HelmOp \"denied\" is invalid:",
        "{message}"
    );
    assert!(
        lines[1].starts_with("* spec.helm.repo: Invalid value: \"ftp://charts.example.com\""),
        "{message}"
    );
    assert!(
        lines[2].starts_with("* spec.helm.version: Invalid value: \"foo\": improper constraint: \"foo\""),
        "{message}"
    );
    assert!(
        lines[3].starts_with("* spec.labels[team]: Invalid value: \"web shop\""),
        "{message}"
    );
    assert_eq!(lines.len(), 4, "{message}");
}

/// In whatever order they are created: the last one is denied. A change is not, since a commit may turn a dependency round.
#[tokio::test]
async fn a_cycle_of_dependencies_is_denied_for_a_new_helmop_only() {
    let namespace = namespace().await;
    let kubectl = namespace.kubectl();
    let on = |name: &str| {
        let mut spec = valid_spec();
        spec["lifecycle"] = json!({ "dependsOn": [{ "name": name }] });
        spec
    };
    for (name, other) in [("a", "b"), ("b", "c")] {
        kubectl
            .apply(&helmop(name, &on(other)))
            .await
            .unwrap()
            .ok()
            .unwrap();
    }
    let output = kubectl.apply(&helmop("c", &on("a"))).await.unwrap();
    assert!(!output.status.success());
    let expected = [
        "The HelmOp \"c\" is invalid: spec.lifecycle.dependsOn[0].name: Invalid value: \"a\"",
        "c -> a -> b -> c; remove one of the dependencies",
    ];
    for expected in expected {
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
    kubectl
        .apply(&helmop("b", &valid_spec()))
        .await
        .unwrap()
        .ok()
        .unwrap();
    kubectl.apply(&helmop("c", &on("a"))).await.unwrap().ok().unwrap();
    let output = kubectl.apply(&helmop("b", &on("c"))).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr);
    let expected = [
        "Warning: spec.lifecycle.dependsOn[0].name: \"c\": these HelmOps wait for each other",
        "b -> c -> a -> b; remove one of the dependencies",
    ];
    for expected in expected {
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
}

#[tokio::test]
async fn doubtful_helmops_are_stored_with_a_warning() {
    let namespace = namespace().await;
    let mut spec = valid_spec();
    spec["helm"]["version"] = json!("1.x");
    let output = namespace.kubectl().apply(&helmop("web", &spec)).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr);
    assert!(
        output
            .stderr
            .starts_with("Warning: spec.helm.version: \"1.x\" is resolved once"),
        "{}",
        output.stderr
    );
}

/// kubectl drops it before the API server sees it, and keeps it in its annotation.
#[tokio::test]
async fn a_null_that_kubectl_apply_drops_gets_a_warning() {
    let namespace = namespace().await;
    let mut spec = valid_spec();
    spec["helm"]["values"] = json!({ "limits": { "cpu": null } });
    let apply = ["apply", "--filename=-"];
    let kubectl = namespace.kubectl();
    let output = kubectl
        .run_with_input(&apply, &helmop("web", &spec))
        .await
        .unwrap();
    let expected = "Warning: spec.helm.values.limits.cpu: kubectl apply has dropped this null";
    assert!(output.stderr.contains(expected), "{output:?}");
}

/// Until a controller has observed it: tools that follow kstatus take an object without a status for ready.
#[tokio::test]
async fn a_new_helmop_is_in_progress() {
    let namespace = namespace().await;
    let create = [
        "create",
        "--dry-run=server",
        "--output=jsonpath={.status.observedGeneration}",
        "--filename=-",
    ];
    let kubectl = namespace.kubectl();
    let output = kubectl
        .run_with_input(&create, &helmop("web", &valid_spec()))
        .await;
    assert_eq!(output.unwrap().ok().unwrap(), "-1");
}

#[tokio::test]
async fn denials_are_counted_by_reason() {
    let suite = suite().await;
    let url = format!("{}/metrics", suite.webhook.running.admin);
    let denials = async || {
        let metrics = Metrics::scrape(&url).await.unwrap();
        metrics
            .sum(
                "helmops_admission_denials_total",
                &[("reason", "InvalidReleaseName")],
            )
            .unwrap()
    };
    let before = denials().await;
    let namespace = namespace().await;
    let mut spec = valid_spec();
    // Where the CRD has a rule, it comes first. So this test uses a rule that only the webhook has.
    spec["downstreamResources"] = json!([{ "kind": "Pod", "name": "a" }]);
    let message = denied(&namespace, &spec).await;
    assert!(
        message.contains("supported kinds: Secret, ConfigMap"),
        "{message}"
    );
    assert!((denials().await - before).abs() < f64::EPSILON);
    let metrics = Metrics::scrape(&url).await.unwrap();
    let count = metrics.sum(
        "helmops_admission_denials_total",
        &[("reason", "InvalidDownstreamResource")],
    );
    assert!(count.is_some_and(|count| count >= 1.0), "{count:?}");
}

#[tokio::test]
async fn kubectl_explain_documents_the_fields() {
    let namespace = namespace().await;
    let kubectl = namespace.kubectl();
    let printed = run(&kubectl, &["explain", "helmop.spec.helm.version"]).await;
    assert!(
        printed.contains("FIELD: version <string>") && printed.contains("Version of the chart"),
        "{printed}"
    );
    let all = run(&kubectl, &["explain", "helmop", "--recursive"]).await;
    for field in [
        "rolloutStrategy",
        "pollingInterval",
        "clusterSelector",
        "valuesFrom",
        "comparePatches",
    ] {
        assert!(all.contains(field), "{field}");
    }
}

#[tokio::test]
async fn the_shipped_examples_are_accepted() {
    let namespace = namespace().await;
    for file in std::fs::read_dir(helmops::manifests().join("examples")).unwrap() {
        let path = file.unwrap().path();
        let example = std::fs::read_to_string(&path).unwrap();
        let in_namespace = |example: String, other: &str| {
            let namespace = format!("namespace: {}", namespace.name());
            example.replace(&format!("namespace: {other}"), &namespace)
        };
        let namespaces = ["fleet-default", "fleet-local", "helmops-system"];
        let example = namespaces.into_iter().fold(example, in_namespace);
        // Its CRD is part of a standalone installation, whose tests apply it, or of the Gateway API.
        if ["Cluster", "Schedule", "HTTPRoute"]
            .iter()
            .any(|kind| example.contains(&format!("\nkind: {kind}\n")))
        {
            continue;
        }
        let dry = ["apply", "--dry-run=server", "--filename=-"];
        let output = namespace.kubectl().run_with_input(&dry, &example).await.unwrap();
        assert!(output.status.success(), "{}: {}", path.display(), output.stderr);
    }
}

fn yaml_blocks(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(helmops::manifests().join("../docs").join(document)).unwrap();
    let blocks = text.split("\n```yaml\n").skip(1);
    blocks
        .map(|block| block.split_once("\n```").unwrap().0.to_owned())
        .collect()
}

/// The paths of all fields below a schema, except those of label selectors.
fn schema_paths(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let items = schema.get("items").unwrap_or(schema);
    for (name, field) in items["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if !name.ends_with("Selector") && name != "selector" {
            schema_paths(field, &path, found);
        }
        found.insert(path);
    }
}

/// The paths of all fields of a value.
fn value_paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    for item in value.as_array().into_iter().flatten() {
        value_paths(item, path, found);
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        value_paths(field, &path, found);
        found.insert(path);
    }
}

/// In `docs/fields.md` every field that has a meaning for a HelmOp has an example, and every example is accepted.
#[tokio::test]
async fn every_field_has_an_example_that_is_accepted() {
    let namespace = namespace().await;
    let mut shown = BTreeSet::new();
    for block in ["fields.md", "lifecycle.md"].into_iter().flat_map(yaml_blocks) {
        let mut spec: Value = serde_saphyr::from_str(&block).unwrap();
        value_paths(&spec, "", &mut shown);
        let is_packed = ["git", "bucket", "oci", "configMaps"]
            .into_iter()
            .any(|source| !spec["chartSource"][source].is_null());
        if spec["helm"].is_null() && !is_packed {
            spec["helm"] = valid_spec()["helm"].clone();
        }
        let shown = serde_json::from_str(&helmop("shown", &spec)).unwrap();
        let rejection = namespace.kubectl().rejection(&shown).await.unwrap();
        assert_eq!(rejection, "", "{block}");
    }
    let crd = namespace
        .kubectl()
        .get("crd/helmops.fleet.cattle.io")
        .await
        .unwrap()
        .unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut all = BTreeSet::new();
    schema_paths(schema, "", &mut all);
    assert!(all.contains(".helm.valuesFrom.secretKeyRef.key"), "{all:?}");
    let meaningless = |path: &&String| {
        let internal = [
            "contentsId",
            "helmOpOptions",
            "kustomize",
            "overwrites",
            "resources",
            "valuesHash",
            "yaml",
        ];
        let first = path.split('.').nth(1).unwrap_or_default();
        // It is rejected in an installation, which has the same options as an upgrade.
        let of_upgrades = ".lifecycle.install.cleanupOnFail";
        internal.contains(&first)
            || [".helm.valuesFiles", of_upgrades].contains(&path.as_str())
            || path.starts_with(".lifecycle.requests")
    };
    // A target has the fields of the HelmOp itself, and these of its own, which need an example.
    let own = [
        ".targets.name",
        ".targets.clusterName",
        ".targets.doNotDeploy",
        ".targets.clusterGroup",
    ];
    let is_of_targets = |path: &&String| path.starts_with(".targets.") && !own.contains(&path.as_str());
    let missing: Vec<_> = all
        .difference(&shown)
        .filter(|path| !meaningless(path) && !is_of_targets(path))
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
}

//! `validate`: without a cluster, and in agreement with the API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use helmops_bed::command::{self, Output};
use helmops_bed::namespace::TestNamespace;
use helmops_bed::test_bed::binary;
use helmops_mistakes::{Mistake, NotificationMistake};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::beside_fleet::suite;

/// Runs `kubectl helmop validate` with an empty kubeconfig and without any other variable than `PATH`.
async fn validate(kubectl: &Path, arguments: &[&str], input: &str) -> Output {
    let plugin = binary("kubectl-helmop").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(kubectl);
    command
        .args(["helmop", "validate"])
        .args(arguments)
        .env_clear()
        .env("PATH", plugin.parent().unwrap())
        .env("HOME", folder.path())
        .env("KUBECONFIG", "/dev/null");
    command::run(command, input, Duration::from_mins(1))
        .await
        .unwrap()
}

#[tokio::test]
async fn files_are_validated_without_a_cluster() {
    let kubectl = suite().await.bed.tools.kubectl();
    let invalid = "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {name: web}\nspec:\n  helm:\n    \
                   repo: https://charts.example.com\n    chart: web\n    version: foo\n  targets: [{clusterSelector: {}}]\n";
    let output = validate(&kubectl, &["-f", "-"], invalid).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        output
            .stdout
            .starts_with("<stdin>:8:14: error[InvalidVersion]: spec.helm.version: Invalid value: \"foo\""),
        "{output:?}"
    );
    assert!(
        output
            .stdout
            .contains("8 |     version: foo\n  |              ^^^\n"),
        "{output:?}"
    );
    let valid = invalid.replace("foo", "1.2.3");
    let output = validate(&kubectl, &["-f", "-"], &valid).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        output.stdout,
        "1 file: 1 of 1 HelmOp valid; 0 errors, 0 warnings\n"
    );
    let output = validate(&kubectl, &["-f", "none.yaml"], "").await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// One mistake for each field and reason.
fn different() -> Vec<Mistake> {
    let mut found = BTreeMap::new();
    for mistake in helmops_mistakes::all() {
        // Large objects take long, and Policies are those of the namespace.
        if matches!(mistake.group, "limits" | "totals") || !mistake.policies.is_empty() {
            continue;
        }
        let error = &mistake.errors[0];
        found.entry((error.path.clone(), error.reason)).or_insert(mistake);
    }
    found.into_values().collect()
}

/// What `validate` reports of each object. They get different namespaces, since two of the same name in one are an error too.
async fn problems(kubectl: &Path, objects: impl Iterator<Item = Value>) -> Vec<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = BTreeMap::new();
    for (number, mut object) in objects.enumerate() {
        object["metadata"]["namespace"] = json!(format!("team-{number}"));
        let file = folder.path().join(format!("{number:03}.json"));
        std::fs::write(&file, object.to_string()).unwrap();
        files.insert(file.display().to_string(), Vec::new());
    }
    let folder = folder.path().display().to_string();
    let output = validate(kubectl, &["-o", "json", "-f", &folder], "").await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    for problem in report["problems"].as_array().unwrap() {
        let file = files.get_mut(problem["file"].as_str().unwrap()).unwrap();
        file.push(problem.clone());
    }
    files.into_values().collect()
}

#[tokio::test]
async fn what_validate_rejects_is_rejected_by_the_api_server() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "validate").await.unwrap();
    let mistakes = different();
    assert!(mistakes.len() > 60, "{}", mistakes.len());
    let object = |mistake: &Mistake| {
        let mut object = mistake.manifest();
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        object
    };
    let reported = problems(&suite.bed.tools.kubectl(), mistakes.iter().map(object)).await;
    for (mistake, problems) in mistakes.iter().zip(reported) {
        let (expected, object) = (&mistake.errors[0], object(mistake));
        let error = namespace.kubectl().rejection(&object).await.unwrap();
        assert_ne!(error, "", "{object} was accepted");
        // A rule in CEL is reported for the block that it is about.
        let path = expected.path.as_str();
        let mut blocks = std::iter::successors(Some(path), |path| Some(path.rsplit_once('.')?.0));
        let is_named = blocks.any(|block| error.contains(&format!("{block}:")));
        assert!(is_named, "{path}: {error}");

        assert_eq!(problems[0]["field"], path, "{problems:?}");
        assert_eq!(problems[0]["reason"], expected.reason, "{problems:?}");
    }
}

#[tokio::test]
async fn what_validate_rejects_of_notifications_is_rejected_by_the_api_server() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "validate-notifications")
        .await
        .unwrap();
    let mistakes = helmops_mistakes::notifications();
    for kind in ["AlertProvider", "Alert", "Receiver"] {
        assert!(mistakes.iter().any(|mistake| mistake.kind == kind), "{kind}");
    }
    let objects = mistakes.iter().map(NotificationMistake::manifest);
    let reported = problems(&suite.bed.tools.kubectl(), objects).await;
    for (mistake, problems) in mistakes.iter().zip(reported) {
        let (path, object) = (mistake.path(), mistake.manifest());
        let error = namespace.kubectl().rejection(&object).await.unwrap();
        assert!(
            error.contains(&format!("{path}: ")),
            "{path}: {error:?} for {object}"
        );

        let [problem] = &*problems else {
            panic!("{path}: {problems:?}");
        };
        let (field, message) = (
            problem["field"].as_str().unwrap(),
            problem["message"].as_str().unwrap(),
        );
        assert_eq!(field, path, "{problem}");
        assert!(
            format!("{field}: {message}").starts_with(&mistake.error),
            "{problem}"
        );
        assert!(problem["line"].as_u64().is_some_and(|line| line > 0), "{problem}");
    }
}

#[tokio::test]
async fn the_shipped_examples_are_valid() {
    let kubectl = suite().await.bed.tools.kubectl();
    let examples = helmops_bed::helmops::manifests().join("examples");
    // One by one: the Policy of an example forbids the repositories of others.
    for example in examples.read_dir().unwrap() {
        let example = example.unwrap().path();
        let output = validate(&kubectl, &["-f", &example.display().to_string()], "").await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[tokio::test]
async fn what_kustomize_builds_is_validated() {
    let kubectl = suite().await.bed.tools.kubectl();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "web.yaml",
        "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {name: web}\nspec:\n  helm: {repo: 'https://h', chart: c, \
         version: 1.2.3}\n  targets: [{clusterSelector: {}}]\n",
    );
    let patch = |version: &str| {
        let text = format!(
            "namespace: team\nresources: [web.yaml]\npatches:\n- patch: |\n    apiVersion: fleet.cattle.io/v1alpha1\n    kind: HelmOp\n    \
             metadata: {{name: web}}\n    spec: {{helm: {{version: {version}}}}}\n"
        );
        write("kustomization.yaml", &text);
    };
    for (version, code, expected) in [
        ("2.0.0", 0, "1 of 1 HelmOp valid"),
        ("foo", 1, "error[InvalidVersion]: spec.helm.version"),
    ] {
        patch(version);
        let mut build = Command::new(&kubectl);
        build.arg("kustomize").arg(folder.path());
        let printed = command::run(build, "", Duration::from_mins(1)).await.unwrap();
        let printed = printed.ok().unwrap();
        let output = validate(&kubectl, &["-n", "team", "-"], &printed).await;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(output.stdout.contains(expected), "{output:?}");
    }
}

#[tokio::test]
async fn commands_without_a_cluster_run_as_a_plugin() {
    let kubectl = suite().await.bed.tools.kubectl();
    let plugin = binary("kubectl-helmop").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man").display().to_string();
    for (arguments, expected) in [
        (&["explain", "InvalidVersion"][..], "What to do:"),
        (&["completion", "bash"], "complete -F"),
        (&["completion", "kubectl"], "#!/usr/bin/env bash"),
        (&["man", &pages], ""),
    ] {
        let mut command = Command::new(&kubectl);
        command
            .arg("helmop")
            .args(arguments)
            .env_clear()
            .env("PATH", plugin.parent().unwrap())
            .env("HOME", folder.path());
        let output = command::run(command, "", Duration::from_mins(1)).await.unwrap();
        let printed = output.ok().unwrap();
        assert!(printed.contains(expected), "{arguments:?}: {printed}");
    }
    let page = std::fs::read_to_string(folder.path().join("man/kubectl-helmop-validate.1")).unwrap();
    assert!(page.contains("\\-\\-exclude"), "{page}");
}

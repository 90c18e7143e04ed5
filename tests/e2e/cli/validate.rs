//! `validate`: without a cluster, and in agreement with the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use helmops_bed::command::{self, Output};
use helmops_bed::namespace::TestNamespace;
use helmops_bed::test_bed::binary;
use helmops_mistakes::Mistake;
use serde_json::Value;
use tokio::process::Command;

use crate::harness::beside_fleet::suite;

/// Runs `kubectl helmop validate` with an empty kubeconfig and without any other variable than `PATH`.
async fn validate(kubectl: &std::path::Path, arguments: &[&str], input: &str) -> Output {
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

#[tokio::test]
async fn what_validate_rejects_is_rejected_by_the_api_server() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "validate").await.unwrap();
    let mistakes = different();
    assert!(mistakes.len() > 60, "{}", mistakes.len());
    for mistake in mistakes {
        let mut object = mistake.manifest();
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        let text = object.to_string();
        let path = &mistake.errors[0].path;

        let dry = ["create", "--dry-run=server", "--filename=-"];
        let denied = namespace.kubectl().run_with_input(&dry, &text).await.unwrap();
        assert!(!denied.status.success(), "{text} was accepted");
        // A rule in CEL is reported for the block that it is about.
        let mut blocks = std::iter::successors(Some(path.as_str()), |path| Some(path.rsplit_once('.')?.0));
        let is_named = blocks.any(|block| denied.stderr.contains(&format!("{block}:")));
        assert!(is_named, "{path}: {}", denied.stderr);

        let output = validate(&suite.bed.tools.kubectl(), &["-o", "json", "-f", "-"], &text).await;
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(report["problems"][0]["field"], **path, "{report}");
        assert_eq!(
            report["problems"][0]["reason"], mistake.errors[0].reason,
            "{report}"
        );
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
    for mistake in mistakes {
        let text = mistake.manifest().to_string();
        let path = mistake.path();
        let dry = ["create", "--dry-run=server", "--filename=-"];
        let denied = namespace.kubectl().run_with_input(&dry, &text).await.unwrap();
        assert!(!denied.status.success(), "{text} was accepted");
        assert!(
            denied.stderr.contains(&format!("{path}: ")),
            "{path}: {}",
            denied.stderr
        );

        let output = validate(&suite.bed.tools.kubectl(), &["-o", "json", "-f", "-"], &text).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        let [problem] = &**report["problems"].as_array().unwrap() else {
            panic!("{report}");
        };
        let (field, message) = (
            problem["field"].as_str().unwrap(),
            problem["message"].as_str().unwrap(),
        );
        assert_eq!(field, path, "{report}");
        assert!(
            format!("{field}: {message}").starts_with(&mistake.error),
            "{report}"
        );
        assert!(problem["line"].as_u64().is_some_and(|line| line > 0), "{report}");
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

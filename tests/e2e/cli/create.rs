//! `create` and `export`.

use anyhow::{Context, ensure};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::environment::Environment;
use crate::harness::SOON;
use crate::harness::agent::CONFIG;

/// A workload and what belongs to it: none of them may change.
const WORKLOAD: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  labels: {app: web}
spec:
  replicas: {{ .Values.replicas | default 2 }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: \"nginx:{{ .Chart.Version }}\"
---
apiVersion: v1
kind: Service
metadata: {name: \"{{ .Release.Name }}\"}
spec:
  selector: {app: web}
  ports: [{port: 80}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: \"{{ .Release.Name }}\"}
";
const TEST: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-test\n  annotations: {helm.sh/hook: test}\nspec: {restartPolicy: Never, containers: [{name: a, image: a}]}\n";

const KINDS: [&str; 4] = ["deployment", "service", "serviceaccount", "configmap"];

/// All objects of a release, whole.
async fn objects(environment: &Environment, release: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for kind in KINDS {
        let name = match kind {
            "configmap" => format!("{release}-config"),
            _ => release.to_owned(),
        };
        let object = environment.cluster.object(&format!("{kind}/{name}")).await;
        found.push(object.unwrap());
    }
    found
}

#[tokio::test]
async fn a_helmop_from_flags_is_created_deployed_and_exported() {
    let environment = Environment::new("cli-create").await;
    let (url, apps) = (environment.cluster.charts.url(), environment.apps());
    let mut arguments = vec![
        "create",
        "web",
        "--repo",
        &url,
        "--chart=web",
        "--version=1.x",
        "--poll=15m",
        "--set",
        "msg=hi",
        "--cluster=c0",
        "--target-namespace",
        apps,
    ];
    let mut tried = arguments.clone();
    tried.push("--dry-run=server");
    assert_eq!(
        environment.ok(&tried).await,
        "helmop.fleet.cattle.io/web created (server dry run)\n"
    );
    tried.extend(["-o", "yaml"]);
    assert!(environment.ok(&tried).await.contains("pollingInterval: 15m"));
    assert_eq!(
        environment.ok(&arguments).await,
        "helmop.fleet.cattle.io/web created\n"
    );
    environment.until_revision("web", "web", 1).await;
    environment.cluster.until_msg("web", "hi").await;

    let exported = environment.ok(&["export", "web"]).await;
    let expected = format!(
        "\
apiVersion: fleet.cattle.io/v1alpha1
kind: HelmOp
metadata:
  name: web
  namespace: {}
spec:
  defaultNamespace: {apps}
  helm:
    chart: web
    repo: {url}
    values:
      msg: hi
    version: 1.x
  pollingInterval: 15m
  targets:
  - clusterName: c0
",
        environment.workspace()
    );
    assert_eq!(exported, expected);

    let error = environment.fails(1, &arguments).await;
    assert!(
        error.contains("HelmOp \"web\" in namespace") && error.contains("exists already"),
        "{error}"
    );
    arguments[1] = "other";
    arguments[5] = "--version=>>1";
    let error = environment.fails(1, &arguments).await;
    assert!(
        error.contains("spec.helm.version") && error.contains(">>1"),
        "{error}"
    );
    let error = environment.fails(1, &["export", "other"]).await;
    assert!(error.contains("there is no HelmOp \"other\""), "{error}");
}

/// The workload keeps its resource version, and the next version is an upgrade by the agent.
#[tokio::test]
async fn a_release_that_helm_has_installed_is_adopted_without_a_change() {
    let environment = Environment::new("cli-adopt").await;
    let charts = &environment.cluster.charts;
    let files = [("workload", WORKLOAD), ("config", CONFIG), ("test", TEST)];
    charts.web("1.0.0", &files).await;
    charts.web("1.1.0", &files).await;
    let url = charts.url();
    let install = [
        "install",
        "shop",
        "web",
        "--repo",
        &url,
        "--version=1.0.0",
        "--set",
        "msg=by hand,replicas=3",
    ];
    environment.user_helm(&install).await;
    // The controller manager writes the status of the Deployment, some moments later.
    eventually("the status of the Deployment", SOON, async || {
        let deployment = environment.cluster.object("deployment/shop").await;
        let status = &deployment.context("there is none")?["status"];
        ensure!(status["updatedReplicas"] == 3, "{status}");
        Ok(())
    })
    .await
    .unwrap();
    let before = objects(&environment, "shop").await;
    let release = format!("{}/shop", environment.apps());

    let error = environment
        .fails(2, &["create", "--from-release", &release, "--cluster=c0"])
        .await;
    assert!(error.contains("set --repo"), "{error}");
    let adopt = [
        "create",
        "web",
        "--from-release",
        &release,
        "--repo",
        &url,
        "--cluster=c0",
    ];
    let mut changed = adopt.to_vec();
    changed.extend(["--set", "msg=other"]);
    let error = environment.fails(1, &changed).await;
    assert!(
        error.contains("would not be adopted as it is") && error.contains("shop-config"),
        "{error}"
    );
    assert_eq!(
        environment.ok(&adopt).await,
        "helmop.fleet.cattle.io/web created\n"
    );

    environment.until_revision("web", "shop", 1).await;
    let deployment = environment.helmops.deployment(0, "web").await;
    assert_eq!(
        deployment["status"]["nonModified"], true,
        "{}",
        deployment["status"]
    );
    assert_eq!(objects(&environment, "shop").await, before);
    assert_eq!(environment.cluster.records().await.len(), 1);
    let runs = environment.cluster.helm_runs_of("shop");
    assert_eq!(runs, ["render"], "nothing but a rendering");
    let error = environment
        .fails(
            1,
            &["create", "other", "--from-release", &release, "--repo", &url],
        )
        .await;
    assert!(error.contains("BundleDeployment \"web\""), "{error}");

    let version = json!({ "spec": { "helm": { "version": "1.1.0" } } });
    environment.helmops.patch("helmop/web", &version).await;
    environment.until_revision("web", "shop", 2).await;
    let after = objects(&environment, "shop").await;
    let image = after[0].pointer("/spec/template/spec/containers/0/image");
    assert_eq!(image, Some(&json!("nginx:1.1.0")));
    for (after, before) in after.iter().zip(&before) {
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert!(after["metadata"]["labels"]["objectset.rio.cattle.io/hash"].is_string());
    }
    assert_eq!(environment.cluster.msg("shop").await.as_deref(), Some("by hand"));
}

/// Drift of an adopted release is found although no watch has its objects.
#[tokio::test]
async fn drift_of_an_adopted_release_is_found_and_corrected() {
    let environment = Environment::new("cli-drift").await;
    let url = environment.cluster.charts.url();
    environment
        .user_helm(&["install", "shop", "web", "--repo", &url, "--version=1.0.0"])
        .await;
    let release = format!("{}/shop", environment.apps());
    environment
        .ok(&[
            "create",
            "web",
            "--from-release",
            &release,
            "--repo",
            &url,
            "--cluster=c0",
        ])
        .await;
    environment.until_revision("web", "shop", 1).await;
    let correct = json!({ "spec": { "correctDrift": { "enabled": true } } });
    environment.helmops.patch("helmop/web", &correct).await;
    let change = [
        "patch",
        "configmap/shop-config",
        "--type=merge",
        "-p",
        r#"{"data":{"msg":"changed"}}"#,
    ];
    environment.cluster.kubectl(&change).await;
    eventually("the correction", 2 * SOON, async || {
        let msg = environment.cluster.msg("shop").await;
        anyhow::ensure!(msg.as_deref() == Some("hello"), "it is {msg:?}");
        Ok(())
    })
    .await
    .unwrap();
    // Its removal is an uninstallation like any other.
    environment.helmops.kubectl(&["delete", "helmop/web"]).await;
    environment.cluster.until_none("configmap/shop-config").await;
}

#[tokio::test]
async fn a_helmrelease_is_converted_and_deployed() {
    let environment = Environment::new("cli-flux").await;
    let (url, apps) = (environment.cluster.charts.url(), environment.apps());
    let file = format!(
        "\
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {{name: charts, namespace: {apps}}}
spec: {{url: \"{url}\"}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {{name: web, namespace: {apps}}}
spec:
  interval: 10m
  chart:
    spec:
      chart: web
      version: 1.0.0
      sourceRef: {{kind: HelmRepository, name: charts}}
  upgrade:
    preserveValues: true
  commonMetadata: {{labels: {{team: shop}}}}
  install: {{remediation: {{retries: 2}}}}
  values: {{msg: converted}}
"
    );
    let arguments = ["create", "--from-helmrelease", "-", "--cluster=c0"];
    let refused = environment.helmop_with(&arguments, &file).await;
    assert_eq!(
        (refused.status.code(), &*refused.stdout),
        (Some(1), ""),
        "{refused:?}"
    );
    let expected =
        "refused: <stdin>:17:5: HelmRelease APPS/web: spec.upgrade.preserveValues: values of the revision before are never kept"
            .replace("APPS", apps);
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    let arguments = [&arguments[..], &["--accept=preserveValues"]].concat();
    let output = environment.helmop_with(&arguments, &file).await;
    assert_eq!(
        output.stdout, "helmop.fleet.cattle.io/web created\n",
        "{output:?}"
    );
    let expected = expected.replace("refused:", "warning:");
    assert!(output.stderr.contains(&expected), "{}", output.stderr);
    environment.until_revision("web", "web", 1).await;
    environment.cluster.until_msg("web", "converted").await;
}

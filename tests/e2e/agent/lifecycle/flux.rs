//! Three `HelmReleases` of Flux's documentation, written as HelmOps, from the webhook to the release: what the documentation says of each
//! happens. Times are shorter.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::random;
use helmops_bed::wait::eventually;
use helmops_release::record::Status;
use serde_json::{Value, json};

use super::state;
use crate::harness::agent::CONFIG;
use crate::harness::joined::Fixture;
use crate::harness::{condition, message, until};

/// Four attempts, with pods, tests and rollbacks.
const LONG: Duration = Duration::from_mins(2);

/// A Deployment with as many replicas as the values have, and pods that become ready.
const DEPLOYMENT: &str = r"apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicaCount }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: web, image: web}]}
";
/// A test that fails in version 6.5.2.
const TEST: &str = r#"apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation
    helmops.test/exit: {{ if eq .Chart.Version "6.5.2" }}"1"{{ else }}"0"{{ end }}
    helmops.test/log: connection refused
spec:
  restartPolicy: Never
  containers: [{name: test, image: test}]
"#;

async fn until_state(fixture: &Fixture, name: &str, r#type: &str, expected: &str) -> Value {
    let object = format!("bundledeployment/{name}");
    fixture
        .workspace
        .until_on(0, &object, |found| {
            let state = state(found, r#type);
            ensure!(
                state == expected,
                "{type} is {state:?}: {}",
                found["status"]["conditions"]
            );
            Ok(())
        })
        .await
}

/// Waits until the HelmOp is ready with a version, which its release has.
async fn until_version(fixture: &Fixture, name: &str, version: &str) -> Value {
    let helmop = format!("helmop/{name}");
    fixture
        .workspace
        .until(&helmop, |found| {
            ensure!(
                found["status"]["version"] == version,
                "it is {}",
                found["status"]["version"]
            );
            Ok(())
        })
        .await;
    fixture.workspace.until_ready_is(&helmop, "Ready").await;
    let found = fixture.workspace.deployment(0, name).await;
    let newest = &found["status"]["lifecycle"]["history"][0];
    assert_eq!(
        (&newest["version"], &newest["outcome"]),
        (&json!(version), &json!("deployed"))
    );
    found
}

async fn scale(fixture: &Fixture, release: &str, replicas: u8) {
    let replicas = format!("--replicas={replicas}");
    fixture.clusters[0]
        .kubectl(&["scale", "deployment", release, &replicas])
        .await;
}

async fn set_msg(fixture: &Fixture, release: &str, msg: &str) {
    let (name, patch) = (format!("{release}-config"), json!({ "data": { "msg": msg } }));
    fixture.clusters[0]
        .kubectl(&[
            "patch",
            "configmap",
            &name,
            "--type=merge",
            "-p",
            &patch.to_string(),
        ])
        .await;
}

/// The `HelmRelease` that the documentation begins with: a range of versions, three retries of installations and upgrades, tests, and
/// corrected drift but for the replicas of Deployments.
#[tokio::test]
async fn the_introductory_release_behaves_as_documented() {
    let fixture = Fixture::new("flux-intro", 1).await;
    let cluster = &fixture.clusters[0];
    let templates = [("config", CONFIG), ("deployment", DEPLOYMENT), ("test", TEST)];
    for version in ["6.4.9", "6.5.0", "6.6.0"] {
        fixture.charts().web(version, &templates).await;
    }
    let policy = json!({
        "pollingInterval": "1s",
        "helm": { "version": "6.5.*", "releaseName": "intro", "values": { "replicaCount": 2 } },
        "lifecycle": {
            "wait": { "timeout": "20s" },
            "install": { "retries": 3, "retryInterval": "1s", "remediation": "uninstall" },
            "upgrade": { "retries": 3, "retryInterval": "1s", "remediation": "rollback" },
            "test": { "enable": true },
            "drift": { "mode": "enabled", "ignore": [{ "paths": ["/spec/replicas"], "target": { "kind": "Deployment" } }] },
        },
    });
    fixture.apply("web", &policy).await;

    // The newest version in the range is installed and tested.
    let found = until_version(&fixture, "web", "6.5.0").await;
    assert_eq!(state(&found, "Released"), "True InstallSucceeded");
    assert_eq!(state(&found, "TestSuccess"), "True TestSucceeded");
    assert_eq!(cluster.helm_runs_of("intro"), ["install", "test"]);

    // Drift is corrected, but not that of the replicas.
    scale(&fixture, "intro", 3).await;
    let image = ["set", "image", "deployment/intro", "web=other"];
    cluster.kubectl(&image).await;
    until(&cluster.apps, "deployment/intro", |found| {
        let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
        ensure!(image == "web", "it is {image}");
        Ok(())
    })
    .await;
    set_msg(&fixture, "intro", "mine").await;
    cluster.until_msg("intro", "hello").await;
    let deployment = cluster.object("deployment/intro").await.unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(cluster.helm_runs_of("intro").len(), 2, "without Helm");

    // A new version is deployed by itself, and tested. It overrides fields of others.
    fixture.charts().web("6.5.1", &templates).await;
    let found = until_version(&fixture, "web", "6.5.1").await;
    assert_eq!(state(&found, "Released"), "True UpgradeSucceeded");
    assert_eq!(
        cluster.helm_runs_of("intro"),
        ["install", "test", "upgrade", "test"]
    );

    let deployment = cluster.object("deployment/intro").await.unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);

    // One whose test fails is rolled back, tried three times more, and rolled back again.
    fixture.charts().web("6.5.2", &templates).await;
    let found = eventually("the retries to be used up", LONG, async || {
        let found = fixture.workspace.on(0, "bundledeployment/web").await?;
        let found = found.context("there is none")?;
        ensure!(
            found["status"]["lifecycle"]["failures"] == 4,
            "{}",
            found["status"]["lifecycle"]
        );
        ensure!(
            state(&found, "Remediated") == "True RollbackSucceeded",
            "not rolled back"
        );
        Ok(found)
    })
    .await
    .unwrap();
    let attempt = ["upgrade", "test", "rollback"];
    let expected = [&["install", "test", "upgrade", "test"][..], &attempt.repeat(4)].concat();
    assert_eq!(cluster.helm_runs_of("intro"), expected);
    assert_eq!(state(&found, "TestSuccess"), "False TestFailed");
    assert_eq!(
        found["status"]["lifecycle"]["history"].as_array().unwrap().len(),
        5
    );
    let text = message(&found, "Deployed");
    for part in [
        "6.5.2 failed (attempt 4)",
        "connection refused",
        "rolled back",
        "once an hour",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    // The HelmOp shows it.
    let helmop = fixture
        .workspace
        .until("helmop/web", |found| {
            let counts = &found["status"]["lifecycle"];
            ensure!(
                counts["failed"] == 1 && counts["remediated"] == 1 && counts["testFailed"] == 1,
                "{counts}"
            );
            ensure!(state(found, "Ready") == "False NotReady", "it is ready");
            Ok(())
        })
        .await;
    assert!(
        message(&helmop, "Ready").contains("connection refused"),
        "{}",
        message(&helmop, "Ready")
    );
}

/// The `HelmReleases` `backend` and `frontend`, whose versions have to agree: `readyExpr` of a dependency.
#[tokio::test]
async fn the_dependency_with_an_expression_behaves_as_documented() {
    let fixture = Fixture::new("flux-depends", 1).await;
    let cluster = &fixture.clusters[0];
    let ready = "dep.metadata.labels['app/version'] == self.metadata.labels['app/version'] && \
        dep.status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True') && \
        dep.spec.deploymentID == dep.status.appliedDeploymentID";
    let spec = |version: &str, lifecycle: Value| {
        json!({
            "labels": { "app/version": version },
            "helm": { "version": "1.0.0", "values": { "msg": version } },
            "lifecycle": lifecycle,
        })
    };
    let frontend = |version| {
        spec(
            version,
            json!({ "dependsOn": [{ "name": "backend", "ready": ready }] }),
        )
    };
    // The ConfigMap decides when the backend is ready.
    let is_ready = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "current": "has(metadata.labels.go)" }]);
    let backend = |version| spec(version, json!({ "wait": { "expressions": is_ready } }));
    let go = async |go: &str| {
        cluster
            .kubectl(&["label", "configmap", "backend-config", "--overwrite", go])
            .await;
    };
    let waits = async |part: &str| {
        fixture
            .workspace
            .until_on(0, "bundledeployment/frontend", |found| {
                let deployed = condition(found, "Deployed").context("not reported")?;
                let text = deployed["message"].as_str().unwrap_or_default();
                ensure!(
                    deployed["status"] == "False" && text.contains(part),
                    "it is {deployed}"
                );
                Ok(())
            })
            .await;
    };

    fixture.apply("frontend", &frontend("1")).await;
    waits("not on this cluster").await;
    fixture.apply("backend", &backend("1")).await;
    until_state(&fixture, "backend", "Released", "Unknown Progressing").await;
    assert_eq!(cluster.msg("frontend").await, None, "the backend is not ready");
    go("go=1").await;
    cluster.until_msg("frontend", "1").await;

    // The version of the frontend comes first, and waits for that of the backend.
    fixture.apply("frontend", &frontend("2")).await;
    waits("is not true").await;
    fixture.apply("backend", &backend("2")).await;
    cluster.until_msg("frontend", "2").await;
    assert_eq!(cluster.msg("backend").await.as_deref(), Some("2"));
    assert_eq!(cluster.helm_runs_of("frontend"), ["install", "upgrade"]);
}

/// A CRD in these versions, whose objects have the condition `Synced`.
fn crd(group: &str, versions: &[&str]) -> String {
    let schema = json!({ "openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": { "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
    } });
    let versions = versions.iter().enumerate().map(|(index, name)| {
        json!({ "name": name, "served": true, "storage": index == 0, "schema": schema, "subresources": { "status": {} } })
    });
    let versions: Vec<_> = versions.collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("sealedthings.{group}") },
        "spec": { "group": group, "scope": "Namespaced", "versions": versions,
            "names": { "kind": "SealedThing", "plural": "sealedthings" } },
    })
    .to_string()
}

/// The `HelmRelease` with `healthCheckExprs` for a custom resource, with the policies for CRDs and the strategy `RetryOnFailure` of the
/// recommended settings.
#[tokio::test]
async fn the_release_with_health_expressions_behaves_as_documented() {
    let fixture = Fixture::new("flux-health", 1).await;
    let cluster = &fixture.clusters[0];
    let group = format!("{}.example.com", random::word());
    let thing = format!(
        "apiVersion: {group}/v1\nkind: SealedThing\nmetadata: {{name: {{{{ .Release.Name }}}}}}\nspec: {{msg: {{{{ .Values.msg | quote }}}}}}\n"
    );
    for (version, versions) in [("1.0.1", &["v1"][..]), ("1.0.2", &["v1", "v2"])] {
        let crd = crd(&group, versions);
        let files = [
            ("templates/config.yaml", CONFIG),
            ("templates/thing.yaml", &*thing),
            ("crds/things.yaml", &*crd),
        ];
        fixture.charts().add("web", version, &files).await;
    }
    let synced = |status: &str| {
        format!("status.conditions.filter(e, e.type == 'Synced').all(e, e.status == '{status}')")
    };
    let expression = json!({ "apiVersion": format!("{group}/v1"), "kind": "SealedThing",
        "failed": synced("False"), "current": synced("True") });
    let action = json!({ "crds": "CreateReplace", "retries": 100, "retryInterval": "2s" });
    let spec = |version: &str| {
        json!({
            "helm": { "version": version },
            "lifecycle": { "install": action, "upgrade": action, "wait": { "timeout": "10m", "expressions": [expression] } },
        })
    };
    let set_synced = async |status: &str| {
        let status =
            json!({ "status": { "conditions": [{ "type": "Synced", "status": status }] } }).to_string();
        let object = format!("sealedthings.{group}/web");
        cluster
            .kubectl(&[
                "patch",
                &object,
                "--subresource=status",
                "--type=merge",
                "-p",
                &status,
            ])
            .await;
    };
    let name = format!("crd/sealedthings.{group}");
    let served = async || -> Result<usize> {
        let crd = cluster.object(&name).await.context("no CRD")?;
        Ok(crd["spec"]["versions"].as_array().map_or(0, Vec::len))
    };

    // The CRD is created before the object. A field that does not exist yet is no failure.
    fixture.apply("web", &spec("1.0.1")).await;
    let found = until_state(&fixture, "web", "Released", "Unknown Progressing").await;
    assert!(
        message(&found, "Released").contains("sealedthing"),
        "{}",
        message(&found, "Released")
    );
    assert_eq!(served().await.unwrap(), 1);
    set_synced("True").await;
    until_version(&fixture, "web", "1.0.1").await;

    // An upgrade replaces the CRD. What has failed is not waited for, is not remediated, and is tried again.
    set_synced("False").await;
    fixture.apply("web", &spec("1.0.2")).await;
    let found = eventually("a second attempt", LONG, async || {
        let found = fixture.workspace.on(0, "bundledeployment/web").await?;
        let found = found.context("there is none")?;
        let failures = found["status"]["lifecycle"]["failures"]
            .as_i64()
            .unwrap_or_default();
        ensure!(failures > 1, "{}", found["status"]["lifecycle"]);
        Ok(found)
    })
    .await
    .unwrap();
    assert_eq!(served().await.unwrap(), 2);
    assert_eq!(state(&found, "Remediated"), "");
    assert!(
        message(&found, "Deployed").contains("'False'"),
        "{}",
        message(&found, "Deployed")
    );
    assert!(
        !cluster.helm_runs_of("web").contains(&"rollback".to_owned()),
        "{:?}",
        cluster.helm_runs_of("web")
    );
    set_synced("True").await;
    let found = until_state(&fixture, "web", "Released", "True UpgradeSucceeded").await;
    assert_eq!(found["status"]["lifecycle"]["failures"], Value::Null);
    let records = cluster.records().await;
    let newest = u64::try_from(records.len()).unwrap();
    let (_, record) = cluster.record("web", newest).await.unwrap();
    assert_eq!(record.info.status, Status::Deployed);

    // It goes with its HelmOp, and the CRD stays.
    fixture.workspace.kubectl(&["delete", "helmop/web"]).await;
    cluster.until_none("configmap/web-config").await;
    until(&fixture.workspace.namespace, &name, |_| Ok(())).await;
    cluster.kubectl(&["delete", &name]).await;
}

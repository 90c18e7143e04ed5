//! Waiting, dependencies, drift, CRDs and the end of a release.

use helmops_bed::random;
use helmops_release::record::ApplyMethod;
use serde_json::{Value, json};

use super::{spec, state, until_state};
use crate::harness::agent::{CONFIG, Fixture};
use crate::harness::message;

/// Sets `msg` of the ConfigMap of a release.
async fn edit(fixture: &Fixture, release: &str, msg: &str) {
    let patch = json!({ "data": { "msg": msg } }).to_string();
    let name = format!("{release}-config");
    fixture
        .kubectl(&["patch", "configmap", &name, "--type=merge", "-p", &patch])
        .await;
}

#[tokio::test]
async fn an_expression_decides_when_an_object_is_ready() {
    let fixture = Fixture::new("options-wait").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let ready = json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": "data.msg == 'go'" });
    let mut spec = spec("stop", &json!({}));
    spec["lifecycle"]["wait"] = json!({ "timeout": "1m", "expressions": [ready] });
    fixture.deploy("web", "1.0.0", &spec).await;
    let found = until_state(&fixture, "web", "Released", "Unknown Progressing").await;
    assert_eq!(state(&found, "Deployed"), "Unknown Progressing");
    for condition in ["Released", "Deployed"] {
        let text = message(&found, condition);
        assert!(
            text.contains("data.msg == 'go'") && text.contains("since 20"),
            "{text}"
        );
    }
    edit(&fixture, &release, "go").await;
    until_state(&fixture, "web", "Released", "True InstallSucceeded").await;
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}

#[tokio::test]
async fn an_expression_decides_when_a_dependency_is_ready() {
    let fixture = Fixture::new("options-depends").await;
    let _agent = fixture.start().await;
    let ready = "dep.status.ready && dep.spec.options.helm.values.msg == 'go'";
    let dependency = json!({ "name": fixture.name("db"), "ready": ready });
    fixture
        .deploy("web", "1.0.0", &spec("x", &json!({ "dependsOn": [dependency] })))
        .await;
    fixture
        .until_error(
            "web",
            "Deployed",
            &["lifecycle.dependsOn[0]", "not on this cluster"],
        )
        .await;
    fixture.deploy("db", "1.0.0", &spec("stop", &json!({}))).await;
    fixture.until_ready("db").await;
    fixture
        .until_error("web", "Deployed", &["lifecycle.dependsOn[0]", "is not true"])
        .await;
    fixture.deploy("db", "1.0.0", &spec("go", &json!({}))).await;
    fixture.until_ready("web").await;
}

#[tokio::test]
async fn drift_is_corrected_ignored_or_not_looked_for() {
    let fixture = Fixture::new("options-drift").await;
    let _agent = fixture.start().await;
    let ignored = json!({ "mode": "enabled", "ignore": [{ "paths": ["/data/msg"], "target": { "kind": "ConfigMap", "name": ".*-config" } }] });
    for (name, drift) in [
        ("corrected", json!({ "mode": "enabled" })),
        ("reported", json!({ "mode": "warn" })),
        ("disabled", json!({ "mode": "disabled" })),
        ("ignored", ignored),
    ] {
        fixture
            .deploy(name, "1.0.0", &spec("chart", &json!({ "drift": drift })))
            .await;
        fixture.until_ready(name).await;
    }
    for name in ["disabled", "ignored", "reported", "corrected"] {
        edit(&fixture, &fixture.name(name), "mine").await;
    }
    fixture.until_error("reported", "Ready", &["modified"]).await;
    fixture.until_msg(&fixture.name("corrected"), "chart").await;
    fixture.barrier().await;
    for name in ["disabled", "ignored"] {
        fixture.until_ready(name).await;
        assert_eq!(
            fixture.msg(&fixture.name(name)).await.as_deref(),
            Some("mine"),
            "{name}"
        );
    }
}

/// As charts are with `takeOwnership`, and those of Helm 3. With server-side apply alone, a field that a new version does not have any
/// more would stay, because the manager of the earlier way owns it.
#[tokio::test]
async fn a_release_with_client_side_apply_passes_to_server_side_apply_when_drift_is_corrected() {
    let fixture = Fixture::new("options-passes").await;
    let with_old = format!("{CONFIG}  old: \"1\"\n");
    fixture.charts.web("2.0.0", &[("config", &with_old)]).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let config = format!("configmap/{release}-config");
    let spec = |msg: &str, parts: &Value| {
        let mut spec = spec(msg, parts);
        spec["options"]["helm"]["takeOwnership"] = json!(true);
        spec
    };
    let method = async |revision| {
        let (_, record) = fixture.record(&release, revision).await.unwrap();
        record.apply_method()
    };
    fixture.deploy("web", "2.0.0", &spec("a", &json!({}))).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "2.0.0", &spec("b", &json!({}))).await;
    fixture.until_revision("web", 2).await;
    assert_eq!([method(1).await, method(2).await], [ApplyMethod::ClientSide; 2]);
    // Another client has a field of its own, which stays, and one of the release.
    edit(&fixture, &release, "mine").await;
    let own = json!({ "data": { "own": "1" } }).to_string();
    fixture
        .kubectl(&["patch", &config, "--type=merge", "-p", &own])
        .await;

    let corrected = json!({ "drift": { "mode": "enabled" } });
    fixture.deploy("web", "1.0.0", &spec("c", &corrected)).await;
    fixture.until_revision("web", 3).await;
    assert_eq!(method(3).await, ApplyMethod::ServerSide);
    let live = fixture.object(&config).await.unwrap();
    assert_eq!(live["data"], json!({ "msg": "c", "own": "1" }));
    edit(&fixture, &release, "mine").await;
    fixture.until_msg(&release, "c").await;
    fixture.barrier().await;
    let expected = ["install", "upgrade", "upgrade"];
    assert_eq!(
        fixture.helm_runs_of(&release),
        expected,
        "a correction is no revision"
    );
}

/// Without the policy an installation with `takeOwnership` is client-side, as in Fleet, and so are all upgrades after it.
#[tokio::test]
async fn with_a_policy_for_installations_objects_are_taken_over_with_server_side_apply() {
    let fixture = Fixture::new("options-takes-over").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let config = format!("{release}-config");
    fixture
        .kubectl(&["create", "configmap", &config, "--from-literal=msg=mine"])
        .await;
    let spec = |msg| {
        let mut spec = spec(msg, &json!({ "install": {}, "upgrade": {} }));
        spec["options"]["helm"]["takeOwnership"] = json!(true);
        spec
    };
    for (revision, msg) in [(1, "a"), (2, "b")] {
        fixture.deploy("web", "1.0.0", &spec(msg)).await;
        fixture.until_revision("web", revision).await;
        fixture.until_msg(&release, msg).await;
        let (_, record) = fixture.record(&release, revision).await.unwrap();
        assert_eq!(record.apply_method(), ApplyMethod::ServerSide, "{revision}");
    }
}

#[tokio::test]
async fn an_object_that_is_changed_back_each_time_is_reported_as_a_conflict() {
    let fixture = Fixture::new("options-conflict").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let drift = json!({ "drift": { "mode": "enabled" } });
    fixture.deploy("web", "1.0.0", &spec("chart", &drift)).await;
    fixture.until_ready("web").await;
    for _ in 0..5 {
        edit(&fixture, &release, "mine").await;
        fixture.until_msg(&release, "chart").await;
    }
    edit(&fixture, &release, "mine").await;
    let parts = [
        &*format!("{release}-config"),
        "corrected 5 times",
        "next correction at 20",
    ];
    fixture.until_error("web", "Ready", &parts).await;
    fixture.barrier().await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("mine"));
}

/// A CRD in two versions.
fn crd(group: &str, versions: &[&str]) -> String {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let schema = json!({ "openAPIV3Schema": { "type": "object" } });
            json!({ "name": name, "served": true, "storage": index == 0, "schema": schema })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": { "group": group, "scope": "Namespaced", "names": { "kind": "Widget", "plural": "widgets" }, "versions": versions },
    })
    .to_string()
}

#[tokio::test]
async fn an_upgrade_replaces_crds_only_if_that_is_wanted() {
    let fixture = Fixture::new("options-crds").await;
    let _agent = fixture.start().await;
    let group = format!("{}.example.com", random::word());
    for (version, versions) in [("2.0.0", &["v1"][..]), ("3.0.0", &["v1", "v2"])] {
        let crd = crd(&group, versions);
        let files = [("templates/config.yaml", CONFIG), ("crds/widgets.yaml", &*crd)];
        fixture.charts.add("web", version, &files).await;
    }
    let name = format!("crd/widgets.{group}");
    let versions = async || {
        fixture.object(&name).await.unwrap()["spec"]["versions"]
            .as_array()
            .unwrap()
            .len()
    };
    let policy = |install: &str, upgrade: &str| json!({ "install": { "crds": install }, "upgrade": { "crds": upgrade } });
    fixture
        .deploy("web", "2.0.0", &spec("a", &policy("Skip", "Skip")))
        .await;
    fixture.until_ready("web").await;
    assert_eq!(fixture.object(&name).await, None);
    fixture
        .deploy("web", "2.0.0", &spec("b", &policy("Skip", "Create")))
        .await;
    fixture.until_revision("web", 2).await;
    assert_eq!(versions().await, 1);
    fixture
        .deploy("web", "3.0.0", &spec("c", &policy("Skip", "Create")))
        .await;
    fixture.until_revision("web", 3).await;
    assert_eq!(versions().await, 1, "it is not changed");
    fixture
        .deploy("web", "3.0.0", &spec("d", &policy("Skip", "CreateReplace")))
        .await;
    fixture.until_revision("web", 4).await;
    assert_eq!(versions().await, 2);
    fixture.kubectl(&["delete", &name]).await;
}

#[tokio::test]
async fn a_release_is_kept_if_that_is_wanted_when_it_is_removed() {
    let fixture = Fixture::new("options-end").await;
    let _agent = fixture.start().await;
    let history = json!({ "uninstall": { "keepHistory": true } });
    for (name, parts) in [
        ("kept", json!({})),
        ("history", history.clone()),
        ("plain", json!({})),
        ("suspended", json!({})),
    ] {
        fixture.deploy(name, "1.0.0", &spec("x", &parts)).await;
        fixture.until_ready(name).await;
    }
    // Also if it is suspended at the same time. Suspension alone keeps nothing.
    for (name, suspended) in [
        ("kept", json!({ "suspend": true, "onDelete": "Keep" })),
        ("suspended", json!({ "suspend": true })),
    ] {
        fixture.deploy(name, "1.0.0", &spec("x", &suspended)).await;
        fixture
            .until(name, |found| {
                anyhow::ensure!(
                    found["status"]["lifecycle"]["suspended"] == true,
                    "it is not suspended"
                );
                Ok(())
            })
            .await;
    }
    for name in ["kept", "history", "plain", "suspended"] {
        fixture.delete(name).await;
    }
    for name in ["plain", "suspended"] {
        fixture
            .until_none(&format!("secret/sh.helm.release.v1.{}.v1", fixture.name(name)))
            .await;
    }
    fixture
        .until_status(&fixture.name("history"), 1, "uninstalled")
        .await;
    fixture
        .until_none(&format!("configmap/{}-config", fixture.name("history")))
        .await;
    fixture.barrier().await;
    assert_eq!(fixture.msg(&fixture.name("kept")).await.as_deref(), Some("x"));
    fixture.until_status(&fixture.name("kept"), 1, "deployed").await;
    // It is the same release if the HelmOp is created again.
    fixture.deploy("kept", "1.0.0", &spec("x", &json!({}))).await;
    fixture.until_ready("kept").await;
    assert_eq!(fixture.helm_runs_of(&fixture.name("kept")), ["install"]);
}

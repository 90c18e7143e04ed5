//! Options of one kind of action: `lifecycle.install`, `upgrade`, `rollback` and `uninstall`.

use std::collections::BTreeSet;

use helmops_release::record::ApplyMethod;
use serde_json::{Value, json};

use super::{spec, state, until_state};
use crate::harness::{
    agent::{CONFIG, DEPLOYMENT, Fixture},
    condition,
};

/// A hook of each of these events, which stays.
fn hooks(events: &[&'static str]) -> Vec<(&'static str, String)> {
    let of_event = |event: &&'static str| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ .Release.Name }}}}-{event}\n  annotations: {{helm.sh/hook: {event}}}\n"
        );
        (*event, text)
    };
    events.iter().map(of_event).collect()
}

/// A Service that the API server refuses.
const REFUSED: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}-refused}\nspec: {ports: [{port: 70000}]}\n";

/// A ConfigMap that only some versions have.
const NEW: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-new}\n";

#[tokio::test]
async fn hooks_run_in_the_actions_that_do_not_disable_them() {
    let fixture = Fixture::new("actions-hooks").await;
    let events = ["pre-install", "pre-upgrade", "pre-rollback", "post-rollback"];
    let hooks = hooks(&events);
    let mut templates: Vec<_> = hooks.iter().map(|(name, text)| (*name, &**text)).collect();
    templates.push(("config", CONFIG));
    fixture.charts.web("1.0.0", &templates).await;
    templates.push(("refused", REFUSED));
    fixture.charts.web("2.0.0", &templates).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let ran = async || {
        let mut ran = BTreeSet::new();
        for event in events {
            let hook = format!("configmap/{release}-{event}");
            if fixture.object(&hook).await.is_some() {
                ran.insert(event);
            }
        }
        ran
    };
    let policy = |rollback: Value| {
        json!({
            "install": { "disableHooks": true },
            "upgrade": { "remediation": "rollback" },
            "rollback": rollback,
        })
    };
    let disabled = policy(json!({ "disableHooks": true }));
    fixture.deploy("web", "1.0.0", &spec("a", &disabled)).await;
    fixture.until_ready("web").await;
    assert_eq!(ran().await, BTreeSet::new());
    fixture.deploy("web", "2.0.0", &spec("b", &disabled)).await;
    until_state(&fixture, "web", "Remediated", "True RollbackSucceeded").await;
    assert_eq!(ran().await, BTreeSet::from(["pre-upgrade"]));
    // By default, hooks of a rollback run.
    fixture
        .deploy("web", "2.0.0", &spec("c", &policy(Value::Null)))
        .await;
    fixture.until_none(&format!("service/{release}-refused")).await;
    fixture.until_status(&release, 5, "deployed").await;
    let all = BTreeSet::from(["pre-upgrade", "pre-rollback", "post-rollback"]);
    assert_eq!(ran().await, all);
}

#[tokio::test]
async fn objects_are_applied_as_the_action_says() {
    let fixture = Fixture::new("actions-apply").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let (client, server) = (ApplyMethod::ClientSide, ApplyMethod::ServerSide);
    let cases = [
        ("disabled", client),
        ("auto", client),
        ("enabled", server),
        ("auto", server),
        ("disabled", client),
    ];
    for (number, (apply, expected)) in (1..).zip(cases) {
        let own = json!({ "serverSideApply": apply });
        let policy = json!({ "install": own, "upgrade": own });
        let msg = number.to_string();
        fixture.deploy("web", "1.0.0", &spec(&msg, &policy)).await;
        fixture.until_revision("web", number).await;
        fixture.until_msg(&release, &msg).await;
        let (_, record) = fixture.record(&release, number).await.unwrap();
        assert_eq!(record.apply_method(), expected, "{number} {apply}");
    }
}

#[tokio::test]
async fn an_upgrade_takes_over_objects_of_others_unless_that_is_disabled() {
    let fixture = Fixture::new("actions-owner").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("new", NEW)])
        .await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let name = format!("{release}-new");
    fixture.kubectl(&["create", "configmap", &name]).await;
    fixture.deploy("web", "1.0.0", &spec("a", &json!({}))).await;
    fixture.until_ready("web").await;
    let own = json!({ "upgrade": { "takeOwnership": false } });
    fixture.deploy("web", "2.0.0", &spec("b", &own)).await;
    fixture
        .until_error("web", "Ready", &[&name, "exists and cannot be imported"])
        .await;
    fixture
        .deploy("web", "2.0.0", &spec("c", &json!({ "upgrade": {} })))
        .await;
    fixture.until_ready("web").await;
}

#[tokio::test]
async fn a_failed_upgrade_deletes_what_it_has_created_if_that_is_wanted() {
    let fixture = Fixture::new("actions-cleanup").await;
    let failing = [("config", CONFIG), ("new", NEW), ("refused", REFUSED)];
    fixture.charts.web("2.0.0", &failing).await;
    let _agent = fixture.start().await;
    for (name, upgrade, stays) in [
        ("plain", json!({}), true),
        ("cleaned", json!({ "cleanupOnFail": true }), false),
    ] {
        let policy = json!({ "upgrade": upgrade });
        fixture.deploy(name, "1.0.0", &spec("a", &policy)).await;
        fixture.until_ready(name).await;
        fixture.deploy(name, "2.0.0", &spec("b", &policy)).await;
        fixture.until_error(name, "Deployed", &["70000"]).await;
        let new = format!("configmap/{}-new", fixture.name(name));
        assert_eq!(fixture.object(&new).await.is_some(), stays, "{name}");
    }
}

#[tokio::test]
async fn dependents_of_an_uninstalled_object_stay_if_that_is_wanted() {
    let fixture = Fixture::new("actions-orphan").await;
    let _agent = fixture.start().await;
    for (name, propagation) in [("orphan", "orphan"), ("foreground", "foreground"), ("plain", "")] {
        let policy = json!({ "uninstall": { "deletionPropagation": propagation } });
        fixture.deploy(name, "1.0.0", &spec("a", &policy)).await;
        fixture.until_ready(name).await;
        let config = format!("{}-config", fixture.name(name));
        let owner = fixture.object(&format!("configmap/{config}")).await.unwrap();
        let child = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("{config}-child"), "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": config, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
            }] },
        });
        fixture
            .apps
            .kubectl()
            .apply(&child.to_string())
            .await
            .unwrap()
            .ok()
            .unwrap();
        fixture.delete(name).await;
        fixture.until_none(&format!("configmap/{config}")).await;
        let child = format!("configmap/{config}-child");
        if propagation == "orphan" {
            let left = fixture.object(&child).await.unwrap();
            assert_eq!(left["metadata"]["ownerReferences"], Value::Null);
        } else {
            fixture.until_none(&child).await;
        }
    }
}

#[tokio::test]
async fn each_action_waits_and_checks_values_as_it_says() {
    let fixture = Fixture::new("actions-wait").await;
    let schema = json!({ "properties": { "msg": { "enum": ["a"] } } }).to_string();
    let files = [
        ("templates/config.yaml", CONFIG),
        ("templates/late.yaml", DEPLOYMENT),
        ("values.schema.json", &schema),
    ];
    fixture.charts.add("web", "2.0.0", &files).await;
    let _agent = fixture.start().await;
    let mut policy = json!({
        "install": { "disableWait": true, "disableSchemaValidation": true },
        "upgrade": { "timeout": "3s" },
        "wait": { "timeout": "1h" },
    });
    fixture.deploy("web", "2.0.0", &spec("b", &policy)).await;
    until_state(&fixture, "web", "Released", "True InstallSucceeded").await;
    fixture.deploy("web", "2.0.0", &spec("c", &policy)).await;
    fixture
        .until_error("web", "Deployed", &["values don't meet the specifications"])
        .await;
    policy["upgrade"]["disableSchemaValidation"] = json!(true);
    fixture.deploy("web", "2.0.0", &spec("d", &policy)).await;
    fixture
        .until_error("web", "Deployed", &["late is not ready", "(after 3 s)"])
        .await;
}

/// A Job that no node runs.
#[tokio::test]
async fn hooks_have_the_timeout_of_their_action() {
    let fixture = Fixture::new("actions-timeout").await;
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations: {helm.sh/hook: pre-upgrade}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}\n";
    fixture
        .charts
        .web("1.0.0", &[("config", CONFIG), ("job", job)])
        .await;
    let _agent = fixture.start().await;
    let policy = json!({ "upgrade": { "timeout": "2s" } });
    fixture.deploy("web", "1.0.0", &spec("a", &policy)).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "1.0.0", &spec("b", &policy)).await;
    fixture.until_error("web", "Deployed", &["pre-upgrade"]).await;
}

/// A user who reads the status after a fix must not take the fix for failed.
#[tokio::test]
async fn a_deployment_that_takes_long_is_reported_meanwhile() {
    const HOOK: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations: {helm.sh/hook: pre-upgrade}\nspec: {restartPolicy: Never, containers: [{name: a, image: a}]}\n";
    let fixture = Fixture::new("actions-long").await;
    let templates = [("config", CONFIG), ("hook", HOOK)];
    fixture.charts.web("1.0.0", &templates).await;
    let _agent = fixture.start().await;
    let policy = |timeout: &str| json!({ "upgrade": { "timeout": timeout } });
    fixture.deploy("web", "1.0.0", &spec("a", &policy("2s"))).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "1.0.0", &spec("b", &policy("2s"))).await;
    until_state(&fixture, "web", "Released", "False UpgradeFailed").await;

    fixture.deploy("web", "1.0.0", &spec("c", &policy("1h"))).await;
    let found = until_state(&fixture, "web", "Deployed", "Unknown Progressing").await;
    let deployed = condition(&found, "Deployed").unwrap()["message"].to_string();
    assert!(
        deployed.contains("waiting: Helm has been deploying it since "),
        "{deployed}"
    );
    assert_eq!(state(&found, "Released"), "Unknown Progressing");
    assert_eq!(found["status"]["lifecycle"]["nextAttempt"], Value::Null);
    let pod = format!("pod/{}-hook", fixture.name("web"));
    let succeeded = r#"--patch={"status":{"phase":"Succeeded"}}"#;
    let patch = ["patch", &pod, "--subresource=status", "--type=merge", succeeded];
    fixture.kubectl(&patch).await;
    let found = fixture.until_ready("web").await;
    assert_eq!(state(&found, "Released"), "True UpgradeSucceeded");
    assert_eq!(state(&found, "Deployed"), "True ");
}

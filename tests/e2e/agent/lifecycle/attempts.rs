//! What follows when an attempt fails.

use anyhow::{Context, Result, ensure};
use helmops_release::record::Status;
use serde_json::{Value, json};

use crate::harness::agent::{CONFIG, DEPLOYMENT, Fixture, POD};
use crate::harness::message;

use super::{spec, state, until_state};

/// A Service with a port that the API server rejects.
pub const INVALID: &str =
    "apiVersion: v1\nkind: Service\nmetadata: {name: invalid}\nspec: {ports: [{port: 100000}]}\n";

fn history(found: &Value) -> Vec<String> {
    let entries = found["status"]["lifecycle"]["history"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |one: &Value| {
        format!(
            "{} {} {}",
            one["revision"],
            one["action"].as_str().unwrap(),
            one["outcome"].as_str().unwrap()
        )
    };
    entries.iter().map(text).collect()
}

async fn charts(fixture: &Fixture) {
    fixture.charts.late(DEPLOYMENT).await;
    fixture
        .charts
        .web("3.0.0", &[("config", CONFIG), ("invalid", INVALID)])
        .await;
}

/// Waits until the retries are used up: the next attempt is in an hour.
async fn until_slow(fixture: &Fixture) -> Value {
    fixture
        .until("web", |found| {
            ensure!(minutes_until_next(found)? > 50, "the next attempt is earlier");
            Ok(())
        })
        .await
}

/// How many minutes there are until the next attempt.
fn minutes_until_next(found: &Value) -> Result<i64> {
    let next = found["status"]["lifecycle"]["nextAttempt"]
        .as_str()
        .context("no next attempt")?;
    let next: jiff::Timestamp = next.parse()?;
    Ok(next.duration_since(jiff::Timestamp::now()).as_mins())
}

#[tokio::test]
async fn an_upgrade_that_is_not_ready_is_rolled_back_and_tried_again() {
    let fixture = Fixture::new("life-rollback").await;
    charts(&fixture).await;
    let agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({ "upgrade": { "retries": 1, "retryInterval": "1s", "remediation": "rollback" } });
    fixture.deploy("web", "1.0.0", &spec("before", &policy)).await;
    let before = fixture.until_ready("web").await;
    assert_eq!(state(&before, "Released"), "True InstallSucceeded");

    fixture.deploy("web", "2.0.0", &spec("after", &policy)).await;
    let waiting = until_state(&fixture, "web", "Released", "Unknown Progressing").await;
    assert!(message(&waiting, "Released").contains("late"), "what is late");
    // One retry, and then one in an hour.
    let failed = until_slow(&fixture).await;
    assert_eq!(
        fixture.helm_runs_of(&release),
        ["install", "upgrade", "rollback", "upgrade", "rollback"]
    );
    assert_eq!(state(&failed, "Released"), "False UpgradeFailed");
    assert_eq!(state(&failed, "Remediated"), "True RollbackSucceeded");
    assert_eq!(state(&failed, "Deployed"), "False Error");
    assert_eq!(
        state(&failed, "Ready").split(' ').next(),
        Some("True"),
        "what runs is monitored"
    );
    let text = message(&failed, "Deployed");
    for part in [
        "chart web 2.0.0 failed (attempt 2)",
        "late",
        "after 2 s",
        "rolled back, as revision 5",
        "once an hour",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(
        failed["status"]["appliedDeploymentID"],
        before["spec"]["deploymentID"]
    );
    assert_eq!(
        failed["status"]["release"],
        format!("{}/{release}:5", fixture.apps.name())
    );
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("before"));
    assert_eq!(
        history(&failed),
        [
            "5 rollback deployed",
            "4 upgrade failed",
            "3 rollback superseded",
            "2 upgrade failed",
            "1 install superseded"
        ]
    );

    // A restart forgets nothing.
    drop(agent);
    let _agent = fixture.start().await;
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&release).len(), 5);

    // A request leads to one attempt.
    let mut requested = spec("after", &policy);
    requested["lifecycle"]["requests"] = json!({ "reconcile": "1" });
    fixture.deploy("web", "2.0.0", &requested).await;
    fixture
        .until("web", |found| {
            ensure!(found["status"]["lifecycle"]["failures"] == 3, "no third attempt");
            Ok(())
        })
        .await;
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&release).len(), 7);

    // What repairs it is not delayed.
    fixture.deploy("web", "1.0.0", &spec("repaired", &policy)).await;
    let found = fixture.until_ready("web").await;
    assert_eq!(state(&found, "Released"), "True UpgradeSucceeded");
    assert_eq!(state(&found, "Remediated"), "");
    assert_eq!(found["status"]["lifecycle"]["failures"], Value::Null);
}

/// A life cycle in which a release fails immediately if `msg` is `broken`.
fn policy_of_broken(parts: &Value) -> Value {
    let expression = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "failed": "data.msg == 'broken'", "current": "data.msg != 'broken'",
    });
    let mut policy = json!({ "wait": { "expressions": [expression] } });
    json_patch::merge(&mut policy, parts);
    policy
}

/// If the remediation takes longer than the interval, the next attempt is due when it ends.
#[tokio::test]
async fn a_failure_is_reported_however_long_its_remediation_takes() {
    let fixture = Fixture::new("life-slow").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = policy_of_broken(
        &json!({ "upgrade": { "retries": 100, "retryInterval": "1s", "remediation": "rollback" } }),
    );
    fixture.deploy("web", "1.0.0", &spec("good", &policy)).await;
    fixture.until_ready("web").await;
    fixture.delay_helm("rollback", 2);
    fixture.deploy("web", "1.0.0", &spec("broken", &policy)).await;
    let found = until_state(&fixture, "web", "Released", "False UpgradeFailed").await;
    assert_eq!(found["status"]["lifecycle"]["failures"], 1);
    assert_eq!(state(&found, "Remediated"), "True RollbackSucceeded");
    assert!(message(&found, "Deployed").contains("rolled back, as revision 3"));
    // The next attempt follows all the same.
    fixture
        .until("web", |found| {
            ensure!(found["status"]["lifecycle"]["failures"] == 2, "no second attempt");
            Ok(())
        })
        .await;
    let runs = fixture.helm_runs_of(&release);
    assert_eq!(
        runs[..5],
        ["install", "upgrade", "rollback", "upgrade", "rollback"]
    );
}

/// With neither `install` nor `upgrade`, attempts are repeated with the backoff, as in Fleet.
#[tokio::test]
async fn a_release_that_is_only_awaited_is_not_repeated_in_a_storm() {
    let fixture = Fixture::new("life-storm").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = policy_of_broken(&json!({}));
    fixture.deploy("web", "1.0.0", &spec("broken", &policy)).await;
    let found = until_state(&fixture, "web", "Released", "False InstallFailed").await;
    let text = message(&found, "Deployed");
    assert!(text.contains("-config failed"), "{text}");
    fixture.barrier().await;
    // One that was due meanwhile, on a slow machine: the first backoff is 4 to 5 seconds.
    let runs = fixture.helm_runs_of(&release);
    assert!(runs.len() <= 3, "{runs:?}");
    fixture.deploy("web", "1.0.0", &spec("good", &policy)).await;
    fixture.until_ready("web").await;
}

#[tokio::test]
async fn an_upgrade_that_helm_cannot_complete_is_rolled_back() {
    let fixture = Fixture::new("life-refused").await;
    charts(&fixture).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({ "upgrade": { "remediation": "rollback" } });
    fixture.deploy("web", "1.0.0", &spec("before", &policy)).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "3.0.0", &spec("after", &policy)).await;
    let found = until_state(&fixture, "web", "Remediated", "True RollbackSucceeded").await;
    assert!(
        message(&found, "Deployed").contains("100000"),
        "{}",
        message(&found, "Deployed")
    );
    assert_eq!(fixture.helm_runs_of(&release), ["install", "upgrade", "rollback"]);
    fixture.until_msg(&release, "before").await;
}

#[tokio::test]
async fn a_failed_installation_is_uninstalled_and_retried_as_an_installation() {
    let fixture = Fixture::new("life-install").await;
    charts(&fixture).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({ "install": { "retries": 1, "retryInterval": "1s", "remediation": "uninstall" } });
    fixture.deploy("web", "2.0.0", &spec("x", &policy)).await;
    let failed = until_slow(&fixture).await;
    assert_eq!(
        fixture.helm_runs_of(&release),
        ["install", "uninstall", "install", "uninstall"]
    );
    assert_eq!(state(&failed, "Released"), "False InstallFailed");
    assert_eq!(state(&failed, "Remediated"), "True UninstallSucceeded");
    assert_eq!(fixture.object("deployment/late").await, None);
    let text = message(&failed, "Deployed");
    assert!(
        text.contains("installation of chart web 2.0.0 failed (attempt 2)") && text.contains("uninstalled"),
        "{text}"
    );
    fixture.deploy("web", "1.0.0", &spec("x", &policy)).await;
    let found = fixture.until_ready("web").await;
    assert_eq!(state(&found, "Released"), "True InstallSucceeded");
}

#[tokio::test]
async fn a_reset_forgets_failed_attempts_and_a_new_version_ends_a_wait() {
    let fixture = Fixture::new("life-reset").await;
    charts(&fixture).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({ "install": { "retries": 1, "retryInterval": "1s" } });
    fixture.deploy("web", "2.0.0", &spec("x", &policy)).await;
    let failed = until_slow(&fixture).await;
    assert_eq!(failed["status"]["lifecycle"]["failures"], 2);
    let runs = fixture.helm_runs_of(&release).len();
    let mut reset = spec("x", &policy);
    reset["lifecycle"]["requests"] = json!({ "reset": "1" });
    fixture.deploy("web", "2.0.0", &reset).await;
    // The first attempt, its retry, and nothing more for an hour.
    let failed = fixture
        .until("web", |found| {
            let lifecycle = &found["status"]["lifecycle"];
            ensure!(lifecycle["handled"]["reset"] == "1", "the request is not handled");
            ensure!(lifecycle["failures"] == 2, "it is {}", lifecycle["failures"]);
            ensure!(minutes_until_next(found)? > 50, "the next attempt is earlier");
            Ok(())
        })
        .await;
    assert_eq!(fixture.helm_runs_of(&release).len(), runs + 2);
    assert_eq!(state(&failed, "Released"), "False InstallFailed");

    let mut patient = spec("x", &policy);
    patient["lifecycle"]["wait"]["timeout"] = json!("30m");
    patient["options"]["helm"]["values"]["msg"] = json!("patient");
    fixture.deploy("web", "2.0.0", &patient).await;
    until_state(&fixture, "web", "Released", "Unknown Progressing").await;
    fixture.deploy("web", "1.0.0", &patient).await;
    let found = fixture.until_ready("web").await;
    assert!(
        message(&found, "Released").contains("1.0.0"),
        "{}",
        message(&found, "Released")
    );
}

/// A hook that would leave an object.
#[tokio::test]
async fn the_uninstallation_of_a_failed_release_has_the_options_of_any_other() {
    const HOOK: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: left-by-hook\n  annotations: {helm.sh/hook: pre-delete}\n";
    let fixture = Fixture::new("life-hooks").await;
    fixture
        .charts
        .web("2.0.0", &[("late", DEPLOYMENT), ("hook", HOOK)])
        .await;
    let _agent = fixture.start().await;
    for (name, is_disabled) in [("without", true), ("with", false)] {
        let policy = json!({
            "install": { "retries": 0, "remediation": "uninstall" }, "uninstall": { "disableHooks": is_disabled },
        });
        fixture.deploy(name, "2.0.0", &spec("x", &policy)).await;
        until_state(&fixture, name, "Remediated", "True UninstallSucceeded").await;
        let left = fixture.object("configmap/left-by-hook").await;
        assert_eq!(left.is_none(), is_disabled, "{name}: {left:?}");
    }
}

/// A failure that heals needs no other attempt.
#[tokio::test]
async fn a_release_that_becomes_ready_late_counts_as_deployed() {
    let fixture = Fixture::new("life-late").await;
    fixture.charts.late(POD).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture
        .deploy("web", "2.0.0", &spec("x", &json!({ "install": {} })))
        .await;
    let record = fixture.until_status(&release, 1, "failed").await;
    assert!(
        record.info.description.starts_with("not ready: "),
        "{}",
        record.info.description
    );
    until_state(&fixture, "web", "Released", "False InstallFailed").await;
    let ready = json!([{ "type": "Ready", "status": "True" }]);
    let status = json!({ "status": { "phase": "Running", "conditions": ready } }).to_string();
    let patch = [
        "patch",
        "pod",
        "late",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    fixture.kubectl(&patch).await;
    let found = fixture.until_ready("web").await;
    assert_eq!(state(&found, "Released"), "True InstallSucceeded");
    let (_, record) = fixture.record(&release, 1).await.unwrap();
    assert_eq!(record.info.status, Status::Deployed);
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}

#[tokio::test]
async fn a_forced_deployment_happens_once() {
    let fixture = Fixture::new("life-force").await;
    let agent = fixture.start().await;
    let release = fixture.name("web");
    let mut spec = spec("x", &json!({ "requests": { "force": "1" } }));
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_ready("web").await;
    fixture.barrier().await;
    assert_eq!(
        fixture.helm_runs_of(&release),
        ["install"],
        "the installation is the deployment"
    );
    spec["lifecycle"]["requests"]["force"] = json!("2");
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_revision("web", 2).await;
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "upgrade"]);
    let found = fixture.until("web", |_| Ok(())).await;
    assert_eq!(found["status"]["lifecycle"]["handled"]["force"], "2");

    // As if the agent had been killed before it could write that.
    drop(agent);
    let object = (
        release.clone(),
        json!({ "status": { "lifecycle": { "handled": null } } }),
    );
    let namespace = fixture.upstream.name();
    let lost = fixture
        .api
        .patch_status(namespace, "bundledeployments", vec![object]);
    lost.await.unwrap();
    let _agent = fixture.start().await;
    fixture
        .until("web", |found| {
            let handled = &found["status"]["lifecycle"]["handled"]["force"];
            ensure!(handled == "2", "it is {handled}");
            Ok(())
        })
        .await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "upgrade"]);
}

/// What it restores is what is wanted: that is no success, and no reason for an attempt without an interval.
#[tokio::test]
async fn a_forced_deployment_that_fails_is_rolled_back_and_reported() {
    const CHANGING: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-config\ndata:\n  msg: {{ if .Release.IsUpgrade }}broken{{ else }}good{{ end }}\n";
    let fixture = Fixture::new("life-force-fails").await;
    fixture.charts.web("3.0.0", &[("config", CHANGING)]).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = policy_of_broken(&json!({ "upgrade": { "remediation": "rollback" } }));
    let mut spec = spec("x", &policy);
    fixture.deploy("web", "3.0.0", &spec).await;
    fixture.until_ready("web").await;
    spec["lifecycle"]["requests"] = json!({ "force": "1" });
    fixture.deploy("web", "3.0.0", &spec).await;
    let found = until_state(&fixture, "web", "Remediated", "True RollbackSucceeded").await;
    assert_eq!(state(&found, "Released"), "False UpgradeFailed");
    assert_eq!(state(&found, "Deployed"), "False Error");
    assert_eq!(found["status"]["lifecycle"]["failures"], 1);
    assert_eq!(found["status"]["lifecycle"]["handled"]["force"], "1");
    assert!(minutes_until_next(&found).unwrap() > 50);
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "upgrade", "rollback"]);
    fixture.until_msg(&release, "good").await;
}

/// Its record counts the attempts, and the next one may not begin for a long time.
#[tokio::test]
async fn a_failed_attempt_is_counted_while_the_next_one_lacks_something() {
    let fixture = Fixture::new("life-lacking").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = policy_of_broken(&json!({ "upgrade": { "retries": 0 } }));
    let with_values = |msg: &str, request: &str| {
        let mut spec = spec(msg, &policy);
        spec["lifecycle"]["requests"] = json!({ "reconcile": request });
        spec["options"]["helm"]["valuesFrom"] = json!([{ "configMapKeyRef": { "name": "values" } }]);
        spec
    };
    let create = ["create", "configmap", "values", "--from-literal=values.yaml=a: b"];
    fixture.kubectl(&create).await;
    fixture.deploy("web", "1.0.0", &with_values("good", "")).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "1.0.0", &with_values("broken", "")).await;
    fixture.until_status(&release, 2, "failed").await;
    until_state(&fixture, "web", "Released", "False UpgradeFailed").await;
    fixture.kubectl(&["delete", "configmap/values"]).await;
    fixture.deploy("web", "1.0.0", &with_values("broken", "1")).await;
    fixture
        .until_error("web", "Deployed", &["helm.valuesFrom[0].configMapKeyRef"])
        .await;
    let (_, record) = fixture.record(&release, 2).await.unwrap();
    assert_eq!(record.info.status, Status::Failed);
    // The request was not handled yet.
    fixture.kubectl(&create).await;
    fixture
        .until("web", |found| {
            let failures = &found["status"]["lifecycle"]["failures"];
            ensure!(failures == 2, "{failures} failures");
            Ok(())
        })
        .await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "upgrade", "upgrade"]);
}

#[tokio::test]
async fn a_suspended_release_is_left_as_it_is() {
    let fixture = Fixture::new("life-suspend").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &spec("before", &json!({}))).await;
    fixture.until_ready("web").await;
    fixture
        .deploy("web", "1.0.0", &spec("after", &json!({ "suspend": true })))
        .await;
    fixture
        .until("web", |found| {
            ensure!(
                found["status"]["lifecycle"]["suspended"] == true,
                "it is not suspended"
            );
            Ok(())
        })
        .await;
    fixture.barrier().await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("before"));
    fixture.deploy("web", "1.0.0", &spec("after", &json!({}))).await;
    fixture.until_msg(&release, "after").await;
}

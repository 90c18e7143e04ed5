//! Which revisions are restored, and which records stay.

use anyhow::ensure;
use serde_json::json;

use crate::harness::agent::{CONFIG, DEPLOYMENT, Fixture, POD};
use crate::harness::message;

use super::attempts::INVALID;
use super::{spec, state, until_state};

/// An object that only the first version of the chart has.
const EXTRA: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\ndata: {a: b}\n";
/// An object of another owner in its place. Helm cannot change it.
const OBSTACLE: [&str; 4] = ["create", "configmap", "extra", "--from-literal=a=c"];
const IMMUTABLE: [&str; 4] = ["patch", "configmap/extra", "--patch", r#"{"immutable":true}"#];

async fn label(fixture: &Fixture, release: &str, revision: u64) -> String {
    let (secret, _) = fixture.record(release, revision).await.unwrap();
    let label = &secret["metadata"]["labels"]["helmops.fleet.cattle.io/acceptance"];
    label.as_str().unwrap_or_default().to_owned()
}

/// Helm marks what a failed rollback was to replace as superseded, as it does with what was good.
#[tokio::test]
async fn a_rollback_that_fails_is_repeated_and_restores_what_was_good() {
    let fixture = Fixture::new("life-obstacle").await;
    fixture
        .charts
        .web("1.0.0", &[("config", CONFIG), ("extra", EXTRA)])
        .await;
    fixture.charts.late(DEPLOYMENT).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({
        "wait": { "timeout": "20s" },
        "upgrade": { "retries": 1, "retryInterval": "1h", "remediation": "rollback" },
    });
    fixture.deploy("web", "1.0.0", &spec("good", &policy)).await;
    fixture.until_ready("web").await;
    assert_eq!(label(&fixture, &release, 1).await, "Accepted");

    fixture.deploy("web", "2.0.0", &spec("broken", &policy)).await;
    until_state(&fixture, "web", "Released", "Unknown Progressing").await;
    assert_eq!(label(&fixture, &release, 2).await, "Awaited");
    fixture.kubectl(&OBSTACLE).await;
    fixture.kubectl(&IMMUTABLE).await;
    let found = until_state(&fixture, "web", "Remediated", "False RollbackFailed").await;
    assert_eq!(state(&found, "Released"), "False UpgradeFailed");
    assert_eq!(found["status"]["lifecycle"]["failures"], 1);
    fixture
        .until("web", |_| {
            let rollbacks = fixture.helm_runs_of(&release).len() - 2;
            ensure!(rollbacks > 1, "{rollbacks} rollbacks");
            Ok(())
        })
        .await;
    // One fewer while a rollback is repeated.
    let records = fixture.records().await.len();
    assert!(
        (2..=3).contains(&records),
        "failed rollbacks leave {records} records"
    );

    fixture.kubectl(&["delete", "configmap/extra"]).await;
    let found = until_state(&fixture, "web", "Remediated", "True RollbackSucceeded").await;
    assert_eq!(state(&found, "Released"), "False UpgradeFailed");
    assert_eq!(found["status"]["lifecycle"]["failures"], 1);
    assert!(message(&found, "Deployed").contains("rolled back, as revision 3"));
    fixture.until_msg(&release, "good").await;
    assert_eq!(
        fixture.object("deployment/late").await,
        None,
        "nothing of it is left"
    );
    assert_eq!(label(&fixture, &release, 3).await, "Accepted");
}

#[tokio::test]
async fn what_was_replaced_before_it_was_ready_is_not_restored() {
    let fixture = Fixture::new("life-awaited").await;
    fixture.charts.late(DEPLOYMENT).await;
    fixture
        .charts
        .web("3.0.0", &[("config", CONFIG), ("invalid", INVALID)])
        .await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({ "wait": { "timeout": "5m" }, "upgrade": { "remediation": "rollback" } });
    fixture.deploy("web", "1.0.0", &spec("good", &policy)).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "2.0.0", &spec("awaited", &policy)).await;
    until_state(&fixture, "web", "Released", "Unknown Progressing").await;
    fixture.deploy("web", "3.0.0", &spec("broken", &policy)).await;
    until_state(&fixture, "web", "Remediated", "True RollbackSucceeded").await;
    assert_eq!(
        fixture.helm_runs_of(&release),
        ["install", "upgrade", "upgrade", "rollback"]
    );
    fixture.until_msg(&release, "good").await;
}

/// Helm limits the number of records for upgrades only.
#[tokio::test]
async fn failing_installations_do_not_add_records() {
    let fixture = Fixture::new("life-records").await;
    fixture
        .charts
        .web("3.0.0", &[("config", CONFIG), ("invalid", INVALID)])
        .await;
    let _agent = fixture.start().await;
    let mut spec = spec(
        "x",
        &json!({ "install": { "retries": 5, "retryInterval": "1s" } }),
    );
    spec["options"]["helm"]["maxHistory"] = json!(2);
    fixture.deploy("web", "3.0.0", &spec).await;
    let found = fixture
        .until("web", |found| {
            let failures = found["status"]["lifecycle"]["failures"].as_i64();
            ensure!(failures == Some(6), "{failures:?} failures");
            Ok(())
        })
        .await;
    assert_eq!(state(&found, "Released"), "False InstallFailed");
    let records = fixture.records().await;
    assert_eq!(records.len(), 1, "{records:?}");
}

/// As after a backup that was restored without its status, or `onDelete: Keep` and another HelmOp of the name.
#[tokio::test]
async fn a_release_that_was_ready_is_not_awaited_again_when_its_status_is_lost() {
    let fixture = Fixture::new("life-lost").await;
    fixture.charts.late(POD).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({
        "onDelete": "Keep", "wait": { "timeout": "1m" }, "install": { "remediation": "uninstall" },
    });
    let ready = async |status: &str| {
        let conditions = json!([{ "type": "Ready", "status": status }]);
        let patch = json!({ "status": { "phase": "Running", "conditions": conditions } }).to_string();
        let patch = [
            "patch",
            "pod/late",
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        fixture.kubectl(&patch).await;
    };
    fixture.deploy("web", "2.0.0", &spec("x", &policy)).await;
    until_state(&fixture, "web", "Released", "Unknown Progressing").await;
    ready("True").await;
    fixture.until_ready("web").await;
    fixture.delete("web").await;
    ready("False").await;
    fixture.deploy("web", "2.0.0", &spec("x", &policy)).await;
    fixture
        .until("web", |found| {
            let states = [state(found, "Released"), state(found, "Ready")];
            let is_reported = states[0] == "True InstallSucceeded" && states[1].starts_with("False");
            ensure!(is_reported, "{states:?}");
            Ok(())
        })
        .await;
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}

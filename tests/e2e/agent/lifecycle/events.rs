//! The Events of what the agent does, in the namespace of the release.

use anyhow::ensure;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::testing::{fixture, with_exit};
use crate::harness::SOON;
use crate::harness::agent::Fixture;

/// Waits for an Event about a release with this reason, and a text that contains this.
async fn until_event(fixture: &Fixture, name: &str, reason: &str, text: &str) {
    let release = format!("release {}/{}", fixture.apps.name(), fixture.name(name));
    eventually(&format!("{reason} of {name} with {text:?}"), SOON, async || {
        let events = fixture.events().await;
        let found = events
            .iter()
            .any(|(is, note)| is == reason && note.contains(&release) && note.contains(text));
        ensure!(found, "there are {events:#?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// How many Events there are with this reason, whose text contains this.
async fn number_of(fixture: &Fixture, name: &str, reason: &str) -> usize {
    let release = format!("{}/{}", fixture.apps.name(), fixture.name(name));
    let events = fixture.events().await;
    let of_release = |(is, note): &&(String, String)| is == reason && note.contains(&release);
    events.iter().filter(of_release).count()
}

#[tokio::test]
async fn every_action_has_an_event() {
    let fixture = fixture("events").await;
    let _agent = fixture.start().await;
    let policy = |more: Value| {
        let mut policy = json!({
            "test": { "enable": true },
            "install": { "retries": 0, "remediation": "uninstall" },
            "upgrade": { "retries": 0, "remediation": "rollback" },
        });
        json_patch::merge(&mut policy, &more);
        policy
    };
    let until = async |reason, text| until_event(&fixture, "web", reason, text).await;
    let deploy = async |msg, exit, more| {
        let spec = with_exit(msg, exit, &policy(more));
        fixture.deploy("web", "2.0.0", &spec).await;
    };

    deploy("before", 0, json!({})).await;
    until("Installed", "revision 1, chart web 2.0.0").await;
    until("TestSucceeded", "revision 1: 1 test succeeded").await;
    deploy("after", 3, json!({})).await;
    until("Upgraded", "revision 2, chart web 2.0.0").await;
    until("TestFailed", "the page has no title").await;
    until(
        "RolledBack",
        "revision 2 failed and was rolled back to revision 1",
    )
    .await;
    until("HelmFailed", "then once an hour").await;
    until(
        "RetriesExhausted",
        "1 attempt failed; from now on, there is one an hour",
    )
    .await;

    deploy("after", 0, json!({ "suspend": true })).await;
    until("Suspended", "suspended").await;
    // Nothing is reported again when nothing has changed.
    deploy("later", 0, json!({ "suspend": true })).await;
    fixture.barrier().await;
    assert_eq!(number_of(&fixture, "web", "Suspended").await, 1);
    deploy("later", 0, json!({ "drift": { "mode": "enabled" } })).await;
    until("Resumed", "resumed").await;
    fixture.until_msg(&fixture.name("web"), "later").await;
    fixture.until_ready("web").await;

    let config = format!("configmap/{}-config", fixture.name("web"));
    let change = [
        "patch",
        &config,
        "--type=merge",
        "-p",
        r#"{"data":{"msg":"mine"}}"#,
    ];
    fixture.kubectl(&change).await;
    let drifted = async |reason: &str| {
        let about = format!("{}-config", fixture.name("web"));
        eventually(reason, SOON, async || {
            let events = fixture.events().await;
            let found = events
                .iter()
                .any(|(is, note)| is == reason && note.contains(&about));
            ensure!(found, "there are {events:#?}");
            Ok(())
        })
        .await
        .unwrap();
    };
    drifted("DriftDetected").await;
    drifted("DriftCorrected").await;
    fixture.delete("web").await;
    until("Uninstalled", "").await;

    // A failed installation.
    let spec = with_exit("x", 3, &policy(json!({})));
    fixture.deploy("bad", "2.0.0", &spec).await;
    until_event(
        &fixture,
        "bad",
        "Uninstalled",
        "revision 1 failed and was uninstalled",
    )
    .await;
}

//! Endpoints that fail, restarts, and what is reported of both.

use anyhow::{Context, ensure};
use helmops_bed::metrics::Metrics;
use helmops_bed::sink::{Behavior, Sink};
use helmops_bed::wait::eventually;
use serde_json::json;

use super::fixture::{Fixture, count, ready, refused, start_notifier};
use crate::harness::{SOON, condition};

#[tokio::test]
async fn a_dead_endpoint_delays_no_other_and_gets_all_messages_later() {
    let fixture = Fixture::start().await.unwrap();
    let [dead, alive] = [Sink::start().await.unwrap(), Sink::start().await.unwrap()];
    dead.behave(Behavior::Hang);
    fixture
        .provider(
            "dead",
            &json!({ "type": "generic", "address": dead.url(), "timeout": "2s" }),
        )
        .await;
    fixture
        .provider("alive", &json!({ "type": "generic", "address": alive.url() }))
        .await;
    for name in ["dead", "alive"] {
        fixture.alert(name, name, &json!({})).await;
    }
    let names = ["one".to_owned(), "two".to_owned()];
    fixture.helmops(&names).await;
    fixture
        .statuses(&names, &refused("ChartNotFound", "no chart"))
        .await;
    alive.until(2).await.unwrap();
    let alert = fixture.until_ready_is("alert/dead", "DeliveryFailed").await;
    let message = condition(&alert, "Ready").unwrap()["message"].as_str().unwrap();
    assert!(
        message.contains("AlertProvider dead: timeout: there is no response within 2 s"),
        "{message}"
    );
    assert_eq!(count(&alert, "undelivered"), 2);
    assert_eq!(
        alert["status"]["undeliveredMessages"][0]["object"],
        "HelmOp/default/one"
    );
    fixture
        .until_ready_is("alertprovider/dead", "DeliveryFailed")
        .await;
    let metric = async |name: &str, labels: &[(&str, &str)]| {
        let metrics = Metrics::scrape(&format!("{}/metrics", fixture.notifier.admin))
            .await
            .unwrap();
        metrics.sum(name, labels).unwrap()
    };
    assert!((metric("helmops_alert_undelivered", &[]).await - 2.0).abs() < 0.5);
    assert!(metric("helmops_alert_messages_total", &[("result", "retried")]).await >= 1.0);
    let printed = fixture.run(&["get", "alerts"]).await;
    assert!(printed.contains("DeliveryFailed"), "{printed}");
    // A change of the AlertProvider starts again immediately.
    dead.behave(Behavior::Status(200));
    fixture
        .provider(
            "dead",
            &json!({ "type": "generic", "address": dead.url(), "timeout": "3s" }),
        )
        .await;
    let alert = fixture.until_ready_is("alert/dead", "Ready").await;
    assert_eq!(count(&alert, "undelivered"), 0);
    fixture.until_ready_is("alertprovider/dead", "Ready").await;
    assert_eq!(dead.received().last().unwrap().json()["reason"], "ChartNotFound");
}

#[tokio::test]
async fn a_restart_loses_no_message_and_repeats_at_most_one() {
    let mut fixture = Fixture::start().await.unwrap();
    let sink = Sink::start().await.unwrap();
    fixture
        .provider("chat", &json!({ "type": "generic", "address": sink.url() }))
        .await;
    fixture
        .alert(
            "all",
            "chat",
            &json!({ "grouping": { "wait": "0s", "maxMessages": 0 } }),
        )
        .await;
    let names: Vec<_> = (0..60).map(|number| format!("web-{number:02}")).collect();
    fixture.helmops(&names).await;
    fixture.until_ready_is("alert/all", "Ready").await;
    fixture
        .statuses(&names, &refused("ChartNotFound", "no chart"))
        .await;
    sink.until(10).await.unwrap();
    fixture.notifier.process.kill().await.unwrap();
    let before = sink.received().len();
    assert!(before < names.len(), "it was too fast to be interrupted");
    fixture.notifier = start_notifier(&fixture.bed, "restarted").await.unwrap();
    fixture
        .until("alert/all", |alert| {
            ensure!(count(alert, "failing") == 60, "{}", alert["status"]["failing"]);
            Ok(())
        })
        .await;
    let received = sink.received();
    assert!((60..=61).contains(&received.len()), "{} messages", received.len());
    for name in &names {
        let about = |one: &&helmops_bed::sink::Received| one.json()["involvedObject"]["name"] == **name;
        let times = received.iter().filter(about).count();
        assert!((1..=2).contains(&times), "{name}: {times}");
    }
    // The end of a process loses nothing either.
    fixture.statuses(&names, &ready("1.0.0")).await;
    sink.until(received.len() + 10).await.unwrap();
    fixture.notifier.process.terminate(SOON).await.unwrap();
    fixture.notifier = start_notifier(&fixture.bed, "again").await.unwrap();
    fixture
        .until("alert/all", |alert| {
            ensure!(count(alert, "failing") == 0, "{}", alert["status"]["failing"]);
            Ok(())
        })
        .await;
    assert_eq!(sink.received().len(), received.len() + 60, "none is repeated");
}

#[tokio::test]
async fn a_corrected_secret_is_used_immediately() {
    let fixture = Fixture::start().await.unwrap();
    let sink = Sink::start().await.unwrap();
    fixture
        .provider(
            "chat",
            &json!({ "type": "slack", "secretRef": { "name": "chat" } }),
        )
        .await;
    fixture.alert("all", "chat", &json!({})).await;
    let names = ["web".to_owned()];
    fixture.helmops(&names).await;
    fixture
        .statuses(&names, &refused("ChartNotFound", "no chart"))
        .await;
    fixture
        .until_ready_is("alertprovider/chat", "SecretNotFound")
        .await;
    fixture.until_ready_is("alert/all", "DeliveryFailed").await;
    fixture
        .secret("chat", &json!({ "address": "hooks.example/geheim" }))
        .await;
    let provider = fixture
        .until_ready_is("alertprovider/chat", "InvalidSecret")
        .await;
    let message = condition(&provider, "Ready").unwrap()["message"]
        .as_str()
        .unwrap();
    assert!(
        message.contains("key address of Secret chat (spec.secretRef): not a URL")
            && !message.contains("geheim"),
        "{message}"
    );
    fixture.secret("chat", &json!({ "address": sink.url() })).await;
    sink.until(1).await.unwrap();
    fixture.until_ready_is("alert/all", "Ready").await;
    // A rejected message waits for a change.
    sink.behave(Behavior::Status(404));
    fixture.statuses(&names, &ready("1.0.0")).await;
    let alert = fixture.until_ready_is("alert/all", "DeliveryFailed").await;
    assert_eq!(count(&alert, "undelivered"), 1);
    sink.behave(Behavior::Status(200));
    fixture
        .secret("chat", &json!({ "address": format!("{}/other", sink.url()) }))
        .await;
    // The Alert is ready again when nothing keeps the message from being sent, which may be before that.
    eventually("the message", SOON, async || {
        let received = sink.received();
        let path = received.last().map(|received| received.path.as_str());
        ensure!(path == Some("/other"), "the last one is for {path:?}");
        Ok(())
    })
    .await
    .unwrap();
    fixture.until_ready_is("alert/all", "Ready").await;
    let log = fixture.notifier.process.log();
    assert!(!log.contains("geheim"), "{log}");
}

#[tokio::test]
async fn suspended_alerts_send_what_is_still_true_afterwards() {
    let fixture = Fixture::start().await.unwrap();
    let sink = Sink::start().await.unwrap();
    fixture.alert("all", "chat", &json!({ "suspend": true })).await;
    fixture.until_ready_is("alert/all", "ProviderNotFound").await;
    fixture
        .provider("chat", &json!({ "type": "generic", "address": sink.url() }))
        .await;
    fixture.until_ready_is("alert/all", "Suspended").await;
    let names = ["web".to_owned(), "db".to_owned()];
    fixture.helmops(&names).await;
    fixture
        .statuses(&names, &refused("ChartNotFound", "no chart"))
        .await;
    fixture
        .until("alert/all", |alert| {
            ensure!(count(alert, "undelivered") == 2, "{}", alert["status"]);
            Ok(())
        })
        .await;
    fixture.statuses(&names[..1], &ready("1.0.0")).await;
    fixture
        .until("alert/all", |alert| {
            ensure!(count(alert, "undelivered") == 1, "{}", alert["status"]);
            Ok(())
        })
        .await;
    fixture.alert("all", "chat", &json!({ "suspend": false })).await;
    let received = sink.until(1).await.unwrap();
    assert_eq!(received[0].json()["involvedObject"]["name"], "db");
    eventually("the alert to be up to date", SOON, async || {
        let alert = fixture.kubectl.get("alert/all").await?.context("none")?;
        ensure!(count(&alert, "delivered") == 1, "{}", alert["status"]);
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(sink.received().len(), 1);
}

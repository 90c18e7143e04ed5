//! What Alerts send, in each format.

use anyhow::ensure;
use helmops_bed::sink::Sink;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::fixture::{Fixture, count, failing_clusters, numbered, ready, refused};
use crate::harness::SOON;

/// The body of a message with what changes each time left out.
fn without_times(mut body: Value) -> Value {
    if let Some(body) = body.as_object_mut() {
        assert!(body.remove("timestamp").is_some());
    }
    if let Some(object) = body.get_mut("involvedObject").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion"] {
            assert!(object.remove(field).is_some(), "{field}");
        }
    }
    body
}

const TYPES: [&str; 7] = [
    "generic",
    "generic-hmac",
    "slack",
    "msteams",
    "discord",
    "alertmanager",
    "cdevents",
];

/// Creates a provider of this type and an Alert, which send to a path with the name of the type.
async fn send_to(fixture: &Fixture, r#type: &str, sink: &Sink) {
    let address = format!("{}/{type}", sink.url());
    let mut spec = json!({ "type": r#type, "address": address });
    if r#type == "generic-hmac" {
        spec["secretRef"] = json!({ "name": "key" });
    }
    fixture.provider(r#type, &spec).await;
    let over = json!({ "eventMetadata": { "cluster": "test" }, "summary": "see the runbook" });
    fixture.alert(r#type, r#type, &over).await;
    fixture
        .until_ready_is(&format!("alertprovider/{type}"), "Ready")
        .await;
}

#[tokio::test]
async fn a_failure_and_its_end_arrive_in_every_format() {
    let fixture = Fixture::start().await.unwrap();
    let sink = Sink::start().await.unwrap();
    fixture
        .secret(
            "key",
            &json!({ "token": "a shared key", "headers": "X-Team: web" }),
        )
        .await;
    for r#type in TYPES {
        send_to(&fixture, r#type, &sink).await;
    }
    let names = ["podinfo".to_owned()];
    fixture.helmops(&names).await;
    fixture
        .statuses(
            &names,
            &refused(
                "ChartNotFound",
                "https://user:geheim@charts.example/index.yaml?token=geheim has no chart podinfo",
            ),
        )
        .await;
    let failures = sink.until(7).await.unwrap();
    for one in &failures {
        assert!(!String::from_utf8_lossy(&one.body).contains("geheim"), "{one:?}");
    }
    let of = |path: &str| failures.iter().find(|one| one.path == path).unwrap();

    let generic = of("/generic");
    assert_eq!(generic.header("gotk-component"), "helmops-notifier");
    assert_eq!(generic.header("content-type"), "application/json");
    let expected = json!({
        "involvedObject": { "kind": "HelmOp", "namespace": "default", "name": "podinfo", "apiVersion": "fleet.cattle.io/v1alpha1" },
        "severity": "error", "message": "https://charts.example/index.yaml?… has no chart podinfo", "reason": "ChartNotFound",
        "metadata": { "cluster": "test", "revision": "1.0.0", "summary": "see the runbook" },
        "reportingController": "helmops-notifier", "reportingInstance": "notifier",
    });
    assert_eq!(without_times(generic.json()), expected);
    let signed = of("/generic-hmac");
    assert_eq!(signed.header("x-team"), "web");
    assert!(signed.header("x-signature").starts_with("sha256="));
    assert!(signed.header("x-helmops-signature") != signed.header("x-signature"));
    assert!(signed.header("x-helmops-timestamp").parse::<i64>().is_ok());
    assert_eq!(without_times(signed.json()), expected);

    let slack = of("/slack").json();
    assert_eq!(slack["attachments"][0]["color"], "danger");
    assert_eq!(slack["attachments"][0]["author_name"], "helmop/podinfo.default");
    assert_eq!(
        of("/discord/slack").json()["attachments"][0]["text"],
        "https://charts.example/index.yaml?… has no chart podinfo"
    );
    assert_eq!(
        of("/msteams").json()["attachments"][0]["content"]["type"],
        "AdaptiveCard"
    );
    let fired = of("/alertmanager").json();
    assert_eq!(fired[0]["labels"]["alertname"], "HelmOpsHelmOpChartNotFound");
    let event = of("/cdevents");
    assert_eq!(event.header("content-type"), "application/cloudevents+json");
    assert_eq!(event.json()["type"], "dev.cdevents.incident.detected.0.2.0");

    fixture.statuses(&names, &ready("1.0.1")).await;
    let all = sink.until(14).await.unwrap();
    let resolutions = &all[7..];
    let of = |path: &str| resolutions.iter().find(|one| one.path == path).unwrap().json();
    assert_eq!(
        (&of("/generic")["severity"], &of("/generic")["message"]),
        (&json!("info"), &json!("ready again in version 1.0.1"))
    );
    assert_eq!(of("/slack")["attachments"][0]["color"], "good");
    assert_eq!(of("/alertmanager")[0]["labels"], fired[0]["labels"]);
    assert_eq!(of("/cdevents")["type"], "dev.cdevents.incident.resolved.0.2.0");
    for alert in ["generic", "alertmanager"] {
        fixture
            .until(&format!("alert/{alert}"), |alert| {
                let status = &alert["status"];
                ensure!(
                    count(alert, "delivered") == 2 && count(alert, "failing") == 0,
                    "{status}"
                );
                ensure!(
                    status
                        .get("reported")
                        .is_none_or(|reported| *reported == json!([])),
                    "{status}"
                );
                Ok(())
            })
            .await;
    }
}

#[tokio::test]
async fn two_hundred_clusters_are_one_message_with_counts() {
    let fixture = Fixture::start().await.unwrap();
    let sink = Sink::start().await.unwrap();
    fixture
        .provider("chat", &json!({ "type": "generic", "address": sink.url() }))
        .await;
    fixture.alert("all", "chat", &json!({})).await;
    fixture.until_ready_is("alert/all", "Ready").await;
    let names = ["web".to_owned()];
    fixture.helmops(&names).await;
    // The rollout fails on more and more clusters.
    for number in [1, 50, 200] {
        fixture.statuses(&names, &failing_clusters(number)).await;
    }
    let received = sink.until(1).await.unwrap();
    let message = received[0].json()["message"].as_str().unwrap().to_owned();
    assert!(
        message
            .contains("of 200 clusters fail: ErrApplied: fleet/c-1: no space left; fleet/c-2: no space left"),
        "{message}"
    );
    fixture.statuses(&names, &ready("2.0.0")).await;
    let received = sink.until(2).await.unwrap();
    assert_eq!(received[1].json()["message"], "ready again in version 2.0.0");
    // A second failure is reported again, and nothing was sent meanwhile.
    fixture.statuses(&names, &failing_clusters(3)).await;
    let received = sink.until(3).await.unwrap();
    assert_eq!(received.len(), 3);
    fixture.run(&["delete", "helmop/web"]).await;
    let received = sink.until(4).await.unwrap();
    assert_eq!(received[3].json()["reason"], "Deleted");
}

#[tokio::test]
async fn an_outage_is_one_message_and_each_new_version_one_with_severity_info() {
    let fixture = Fixture::start().await.unwrap();
    let [errors, infos] = [Sink::start().await.unwrap(), Sink::start().await.unwrap()];
    fixture
        .provider("errors", &json!({ "type": "generic", "address": errors.url() }))
        .await;
    fixture
        .provider("infos", &json!({ "type": "generic", "address": infos.url() }))
        .await;
    fixture
        .alert("errors", "errors", &json!({ "exclusionList": ["(?i)never"] }))
        .await;
    let of_one =
        json!({ "eventSeverity": "info", "eventSources": [{ "kind": "HelmOp", "name": "web-0000" }] });
    fixture.alert("infos", "infos", &of_one).await;
    let names = numbered("web", 100);
    fixture.helmops(&names).await;
    fixture.statuses(&names, &ready("1.0.0")).await;
    assert_eq!(
        infos.until(1).await.unwrap()[0].json()["message"],
        "ready in version 1.0.0"
    );
    fixture
        .statuses(&names, &refused("NoMatchingVersion", "this is Never sent"))
        .await;
    infos.until(2).await.unwrap();
    fixture
        .statuses(&names, &refused("ConnectionFailed", "connection refused"))
        .await;
    let message = errors.until(1).await.unwrap()[0].json();
    let text = message["message"].as_str().unwrap();
    assert!(
        text.contains(" HelmOps fail: ConnectionFailed: default/web-0000, "),
        "{text}"
    );
    assert_eq!(message["involvedObject"]["kind"], "Alert");
    eventually("all of them to be reported", SOON, async || {
        let received = errors.received();
        let count = |one: &helmops_bed::sink::Received| {
            let count = one.json()["metadata"]["objects"]
                .as_str()
                .map_or(Ok(1), str::parse::<usize>);
            count.unwrap()
        };
        let reported: usize = received.iter().map(count).sum();
        ensure!(reported == 100, "{reported} in {} messages", received.len());
        Ok(())
    })
    .await
    .unwrap();
    // Each Alert has a window of its own, in which a failure that ends is no message.
    infos.until(3).await.unwrap();
    fixture.statuses(&names, &ready("1.1.0")).await;
    infos.until(4).await.unwrap();
    assert!(errors.received().len() <= 12, "{}", errors.received().len());
}

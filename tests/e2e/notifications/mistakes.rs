//! AlertProviders, Alerts and Receivers with mistakes.

use std::path::Path;

use helmops_bed::helmops;
use serde_json::json;

use super::fixture::{Fixture, own};
use crate::harness::condition;

#[tokio::test]
async fn kubectl_apply_of_a_mistake_gets_the_exact_error() {
    let fixture = Fixture::start().await.unwrap();
    let command = |program: &Path| fixture.bed.command(program);
    let webhook = helmops::start_webhook(&fixture.bed, "webhook", &command)
        .await
        .unwrap();
    helmops::register_webhook(&fixture.kubectl, &webhook)
        .await
        .unwrap();
    for mistake in helmops_mistakes::notifications() {
        let output = fixture
            .kubectl
            .apply(&mistake.manifest().to_string())
            .await
            .unwrap();
        let (kind, printed) = (mistake.kind, output.stderr);
        // The API server checks the schema first, and reports each error on a line of its own.
        let expected = if mistake.is_in_schema() {
            format!("{}: Too ", mistake.path())
        } else {
            format!("The {kind} \"wrong\" is invalid: {}", mistake.error)
        };
        assert!(
            printed.contains(&expected) && !printed.contains("geheim"),
            "{printed}"
        );
    }
    // Each is a duration for admission, so it must be one for the schema too.
    for wait in ["5s", ".5s", "5.s", "+5s", "5\u{b5}s", "5\u{3bc}s"] {
        let valid = json!({
            "providerRef": { "name": "chat" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }], "grouping": { "wait": wait },
        });
        fixture.apply(&own("Alert", "valid", &valid)).await;
    }
}

#[tokio::test]
async fn an_alert_that_bypasses_the_webhook_reports_its_mistakes() {
    let fixture = Fixture::start().await.unwrap();
    fixture
        .provider(
            "chat",
            &json!({ "type": "pagerduty", "address": "https://a.example" }),
        )
        .await;
    let provider = fixture
        .until_ready_is("alertprovider/chat", "InvalidNotification")
        .await;
    assert!(
        condition(&provider, "Ready").unwrap()["message"]
            .as_str()
            .unwrap()
            .starts_with("spec.type: Unsupported value")
    );
    fixture.alert("all", "chat", &json!({})).await;
    fixture.until_ready_is("alert/all", "ProviderNotReady").await;
    fixture
        .alert("broken", "chat", &json!({ "eventSeverity": "warn" }))
        .await;
    fixture
        .until_ready_is("alert/broken", "InvalidNotification")
        .await;
    let sources = json!({ "eventSources": [{ "kind": "HelmOp", "name": "*", "namespace": "kube-system" }] });
    fixture.alert("foreign", "chat", &sources).await;
    let foreign = fixture
        .until_ready_is("alert/foreign", "NamespaceForbidden")
        .await;
    let message = condition(&foreign, "Ready").unwrap()["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "spec.eventSources[0].namespace: Forbidden: \"kube-system\": an Alert in namespace default"
        ),
        "{message}"
    );
}

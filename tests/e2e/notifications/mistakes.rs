//! Alerts and AlertProviders with mistakes.

use std::path::Path;

use helmops_bed::helmops;
use serde_json::{Value, json};

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
    let alert = |over: Value| {
        let mut spec =
            json!({ "providerRef": { "name": "chat" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }] });
        json_patch::merge(&mut spec, &over);
        own("Alert", "all", &spec)
    };
    for (object, expected) in [
        (
            alert(json!({ "eventSources": [{ "kind": "HelmRelease", "name": "*" }] })),
            "The Alert \"all\" is invalid: spec.eventSources[0].kind: Unsupported value: \"HelmRelease\": supported kinds: HelmOp, Bundle, \
             Cluster",
        ),
        (
            alert(json!({ "inclusionList": ["(web"] })),
            "The Alert \"all\" is invalid: spec.inclusionList[0]: Invalid value: \"(web\": error parsing regexp: missing closing ): `(web`",
        ),
        (
            own(
                "AlertProvider",
                "chat",
                &json!({ "type": "slack", "address": "hooks.slack.com/geheim" }),
            ),
            "The AlertProvider \"chat\" is invalid: spec.address: Invalid value: \"hooks.slack.com…\": not an absolute URL: it must begin \
             with https:// or http://",
        ),
        (
            own(
                "AlertProvider",
                "chat",
                &json!({ "type": "generic-hmac", "address": "https://a" }),
            ),
            "The AlertProvider \"chat\" is invalid: spec.secretRef: Required value: type generic-hmac signs with the key token of a \
             Secret; name the Secret",
        ),
    ] {
        let output = fixture.kubectl.apply(&object.to_string()).await.unwrap();
        assert_eq!(output.stderr.trim_end(), expected);
    }
    // The API server checks the limits in the CRD itself.
    let long = alert(json!({ "inclusionList": ["x".repeat(513)] }));
    let output = fixture.kubectl.apply(&long.to_string()).await.unwrap();
    assert!(
        output.stderr.contains("spec.inclusionList[0]: Too long"),
        "{}",
        output.stderr
    );
    fixture.apply(&alert(json!({}))).await;
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

//! CRDs that differ from those of helmops.

use std::time::Duration;

use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::own::Fixture;

/// Fleet's own CRD has none of our fields, so the API server drops them.
#[tokio::test]
async fn a_crd_without_our_fields_is_sufficient() {
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status";
    let change = json!([
        { "op": "remove", "path": format!("{status}/default") },
        { "op": "remove", "path": format!("{status}/properties/observedGeneration") },
        { "op": "remove", "path": format!("{status}/properties/resolved") },
        { "op": "remove", "path": format!("{status}/properties/conditions/items/properties/observedGeneration") }
    ]);
    let mut fixture = Fixture::start(Some(&change.to_string())).await.unwrap();
    fixture.apply("web", &json!({})).await;
    fixture.until("web", "Accepted", "Accepted").await;
    fixture.until_version("web", "0.2.0").await;
    for number in 0..3 {
        let before = fixture.reconciled().await.unwrap();
        let annotation = format!("number={number}");
        fixture
            .run(&["annotate", "--overwrite", "bundle/web", &annotation])
            .await;
        fixture.until_reconciled(before, 1.0).await;
    }
    assert_eq!(fixture.writes().await, [1, 0, 1]);
    fixture.restart_controller("controller-2").await;
    fixture.until_reconciled(0.0, 1.0).await;
    fixture.until_version("web", "0.2.0").await;
    assert_eq!(fixture.server.requests("/index.yaml"), 1);
}

#[tokio::test]
async fn an_invalid_object_blocks_no_other() {
    let paused = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/paused";
    let anything = json!({ "x-kubernetes-preserve-unknown-fields": true });
    let change = json!([{ "op": "replace", "path": paused, "value": anything }]);
    let mut fixture = Fixture::start(Some(&change.to_string())).await.unwrap();
    fixture.apply("invalid", &json!({ "paused": "maybe" })).await;
    fixture.apply("valid", &json!({})).await;
    fixture.until_version("valid", "0.2.0").await;
    fixture.restart_controller("controller-2").await;
    fixture.apply("later", &json!({})).await;
    fixture.until_version("later", "0.2.0").await;
    assert!(
        fixture
            .controller
            .process
            .log()
            .contains("HelmOp cannot be decoded")
    );
    let reported = async || {
        let events = fixture
            .kubectl
            .run(&["get", "events.events.k8s.io", "--output=json"])
            .await?;
        let events: Value = serde_json::from_str(&events.ok()?)?;
        let is_expected = |event: &Value| {
            event["regarding"]["name"] == "invalid"
                && event["reason"] == "DecodeError"
                && event["note"].as_str().is_some_and(|note| note.contains("paused"))
        };
        let mut events = events["items"].as_array().into_iter().flatten();
        anyhow::ensure!(events.any(is_expected), "no event names the field");
        Ok(())
    };
    eventually(
        "an event of the invalid HelmOp",
        Duration::from_secs(10),
        reported,
    )
    .await
    .unwrap();
    assert!(fixture.kubectl.get("bundle/invalid").await.unwrap().is_none());
}

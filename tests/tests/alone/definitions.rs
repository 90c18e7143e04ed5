//! Definitions of kinds that are not those of helmops.

use std::time::Duration;

use helmops_tests::wait::eventually;
use serde_json::{Value, json};

use crate::bed::Alone;

/// Fleet's own definition has none of our fields, and the API server drops them.
#[tokio::test]
async fn a_definition_without_our_fields_will_do() {
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let change = json!([
        { "op": "remove", "path": format!("{status}/observedGeneration") },
        { "op": "remove", "path": format!("{status}/resolved") },
        { "op": "remove", "path": format!("{status}/conditions/items/properties/observedGeneration") }
    ]);
    let mut alone = Alone::start(Some(&change.to_string())).await.unwrap();
    alone.apply("web", &json!({})).await;
    alone.until("web", "Accepted", "Accepted").await;
    alone.until_version("web", "0.2.0").await;
    for round in 0..3 {
        let before = alone.reconciled().await.unwrap();
        let annotation = format!("round={round}");
        alone
            .kubectl
            .run(&["annotate", "--overwrite", "bundle/web", &annotation])
            .await
            .unwrap()
            .ok()
            .unwrap();
        alone.until_reconciled(before, 1.0).await;
    }
    assert_eq!(alone.writes().await, [1, 0, 1]);
    alone.restart_controller("controller-2").await;
    alone.until_reconciled(0.0, 1.0).await;
    alone.until_version("web", "0.2.0").await;
    assert_eq!(alone.server.requests("/index.yaml"), 1);
}

#[tokio::test]
async fn an_odd_object_stops_nothing() {
    let paused = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/paused";
    let anything = json!({ "x-kubernetes-preserve-unknown-fields": true });
    let change = json!([{ "op": "replace", "path": paused, "value": anything }]);
    let mut alone = Alone::start(Some(&change.to_string())).await.unwrap();
    alone.apply("odd", &json!({ "paused": "maybe" })).await;
    alone.apply("good", &json!({})).await;
    alone.until_version("good", "0.2.0").await;
    alone.restart_controller("controller-2").await;
    alone.apply("better", &json!({})).await;
    alone.until_version("better", "0.2.0").await;
    assert!(
        alone
            .controller
            .process
            .log()
            .contains("HelmOp cannot be decoded")
    );
    let reported = async || {
        let events = alone
            .kubectl
            .run(&["get", "events.events.k8s.io", "--output=json"])
            .await?;
        let events: Value = serde_json::from_str(&events.ok()?)?;
        let is_it = |event: &Value| {
            event["regarding"]["name"] == "odd"
                && event["reason"] == "DecodeError"
                && event["note"].as_str().is_some_and(|note| note.contains("paused"))
        };
        let mut events = events["items"].as_array().into_iter().flatten();
        anyhow::ensure!(events.any(is_it), "no event names the field");
        Ok(())
    };
    eventually("an event of the odd HelmOp", Duration::from_secs(10), reported)
        .await
        .unwrap();
    assert!(alone.kubectl.get("bundle/odd").await.unwrap().is_none());
}

//! What is written, and what is not.

use anyhow::{Context, ensure};
use helmops_tests::wait::eventually;
use serde_json::json;

use crate::bed::{Alone, SOON};

#[tokio::test]
async fn a_new_helmop_costs_two_writes_and_an_unchanged_one_none() {
    let mut alone = Alone::start(None).await.unwrap();
    alone
        .apply("web", &json!({ "targets": [{ "clusterSelector": {} }] }))
        .await;
    alone.until("web", "Accepted", "Accepted").await;
    // kubectl created the object by POST, so every PATCH is a status.
    assert_eq!(alone.writes().await, [1, 0, 1]);

    // A change of the Bundle that asks for nothing: it is looked at again.
    let before = alone.reconciled().await.unwrap();
    alone
        .kubectl
        .run(&["annotate", "bundle/web", "somebody=else"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    alone.until_reconciled(before, 1.0).await;
    let written = alone.writes().await;
    assert_eq!(written, [1, 0, 1]);
    alone.restart_controller("controller-2").await;
    alone.until_reconciled(0.0, 1.0).await;
    assert_eq!(alone.writes().await, written, "a restart writes nothing");
    assert_eq!(alone.server.requests("/index.yaml"), 1, "and asks no repository");

    alone
        .apply(
            "web",
            &json!({ "helm": { "repo": alone.server.url(), "chart": "alpine", "version": "0.1.0" } }),
        )
        .await;
    alone.until_version("web", "0.1.0").await;
    eventually("the status", SOON, async || {
        let helmop = alone.kubectl.get("helmop/web").await?.context("there is none")?;
        ensure!(
            helmop["status"]["version"] == "0.1.0",
            "it is {}",
            helmop["status"]
        );
        Ok(())
    })
    .await
    .unwrap();
    // One Bundle, one status, and kubectl's own patch.
    assert_eq!(alone.writes().await, [1, 1, 3]);
}

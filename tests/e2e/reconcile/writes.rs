//! The number of writes to the API server.

use anyhow::{Context, ensure};
use helmops_bed::wait::eventually;
use serde_json::json;

use crate::harness::SOON;
use crate::harness::own::Fixture;

#[tokio::test]
async fn a_new_helmop_costs_two_writes_and_an_unchanged_one_none() {
    let mut fixture = Fixture::start(None).await.unwrap();
    fixture
        .apply("web", &json!({ "targets": [{ "clusterSelector": {} }] }))
        .await;
    fixture.until("web", "Accepted", "Accepted").await;
    // kubectl created the object with POST, so every PATCH is a status.
    assert_eq!(fixture.writes().await, [1, 0, 1]);

    // A change of the Bundle that needs no write: it is reconciled again.
    let before = fixture.reconciled().await.unwrap();
    fixture
        .run(&["annotate", "bundle/web", "example.com/other=value"])
        .await;
    fixture.until_reconciled(before, 1.0).await;
    let written = fixture.writes().await;
    assert_eq!(written, [1, 0, 1]);
    fixture.restart_controller("controller-2").await;
    fixture.until_reconciled(0.0, 1.0).await;
    assert_eq!(fixture.writes().await, written, "a restart writes nothing");
    assert_eq!(
        fixture.server.requests("/index.yaml"),
        1,
        "and sends no request to the repository"
    );

    fixture
        .apply(
            "web",
            &json!({ "helm": { "repo": fixture.server.url(), "chart": "alpine", "version": "0.1.0" } }),
        )
        .await;
    fixture.until_version("web", "0.1.0").await;
    eventually("the status", SOON, async || {
        let helmop = fixture
            .kubectl
            .get("helmop/web")
            .await?
            .context("there is none")?;
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
    assert_eq!(fixture.writes().await, [1, 1, 3]);
}

//! Polling across restarts.

use anyhow::{Context, ensure};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::SOON;
use crate::harness::own::Fixture;

async fn last_poll(fixture: &Fixture) -> Value {
    let helmop = fixture.kubectl.get("helmop/web").await.unwrap().unwrap();
    helmop["status"]["lastPollingTriggered"].clone()
}

/// The next poll follows from the status: a restart triggers none, and any number of missed polls is made up for by one.
#[tokio::test]
async fn a_restart_neither_triggers_nor_skips_a_poll() {
    let mut fixture = Fixture::start(None).await.unwrap();
    fixture.apply("web", &json!({ "pollingInterval": "12h" })).await;
    fixture.until("web", "Polled", "Polled").await;
    let (polled, requests) = (last_poll(&fixture).await, fixture.server.requests("/index.yaml"));
    fixture.restart_controller("controller-2").await;
    fixture.until_reconciled(0.0, 1.0).await;
    assert_eq!(last_poll(&fixture).await, polled);
    assert_eq!(fixture.server.requests("/index.yaml"), requests);

    let long_ago = json!({ "lastPollingTriggered": "2020-01-01T00:00:00Z" });
    fixture.patch_status("helmop/web", &long_ago).await;
    fixture.restart_controller("controller-3").await;
    eventually("the missed poll", SOON, async || {
        let helmop = fixture
            .kubectl
            .get("helmop/web")
            .await?
            .context("there is none")?;
        let last = helmop["status"]["lastPollingTriggered"]
            .as_str()
            .unwrap_or_default();
        ensure!(last > "2021", "it is {last}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(fixture.server.requests("/index.yaml"), requests + 1);
}

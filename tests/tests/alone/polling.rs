//! Looks for newer versions across restarts.

use anyhow::{Context, ensure};
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

use crate::bed::{Alone, SOON};

async fn last_look(alone: &Alone) -> Value {
    let helmop = alone.kubectl.get("helmop/web").await.unwrap().unwrap();
    helmop["status"]["lastPollingTriggered"].clone()
}

/// What is due follows from the status: a restart brings nothing forward, and what was missed is made up for once.
#[tokio::test]
async fn a_restart_neither_hastens_a_look_nor_skips_one() {
    let mut alone = Alone::start(None).await.unwrap();
    alone.apply("web", &json!({ "pollingInterval": "12h" })).await;
    alone.until("web", "Polled", "Polled").await;
    let (looked, asked) = (last_look(&alone).await, alone.server.requests("/index.yaml"));
    alone.restart_controller("controller-2").await;
    alone.until_reconciled(0.0, 1.0).await;
    assert_eq!(last_look(&alone).await, looked);
    assert_eq!(alone.server.requests("/index.yaml"), asked);

    let long_ago = json!({ "lastPollingTriggered": "2020-01-01T00:00:00Z" });
    alone.patch_status("helmop/web", &long_ago).await;
    alone.restart_controller("controller-3").await;
    eventually("the look that was missed", SOON, async || {
        let helmop = alone.kubectl.get("helmop/web").await?.context("there is none")?;
        let last = helmop["status"]["lastPollingTriggered"]
            .as_str()
            .unwrap_or_default();
        ensure!(last > "2021", "it is {last}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(alone.server.requests("/index.yaml"), asked + 1);
}

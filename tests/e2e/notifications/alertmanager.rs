//! Alerts in a real Alertmanager.

use anyhow::{Context, Result, ensure};
use helmops_bed::probe;
use helmops_bed::process::Process;
use helmops_bed::tools;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::fixture::{Fixture, ready, refused};
use crate::harness::SOON;

#[tokio::test]
async fn an_alertmanager_shows_a_failure_and_its_end() {
    let fixture = Fixture::start().await.unwrap();
    let program = tools::alertmanager().await.unwrap();
    let folder = tempfile::TempDir::with_prefix_in("alertmanager-", &fixture.bed.directory).unwrap();
    let config = folder.path().join("alertmanager.yaml");
    std::fs::write(&config, "route: {receiver: none}\nreceivers: [{name: none}]\n").unwrap();
    let client = probe::client(None).unwrap();
    let (_alertmanager, [port]) = Process::start_on_ports(
        "alertmanager",
        &folder.path().join("log"),
        |[port]| {
            let mut command = fixture.bed.command(&program);
            command
                .arg(format!("--config.file={}", config.display()))
                .arg(format!("--storage.path={}", folder.path().join("data").display()))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"))
                .arg("--cluster.listen-address=");
            command
        },
        async |[port]| probe::ready(&client, &format!("http://127.0.0.1:{port}/-/ready"), SOON).await,
    )
    .await
    .unwrap();
    let url = format!("http://127.0.0.1:{port}/api/v2/alerts");
    let alerts =
        async || -> Result<Vec<Value>> { Ok(serde_json::from_str(&probe::get(&client, &url).await?)?) };

    fixture
        .provider("alertmanager", &json!({ "type": "alertmanager", "address": url }))
        .await;
    fixture
        .alert(
            "all",
            "alertmanager",
            &json!({ "eventMetadata": { "stage": "test" }, "summary": "see the runbook" }),
        )
        .await;
    let names = ["web".to_owned(), "db".to_owned()];
    fixture.helmops(&names).await;
    fixture
        .statuses(&names, &refused("ChartNotFound", "no chart"))
        .await;
    let shown = eventually("both alerts", SOON, async || {
        let shown = alerts().await?;
        ensure!(shown.len() == 2, "{shown:?}");
        Ok(shown)
    })
    .await
    .unwrap();
    let web = shown
        .iter()
        .find(|alert| alert["labels"]["name"] == "web")
        .unwrap();
    let labels = json!({
        "alertname": "HelmOpsHelmOpChartNotFound", "severity": "error", "reason": "ChartNotFound", "kind": "HelmOp", "name": "web",
        "namespace": "default", "stage": "test",
    });
    assert_eq!(web["labels"], labels);
    assert_eq!(
        web["annotations"],
        json!({ "message": "no chart", "revision": "1.0.0", "summary": "see the runbook" })
    );
    fixture.statuses(&names[..1], &ready("1.0.0")).await;
    eventually("the end of one of them", SOON, async || {
        let shown = alerts().await?;
        let [alert] = &shown[..] else {
            anyhow::bail!("{shown:?}");
        };
        let name = alert["labels"]["name"].as_str().context("no name")?;
        ensure!(name == "db", "{alert}");
        Ok(())
    })
    .await
    .unwrap();
}

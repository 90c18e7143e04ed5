//! A push of a chart is polled seconds later, through the Service of the receiver.

use anyhow::{Context, Result, ensure};
use helmops_bed::probe;
use serde_json::json;

use crate::report::Report;
use crate::site::{NAMESPACE, SYSTEM, Site};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "push", "namespace": NAMESPACE },
            "stringData": { "token": TOKEN },
        },
        {
            "apiVersion": "helmops.fleet.cattle.io/v1alpha1",
            "kind": "Receiver",
            "metadata": { "name": "push", "namespace": NAMESPACE },
            "spec": { "type": "generic", "secretRef": { "name": "push" } },
        },
    ] });
    site.publish("pod", "0.1.0").await?;
    site.kubectl.apply(&objects.to_string()).await?.ok()?;
    let chart = json!({ "pollingInterval": "1h", "helm": { "chart": "pod", "releaseName": "pushed" } });
    site.apply("pushed", &chart).await?;
    report
        .within(30, "a HelmOp that is polled once an hour is ready", async || {
            site.ready("pushed").await
        })
        .await;
    site.publish("pod", "0.2.0").await?;
    report
        .within(20, "the Service of the receiver accepts a push", async || {
            push(site).await
        })
        .await;
    let deployed = async || {
        let list = site.helm(&["list", "--namespace=pushed"]).await?;
        ensure!(list.contains("pod-0.2.0"), "it is not deployed: {list}");
        Ok(())
    };
    report
        .within(20, "the pushed version is deployed", deployed)
        .await;
    site.delete(&["pushed"]).await
}

async fn push(site: &Site) -> Result<()> {
    let receiver = site.get(NAMESPACE, "receiver/push").await?;
    let path = receiver["status"]["webhookPath"]
        .as_str()
        .context("the Receiver has no path")?;
    let service = site.get(SYSTEM, "service/helmops-receiver").await?;
    let address = service["spec"]["clusterIP"]
        .as_str()
        .context("it has no address")?;
    let request = probe::client(None)?.post(format!("http://{address}{path}"));
    let response = request.bearer_auth(TOKEN).body("{}").send().await?;
    let status = response.status();
    ensure!(status == 202, "{status}: {}", response.text().await?);
    Ok(())
}

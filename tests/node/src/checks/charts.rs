//! Charts from a repository in the cluster: deployed, upgraded, corrected, rolled back, tested and deleted.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::images::TAG;
use crate::report::{Report, contains, note};
use crate::site::{Site, create, probe};

/// Installs helmops, and deploys what other sections disturb: a release in the namespace `shop`. Whether that was possible.
pub async fn prepare(site: &Site, report: &mut Report) -> Result<bool> {
    for (chart, version) in [("web", "0.1.0"), ("web", "0.2.0"), ("pod", "0.1.0")] {
        site.publish(chart, version).await?;
    }
    let install = site.install(TAG, None);
    if !report.check("helmops is installed with kubectl", install).await {
        return Ok(false);
    }
    // kube-proxy adds the addresses of new pods to a Service a moment after they are ready.
    let reached = async || create(&site.api()?, &probe()).await.map(drop);
    report
        .within(20, "the API server reaches the webhook", reached)
        .await;
    site.apply("shop", &json!({})).await?;
    let ready = async || site.ready("shop").await;
    let what = "a chart of a repository in the cluster is deployed";
    let deployed = report.within(30, what, ready).await;
    let responds = async || contains(&site.answer("shop").await?, "0.2.0 hello");
    let responds = report.within(20, "its Service responds", responds).await;
    Ok(deployed && responds)
}

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    site.publish("web", "0.3.0").await?;
    let upgraded = async || site.deployed("shop", "0.3.0").await;
    report
        .within(60, "a newer version is found by polling", upgraded)
        .await;
    report
        .within(30, "its pods run", async || {
            contains(&site.answer("shop").await?, "0.3.0 hello")
        })
        .await;
    report
        .within(30, "it is ready", async || site.ready("shop").await)
        .await;

    site.run(&["scale", "--namespace=shop", "deployment/web", "--replicas=0"])
        .await?;
    let replicas = async || {
        let found = site.get("shop", "deployment/web").await?;
        ensure!(
            found["spec"]["replicas"] == 2,
            "it has {}",
            found["spec"]["replicas"]
        );
        Ok(())
    };
    report
        .within(30, "drift of the replicas is corrected", replicas)
        .await;
    site.run(&["delete", "--namespace=shop", "service/web"]).await?;
    report
        .within(30, "a deleted Service is created again", async || {
            site.get("shop", "service/web").await.map(drop)
        })
        .await;
    site.drift().await?;
    report
        .within(30, "drift of a ConfigMap is corrected", async || {
            site.corrected().await
        })
        .await;
    report
        .within(30, "it is ready again", async || site.ready("shop").await)
        .await;
    Ok(())
}

pub async fn lifecycle(site: &Site, report: &mut Report) -> Result<()> {
    let safe = |mode: &str| {
        json!({
            "helm": { "version": "0.2.0", "values": { "mode": mode } },
            "lifecycle": {
                "upgrade": { "remediation": "rollback", "retries": 0 },
                "wait": { "timeout": "12s" },
            },
        })
    };
    let tested = |result: &str| {
        json!({
            "helm": { "version": "0.2.0", "values": { "test": result } },
            "lifecycle": { "test": { "enable": true, "timeout": "1m" } },
        })
    };
    site.apply("safe", &safe("serve")).await?;
    site.apply("tested", &tested("fail")).await?;
    report
        .within(60, "a HelmOp with remediation is ready", async || {
            site.ready("safe").await
        })
        .await;
    site.apply("safe", &safe("crash")).await?;
    let why = ["check 31: FAILED: GET /cart: expected 200, got 500"];
    report
        .within(
            60,
            "a failed Helm test is reported with the end of its log",
            async || site.says("tested", &why).await,
        )
        .await;
    note(&site.message("tested").await?);
    site.apply("tested", &tested("ok")).await?;
    report
        .within(60, "a Helm test that passes makes it ready", async || {
            site.ready("tested").await
        })
        .await;

    let cause = ["exit code 3", "cannot open the database"];
    report
        .within(30, "while an upgrade waits, the cause is reported", async || {
            site.says("safe", &cause).await
        })
        .await;
    note(&site.message("safe").await?);
    report
        .within(
            60,
            "an upgrade whose containers crash is rolled back",
            async || site.says("safe", &["rolled back"]).await,
        )
        .await;
    note(&site.message("safe").await?);
    report
        .within(30, "the earlier pods run", async || {
            contains(&site.answer("safe").await?, "0.2.0 hello")
        })
        .await;
    let history = async {
        contains(
            &site.helm(&["history", "web", "--namespace=safe"]).await?,
            "Rollback",
        )
    };
    report
        .check("the history of Helm has the rollback", history)
        .await;

    site.delete(&["safe", "tested"]).await?;
    for name in ["safe", "tested"] {
        let what = format!("the release in {name} is uninstalled");
        report
            .within(60, &what, async || site.gone(name, "deployment/web").await)
            .await;
    }
    let left = async || {
        let secrets = site.list("api/v1/secrets?labelSelector=owner%3Dhelm").await?;
        let of_deleted = secrets
            .iter()
            .filter(|secret| secret["metadata"]["namespace"] != "shop");
        ensure!(of_deleted.count() == 0, "Secrets of Helm are left");
        let deployments = site
            .list("apis/fleet.cattle.io/v1alpha1/bundledeployments")
            .await?;
        ensure!(
            deployments.len() <= 1,
            "{} BundleDeployments are left",
            deployments.len()
        );
        Ok(())
    };
    report.within(30, "no record of them is left", left).await;
    Ok(())
}

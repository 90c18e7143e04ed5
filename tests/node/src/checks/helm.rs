//! The other way to install: the chart, which waits until all is ready.

use anyhow::Result;
use serde_json::json;

use super::uninstall;
use crate::report::{Report, contains};
use crate::site::Site;

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    report
        .check("helm install --wait", site.install_with_helm())
        .await;
    site.register().await?;
    site.until_registered().await?;
    site.apply("shop", &json!({ "helm": { "version": "0.1.0" } }))
        .await?;
    report
        .within(30, "a chart is deployed", async || site.ready("shop").await)
        .await;
    report
        .within(20, "its Service responds", async || {
            contains(&site.answer("shop").await?, "hello")
        })
        .await;
    report
        .check("HelmOps and the Cluster are deleted", uninstall::withdraw(site))
        .await;
    report
        .check("helmops is uninstalled with Helm", site.uninstall_with_helm())
        .await;
    report
        .check(
            "only the namespace of the cluster is left",
            uninstall::only_documented(site),
        )
        .await;
    Ok(())
}

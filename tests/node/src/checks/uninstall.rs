//! What is left after an uninstallation by docs/install.md.

use anyhow::{Result, ensure};

use crate::report::Report;
use crate::site::Site;

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    report
        .check(
            "HelmOps and the Cluster are deleted, with what they deployed",
            withdraw(site),
        )
        .await;
    report
        .check("helmops is uninstalled with kubectl", site.uninstall())
        .await;
    report
        .check("only the namespace of the cluster is left", only_documented(site))
        .await;
    Ok(())
}

/// Deletes what users have created.
pub async fn withdraw(site: &Site) -> Result<()> {
    site.withdraw().await?;
    site.gone("shop", "deployment/web").await
}

/// "The namespaces of clusters are kept".
pub async fn only_documented(site: &Site) -> Result<()> {
    let left = site.left().await?;
    let is_documented = |name: &String| name.starts_with("namespace/cluster-");
    let others: Vec<_> = left.iter().filter(|name| !is_documented(name)).collect();
    ensure!(others.is_empty(), "{others:?} are left");
    Ok(())
}

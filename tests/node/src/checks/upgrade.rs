//! A rolling upgrade to another tag of the images, under a loop of requests to admission.

use anyhow::{Result, ensure};

use crate::report::{Report, note};
use crate::site::{AdmissionLoop, Site};

const NEXT: &str = "0.1.1";

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    let revision = site
        .helm(&["history", "web", "--namespace=shop", "--output=json"])
        .await?;
    site.node.tag_images(NEXT).await?;
    let requests = AdmissionLoop::start(site)?;
    report
        .check("an upgrade to another tag", site.install(NEXT, None))
        .await;
    report
        .within(30, "all pods are ready", async || site.settled().await)
        .await;
    let mut accepted = 0;
    let none_failed = async {
        accepted = requests.stop().await?;
        Ok(())
    };
    report
        .check("no request to admission failed meanwhile", none_failed)
        .await;
    note(&format!("{accepted} requests"));
    let current = async {
        for pod in site.pods().await? {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
            ensure!(image.ends_with(NEXT), "{} has {image}", pod["metadata"]["name"]);
        }
        Ok(())
    };
    report.check("all pods have the new tag", current).await;
    let untouched = async {
        let after = site
            .helm(&["history", "web", "--namespace=shop", "--output=json"])
            .await?;
        ensure!(after == revision, "the history was {revision} and is {after}");
        Ok(())
    };
    report.check("no release was changed", untouched).await;
    site.drift().await?;
    report
        .within(60, "drift is corrected", async || site.corrected().await)
        .await;
    Ok(())
}

//! Admission: the API server reaches the webhook through its Service.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::report::{Report, contains};
use crate::site::{Site, create, probe};

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    let api = site.api()?;
    let denied = async {
        let mut helmop = probe();
        if let Some(repo) = helmop.pointer_mut("/spec/helm/repo") {
            *repo = json!("charts.example.com");
        }
        let error = create(&api, &helmop).await.err().context("it was accepted")?;
        contains(&format!("{error:#}"), "not an absolute URL")
    };
    report
        .check("an invalid HelmOp is denied with its error", denied)
        .await;
    let accepted = async {
        let created: Value = serde_json::from_str(&create(&api, &probe()).await?)?;
        let interval = &created["spec"]["pollingInterval"];
        ensure!(
            interval.is_string() || created["spec"]["namespace"].is_string(),
            "no default is set: {created}"
        );
        Ok(())
    };
    report
        .check("a valid one is accepted, with defaults", accepted)
        .await;
    Ok(())
}

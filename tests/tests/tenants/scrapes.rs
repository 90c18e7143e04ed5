//! Fields of a megabyte, which metrics repeat.

use anyhow::Result;
use helmops_tests::probe;
use helmops_tests::wait::eventually;
use serde_json::json;

use crate::bed::Mode;
use crate::hostile::{ADDRESS, Hostile};
use crate::stage::{SOON, Stage, run};

const HELMOPS: usize = 8;
/// Nearly as much as an object may have.
const LENGTH: usize = 1 << 20;
/// What a few HelmOps may add to a scrape, in bytes; generous.
const GROWTH: usize = 1 << 20;

#[test]
fn long_fields_in_metrics() {
    run(Mode::BesideFleet, "scrape of long fields", async |stage| {
        let server = Hostile::serve(ADDRESS, |_| axum::response::Response::default()).await?;
        let before = scrape(stage).await?;
        for number in 0..HELMOPS {
            let repo = format!("{}/{}", server.url(), "a".repeat(LENGTH));
            let spec = json!({ "helm": { "repo": repo, "chart": "web", "version": "1.x" } });
            stage.create("helmops", &format!("long-{number}"), spec).await?;
        }
        eventually("a status of each", SOON, async || {
            for number in 0..HELMOPS {
                let helmop = stage.get("helmops", &format!("long-{number}")).await?;
                anyhow::ensure!(
                    helmop["status"]["conditions"].is_array(),
                    "long-{number} has none"
                );
            }
            Ok(())
        })
        .await?;
        match scrape(stage).await {
            Ok(after) => {
                let growth = after.saturating_sub(before);
                stage.check(growth < GROWTH, format!("a scrape has {growth} bytes more"));
            }
            Err(error) => stage.check(false, format!("the scrape: {error:#}")),
        }
        stage.neighbour_works().await;
        Ok(())
    });
}

/// Scrapes the controller, and gives the length.
async fn scrape(stage: &Stage<'_>) -> Result<usize> {
    let ports = stage.bed.admin_ports();
    let url = format!("{}/metrics", ports[0].1);
    Ok(probe::get(&probe::client(None)?, &url).await?.len())
}

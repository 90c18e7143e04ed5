//! Fields of a megabyte that metrics use as labels.

use anyhow::Result;
use helmops_bed::probe;
use helmops_bed::wait::eventually;
use serde_json::json;

use crate::attack::{Attack, SOON, run};
use crate::environment::Mode;
use crate::hostile_server::{ADDRESS, HostileServer};

const HELMOPS: usize = 8;
/// Nearly as long as an object may be.
const LENGTH: usize = 1 << 20;
/// What a few HelmOps may add to a scrape, in bytes; a generous bound.
const GROWTH: usize = 1 << 20;

#[test]
fn long_fields_in_metrics() {
    run(Mode::BesideFleet, "scrape of long fields", async |attack| {
        let server = HostileServer::serve(ADDRESS, |_| axum::response::Response::default()).await?;
        let before = scrape(attack).await?;
        for number in 0..HELMOPS {
            let repo = format!("{}/{}", server.url(), "a".repeat(LENGTH));
            let spec = json!({ "helm": { "repo": repo, "chart": "web", "version": "1.x" } });
            attack.create("helmops", &format!("long-{number}"), spec).await?;
        }
        eventually("a status of each", SOON, async || {
            for number in 0..HELMOPS {
                let helmop = attack.get("helmops", &format!("long-{number}")).await?;
                anyhow::ensure!(
                    helmop["status"]["conditions"].is_array(),
                    "long-{number} has none"
                );
            }
            Ok(())
        })
        .await?;
        match scrape(attack).await {
            Ok(after) => {
                let growth = after.saturating_sub(before);
                attack.check(
                    growth < GROWTH,
                    format!("the response to a scrape grows by {growth} bytes"),
                );
            }
            Err(error) => attack.check(false, format!("the scrape: {error:#}")),
        }
        attack.neighbour_works().await;
        Ok(())
    });
}

/// Scrapes the controller, and returns the length of the response.
async fn scrape(attack: &Attack<'_>) -> Result<usize> {
    let ports = attack.env.admin_ports();
    let url = format!("{}/metrics", ports[0].1);
    Ok(probe::get(&probe::client(None)?, &url).await?.len())
}

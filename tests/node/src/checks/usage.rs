//! Memory and CPU time of each pod, from cgroups: alone, while 50 HelmOps are deployed, and with them.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;
use tokio::time::sleep;

use crate::node::cgroup::{self, Usage};
use crate::report::{Report, note};
use crate::site::{Site, container};

const HELMOPS: usize = 50;
/// Long enough for some polls.
const OBSERVED: Duration = Duration::from_mins(1);
const MIB: f64 = 1024.0 * 1024.0;

pub async fn run(site: &Site, report: &mut Report) -> Result<()> {
    sleep(OBSERVED / 2).await;
    note(&observe(site, "idle", OBSERVED).await?);
    let start = Instant::now();
    let before = read(site).await?;
    for number in 0..HELMOPS {
        let chart = json!({
            "namespace": "many", "pollingInterval": "5m",
            "helm": { "chart": "pod", "releaseName": format!("many-{number}") },
        });
        site.apply(&format!("many-{number}"), &chart).await?;
    }
    let all = async || {
        for number in 0..HELMOPS {
            site.ready(&format!("many-{number}")).await?;
        }
        Ok(())
    };
    report
        .within(300, &format!("{HELMOPS} HelmOps are ready"), all)
        .await;
    note(&table(
        "while they are deployed",
        &before,
        &read(site).await?,
        start.elapsed(),
    ));
    note(&observe(site, &format!("with {HELMOPS} HelmOps"), OBSERVED).await?);
    let names: Vec<_> = (0..HELMOPS).map(|number| format!("many-{number}")).collect();
    site.delete(&names.iter().map(String::as_str).collect::<Vec<_>>())
        .await
}

/// The names of pods, and what they use.
type Reading = Vec<(String, Usage)>;

async fn observe(site: &Site, when: &str, time: Duration) -> Result<String> {
    let before = read(site).await?;
    sleep(time).await;
    Ok(table(when, &before, &read(site).await?, time))
}

async fn read(site: &Site) -> Result<Reading> {
    let pods = site.pods().await?;
    let reading = pods.iter().map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        Ok((name.to_owned(), cgroup::usage(&container(pod)?)?))
    });
    reading.collect()
}

fn table(when: &str, before: &Reading, after: &Reading, time: Duration) -> String {
    let mut lines = vec![format!(
        "{when}: {:<36} {:>12} {:>9} {:>8}",
        "pod", "working set", "peak", "CPU"
    )];
    for ((name, before), (_, after)) in before.iter().zip(after) {
        let mib = |bytes: u64| f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) * 1024.0 / MIB;
        let milli = (after.cpu.saturating_sub(before.cpu)).as_secs_f64() * 1000.0 / time.as_secs_f64();
        let (working_set, peak) = (mib(after.working_set), mib(after.peak));
        lines.push(format!(
            "{name:<42} {working_set:>8.1} MiB {peak:>5.1} MiB {milli:>6.1} m"
        ));
    }
    lines.join("\n")
}

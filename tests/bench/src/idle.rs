//! When a process with reconciliations has nothing to do any more, from its metrics.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use helmops_bed::metrics::Metrics;
use helmops_bed::wait::eventually;

/// Far longer than any benchmark takes.
const DEADLINE: Duration = Duration::from_mins(10);
/// Reconciliations that follow from each other have shorter pauses.
const PAUSE: Duration = Duration::from_millis(300);

/// Waits until the number of reconciliations stays the same for a short time. `admin` is the base URL of the metrics.
pub async fn wait_until_idle(admin: &str) -> Result<()> {
    let url = format!("{admin}/metrics");
    let mut before = -1.0;
    eventually("the process to be idle", DEADLINE, async || {
        tokio::time::sleep(PAUSE).await;
        let metrics = Metrics::scrape(&url).await?;
        let done = metrics
            .sum("helmops_reconcile_total", &[])
            .context("no such metric")?;
        let is_same = (done - before).abs() < 0.5;
        before = done;
        ensure!(is_same, "{done} reconciliations, and still increasing");
        Ok(())
    })
    .await
}

/// When the last reconciliation ended. It is exact, while the end of a wait depends on the times of the scrapes.
pub async fn last_success(admin: &str) -> Result<SystemTime> {
    let metrics = Metrics::scrape(&format!("{admin}/metrics")).await?;
    let seconds = metrics.sum("helmops_last_success_timestamp_seconds", &[]);
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds.context("no reconciliation succeeded")?))
}

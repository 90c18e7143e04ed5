//! Waiting for a condition instead of sleeping.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::time::{Instant, sleep, timeout_at};

/// A condition that already holds is noticed immediately, one that almost holds soon after.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// A long wait must not load the machine.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Repeats `attempt` until it is `Ok`; its error is the reason to continue waiting.
///
/// ```no_run
/// # use {anyhow::{Context, Result}, std::time::Duration};
/// # use helmops_bed::{kubectl::Kubectl, wait::eventually};
/// # async fn example(kubectl: Kubectl) -> Result<()> {
/// let version = eventually("a resolved version", Duration::from_secs(10), async || {
///     let helmop = kubectl.get("helmop/nginx").await?.context("no such object")?;
///     Ok(helmop["status"]["version"].as_str().context("no version yet")?.to_owned())
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// After `deadline`, with `what` and the error of the last attempt.
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    let mut pause = FIRST_PAUSE;
    let mut last = anyhow!("the first attempt has not ended");
    loop {
        match timeout_at(end, attempt()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(reason)) => last = reason,
            Err(_) => break,
        }
        if Instant::now() + pause >= end {
            break;
        }
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 3 / 2);
    }
    Err(last.context(format!("timed out after {deadline:?} waiting for {what}")))
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_success_is_returned() {
        let mut tries = 0;
        let value = eventually("three tries", Duration::from_secs(5), async || {
            tries += 1;
            if tries < 3 {
                bail!("only {tries}")
            }
            Ok(tries)
        })
        .await;
        assert_eq!(value.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_timeout_error_contains_the_condition_and_the_last_error() {
        let mut tries = 0;
        let start = Instant::now();
        let error = eventually("the moon", Duration::from_secs(2), async || -> Result<()> {
            tries += 1;
            bail!("try {tries}")
        })
        .await
        .unwrap_err();
        assert!(start.elapsed() <= Duration::from_secs(2));
        assert!(tries > 5, "polled {tries} times");
        assert_eq!(
            format!("{error:#}"),
            format!("timed out after 2s waiting for the moon: try {tries}")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_attempt_ends_at_the_deadline() {
        let error = eventually("a response", Duration::from_secs(2), async || {
            std::future::pending::<Result<()>>().await
        })
        .await
        .unwrap_err();
        assert!(format!("{error:#}").contains("a response"));
    }
}

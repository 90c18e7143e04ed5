//! Waiting for a condition instead of sleeping for luck.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::time::{Instant, sleep, timeout_at};

/// A condition that holds already is seen at once, one that nearly holds soon after.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// A long wait must not load the machine that it waits for.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Repeats `attempt` until it is `Ok`; its error is the reason to go on waiting.
///
/// ```no_run
/// # use {anyhow::{Context, Result}, std::time::Duration};
/// # use helmops_tests::{kubectl::Kubectl, wait::eventually};
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
/// After `deadline`: what was awaited, and the last reason why it had not come.
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
    Err(last.context(format!("waited {deadline:?} for {what}, in vain")))
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_success_ends_the_wait() {
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
    async fn the_deadline_tells_what_was_awaited_and_the_last_reason() {
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
            format!("waited 2s for the moon, in vain: try {tries}")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_hangs_does_not_outlast_the_deadline() {
        let error = eventually("an answer", Duration::from_secs(2), async || {
            std::future::pending::<Result<()>>().await
        })
        .await
        .unwrap_err();
        assert!(format!("{error:#}").contains("an answer"));
    }
}
